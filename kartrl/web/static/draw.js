// Draws on canvases, in the page's colours.

export const byId = (id) => document.getElementById(id);

export const short = (x) => (x === null || x === undefined ? "-" : Math.abs(x) >= 1000 ? x.toFixed(0) : x.toFixed(Math.abs(x) >= 10 ? 1 : 3));

export function element(tag, text = "", name = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = name;
  return made;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A context for a canvas in pixels of its style, however dense the display is.
function begin(canvas) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

// Lines over points [x, y]; y of null is left out. `marked` tells whether a point is drawn in the other colour.
export function plot(canvas, points, marked = () => false) {
  const { context, width, height } = begin(canvas);
  const known = points.filter((point) => point[1] !== null);
  if (!known.length || !width) return;
  let low = Math.min(...known.map((point) => point[1])), high = Math.max(...known.map((point) => point[1]));
  if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
  const first = known[0][0], last = Math.max(known[known.length - 1][0], first + 1), left = 46, room = height - 14;
  const x = (value) => left + ((value - first) / (last - first)) * (width - left - 4);
  const y = (value) => 7 + ((high - value) / (high - low)) * room;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const value of low < 0 && high > 0 && room > 60 ? [low, 0, high] : [low, high]) {
    context.strokeStyle = colour("--line");
    context.fillStyle = colour("--dim");
    context.beginPath();
    context.moveTo(left, y(value));
    context.lineTo(width, y(value));
    context.stroke();
    if (value !== 0 || (y(low) - y(0) > 12 && y(0) - y(high) > 12)) context.fillText(short(value), left - 5, y(value));
  }
  context.lineWidth = 1.6;
  for (let index = 1; index < known.length; index++) {
    if (index === 1 || marked(known[index]) !== marked(known[index - 1])) {
      if (index > 1) context.stroke();
      context.beginPath();
      context.moveTo(x(known[index - 1][0]), y(known[index - 1][1]));
      context.strokeStyle = colour(marked(known[index]) ? "--hot" : "--mark");
    }
    context.lineTo(x(known[index][0]), y(known[index][1]));
  }
  if (known.length > 1) context.stroke();
}

// The map with lines of places [x, y], 0 to 1; those of former laps are pale.
export function drawMap(canvas, image, former, laps) {
  canvas.width = image.width;
  canvas.height = image.height;
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  context.fillStyle = "#0006";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.lineJoin = "round";
  const line = (places, style, width) => {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.beginPath();
    for (const [x, y] of places) context.lineTo(x * canvas.width, y * canvas.height);
    context.stroke();
  };
  for (const places of former) line(places, "#ffffff38", 1);
  laps.forEach((places, lap) => line(places, lap < laps.length - 1 ? "#70b4ffb0" : "#ffcf5c", 2));
  const here = laps.length ? laps[laps.length - 1].at(-1) : null;
  if (!here) return;
  context.fillStyle = "#fff";
  context.strokeStyle = "#0d0f16";
  context.beginPath();
  context.arc(here[0] * canvas.width, here[1] * canvas.height, 4, 0, 7);
  context.fill();
  context.stroke();
}

// A picture, or one of the pictures side by side in it.
export function drawPicture(canvas, image, place = 0, number = 1) {
  const width = Math.round(image.width / number);
  if (canvas.width !== width || canvas.height !== image.height) {
    canvas.width = width;
    canvas.height = image.height;
  }
  canvas.getContext("2d").drawImage(image, -place * width, 0);
}

function fill(meter, name, share) {
  const percent = `${(100 * Math.max(0, Math.min(1, share))).toFixed(1)}%`;
  meter.firstChild.style.width = percent;
  meter.setAttribute("aria-label", name);
  meter.setAttribute("aria-valuemax", 100);
  meter.setAttribute("aria-valuenow", parseFloat(percent));
}

// Bars of a choice's alternatives; they are made once, and may be pressed, by tab and enter where `reached` says so.
export function drawBars(root, actions, press, reached) {
  const shape = JSON.stringify(actions.map((one) => [one.name, one.bars ? one.bars.map((bar) => bar[1]) : 0]));
  if (root.dataset.shape !== shape) {
    root.dataset.shape = shape;
    root.replaceChildren(...actions.map((one, column) => {
      const list = element("div", "", "bars"), name = one.name || `${one.bars ? "action" : "number"} ${column + 1}`;
      list.setAttribute("role", "group");
      list.setAttribute("aria-label", name);
      if (one.bars && actions.length > 1) list.dataset.name = name;
      for (const bar of one.bars || [[0, name, 0]]) {
        const made = element(one.bars ? "button" : "div", "", "bar");
        const meter = element("div", "", "meter");
        meter.append(document.createElement("i"));
        meter.setAttribute("role", "meter");
        made.append(element("span", bar[1]), meter, element("span"));
        if (one.bars) {
          for (const kind of ["pointerdown", "pointerup", "pointerleave", "keydown", "keyup", "blur"]) {
            made.addEventListener(kind, (event) => {
              if (kind.startsWith("key") && !["Enter", "Space"].includes(event.code)) return;
              if (kind === "pointerup") made.blur(); // so that keys drive again
              press(column, kind.endsWith("down") ? Number(made.dataset.index) : null);
              if (kind.startsWith("key")) event.stopPropagation();
            });
          }
        }
        list.append(made);
      }
      return list;
    }));
  }
  actions.forEach((one, column) => {
    const drawn = root.children[column].children;
    if (one.bars) {
      one.bars.forEach(([index, name, p], at) => {
        drawn[at].dataset.index = index;
        drawn[at].dataset.p = p;
        drawn[at].tabIndex = reached(column) ? 0 : -1;
        drawn[at].classList.toggle("chosen", index === one.chosen);
        fill(drawn[at].children[1], name, p);
        drawn[at].children[2].textContent = `${(100 * p).toFixed(1)} %`;
      });
    } else {
      const [low, mean, high, chosen] = one.values;
      fill(drawn[0].children[1], drawn[0].firstChild.textContent, (chosen - one.low) / (one.high - one.low));
      drawn[0].dataset.value = chosen;
      drawn[0].title = `mean ${short(mean)}, mostly ${short(low)} to ${short(high)}`;
      drawn[0].children[2].textContent = `${short(mean)} ± ${short((high - low) / 2)}`;
    }
  });
}
