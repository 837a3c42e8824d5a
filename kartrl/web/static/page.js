// Receives what the server shows, draws it, and sends what the viewer asks for.

import { byId, drawBars, drawMap, drawPicture, element, plot, short } from "./draw.js";
import { HELP, Wheel } from "./wheel.js";

const [VALUE, ENTROPY, REWARD, TOTAL, PARTS, PLACE, LAP, BY_HAND] = [0, 1, 2, 3, 4, 5, 6, 7];
const SHOWN = 600; // newest steps in the charts
const FORMER = 8; // lines of former episodes on the map
const wheel = new Wheel();
let socket, about = {}, state = {}, rows = [], former = [], map = null, you = 0, sent = "", latest = null, drawing = false;
let explains = null; // what the viewer has asked for, until the server says so too

const ask = (what, value) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(value === undefined ? { do: what } : { do: what, value }));
const driving = () => you > 0 && state.wheel === you;
const notice = (text) => { byId("notice").textContent = text; };

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/live${location.search}`);
  socket.binaryType = "arraybuffer";
  let opened = false;
  socket.onopen = () => { opened = true; notice("waiting for a picture ..."); };
  socket.onmessage = ({ data }) => {
    if (typeof data === "string") {
      if (JSON.parse(data).about) setAbout(JSON.parse(data).about);
    } else take(data);
  };
  socket.onclose = () => {
    notice(opened ? "kartrl has ended; this page connects again when it is back." : "Cannot connect: is kartrl running, and is this the address that it has printed, with its token?");
    wheel.release();
    setTimeout(connect, 2000);
  };
}

// The head of a frame, and its pictures.
function take(data) {
  const length = new DataView(data).getUint32(0), head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  let begin = 4 + length;
  const pictures = head.pictures.map(([name, size]) => {
    begin += size;
    return [name, new Blob([new Uint8Array(data, begin - size, size)], { type: "image/jpeg" })];
  });
  you = head.you;
  if (head.state.wait) {
    notice(head.state.wait);
    ask("seen");
    return;
  }
  if (head.from === 0) begun(head);
  rows.length = Math.min(rows.length, head.from);
  rows.push(...head.rows);
  latest = { head, pictures: { ...(latest ? latest.pictures : {}), ...Object.fromEntries(pictures) } };
  if (!drawing) requestAnimationFrame(show);
  drawing = true;
}

// A new episode: the line of the last one stays on the map, if it is on the same level.
function begun(head) {
  if (head.state.title !== state.title) former = [];
  else if (rows.length > 1 && rows[0][PLACE].length) former = [...former, rows.map((row) => row[PLACE])].slice(-FORMER);
  rows = [];
  map = null;
}

async function show() {
  const { head, pictures } = latest;
  latest = null;
  state = head.state;
  const images = {};
  await Promise.all(Object.entries(pictures).map(async ([name, file]) => { images[name] = await createImageBitmap(file); }));
  draw(images);
  Object.values(images).forEach((image) => image !== map && image.close());
  ask("seen");
  drive();
  drawing = latest !== null;
  if (drawing) requestAnimationFrame(show);
}

function draw(images) {
  byId("notice").textContent = state.note;
  const main = document.querySelector("main");
  main.hidden = false;
  main.dataset.episode = state.episode;
  byId("title").textContent = document.title = state.title;
  byId("policy").textContent = `${state.file}, ${state.policy}`;
  drawPicture(byId("picture"), images.picture);
  byId("summary").hidden = !state.summary;
  byId("summary").textContent = state.summary;
  const now = rows[rows.length - 1];
  for (const [id, text] of [["step", rows.length - 1], ["reward", short(now[REWARD])], ["return", short(now[TOTAL])], ["value", short(now[VALUE])], ["entropy", short(now[ENTROPY])]]) byId(id).textContent = text;
  byId("driven").hidden = !state.wheel;
  byId("driven").textContent = driving() ? "you drive" : "a viewer drives";
  for (const [id, on, names] of [["pause", state.paused, ["Pause", "Continue"]], ["wheel", driving(), ["Take the wheel", "Give it back"]]]) {
    byId(id).setAttribute("aria-pressed", on);
    byId(id).textContent = names[Number(on)];
  }
  byId("help").hidden = !driving();
  choose("policies", state.file);
  choose("levels", `${state.place}`);
  choose("speeds", `${state.speed}`);
  choose("greedy", `${state.greedy}`);
  if (document.activeElement !== byId("seed")) byId("seed").value = state.seed;
  if (explains === state.explain || state.note) explains = null; // the note may say that it cannot be
  byId("explain").checked = explains ?? state.explain;
  drawBars(document.querySelector("#actions div"), state.actions, (column, index) => {
    if (index === null) wheel.pressed.delete(column);
    else if (driving()) wheel.pressed.set(column, index);
    drive();
  }, (column) => driving() && !wheel.reaches(column));
  const begin = Math.max(0, rows.length - SHOWN), newest = rows.slice(begin);
  const curve = (id, what) => plot(byId(id), newest.map((row, at) => [begin + at, row[what], row[BY_HAND]]), (point) => point[2] === 1);
  curve("values", VALUE);
  curve("entropies", ENTROPY);
  curve("returns", TOTAL);
  plot(byId("curve"), about.curve); // each time: it has no size before all is shown
  drawParts(now[PARTS]);
  drawSeen(images);
  if (images.map) map = images.map;
  byId("mapped").hidden = !map;
  if (map) {
    const laps = [];
    rows.forEach((row, at) => {
      if (at === 0 || row[LAP] !== rows[at - 1][LAP]) laps.push(at ? [rows[at - 1][PLACE]] : []);
      laps[laps.length - 1].push(row[PLACE]);
    });
    drawMap(byId("map"), map, former, laps);
  }
}

function drawParts(parts) {
  const names = Object.keys(parts), sums = {};
  byId("parts").hidden = !names.length;
  if (!names.length) return;
  for (const row of rows) for (const name of names) sums[name] = (sums[name] || 0) + (row[PARTS][name] || 0);
  document.querySelector("#parts tbody").replaceChildren(...names.map((name) => {
    const made = document.createElement("tr");
    made.append(element("td", name.replaceAll("_", " ")), element("td", short(parts[name])), element("td", short(sums[name])));
    return made;
  }));
}

function drawSeen(images) {
  const root = document.querySelector("#seen div"), kinds = [["seen", ""], ["value", "moves the value"], ["action", "moves the action"]];
  const shape = JSON.stringify([state.seen.map((part) => [part.name, part.size, part.images]), state.explain]);
  if (root.dataset.shape !== shape) {
    root.dataset.shape = shape;
    root.replaceChildren(...state.seen.map((part) => {
      const made = element("div", "", "part"), list = element("div", "", part.images ? "images" : "numbers");
      made.append(element("p", `${part.name} ${part.size}`.trim(), "dim"), list);
      for (const [kind, title] of part.images ? kinds.slice(0, state.explain ? 3 : 1) : []) {
        const figure = document.createElement("figure");
        figure.append(document.createElement("canvas"), element("figcaption", title || "newest"));
        figure.dataset.kind = kind;
        list.append(figure);
      }
      for (let place = 1; place < part.images; place++) {
        const figure = element("figure", "", "old");
        figure.append(document.createElement("canvas"), element("figcaption", `${place} before`));
        list.append(figure);
      }
      return made;
    }));
  }
  state.seen.forEach((part, number) => {
    const list = root.children[number].lastChild;
    if (!part.images) {
      list.replaceChildren(...part.numbers.map((value, at) => {
        const made = element("span", short(value));
        if (part.moved) {
          made.title = `moves the value ${part.moved[0][at]}, the action ${part.moved[1][at]}`;
          made.style.borderBottomColor = `rgb(from var(--hot) r g b / ${Math.abs(part.moved[0][at])})`;
        }
        return made;
      }));
      return;
    }
    for (const [kind] of kinds) {
      const figure = list.querySelector(`[data-kind=${kind}]`), image = images[`${kind}${number}`];
      if (figure && image) drawPicture(figure.firstChild, image, 0, kind === "seen" ? part.images : 1);
    }
    const strip = images[`seen${number}`];
    if (strip) list.querySelectorAll(".old canvas").forEach((canvas, at) => drawPicture(canvas, strip, at + 1, part.images));
  });
}

function setAbout(given) {
  about = given;
  wheel.begin(about);
  options("policies", about.policies.map((name) => [name, name]));
  options("levels", [["-1", "one after another"], ...about.levels.map((name, place) => [`${place}`, name])]);
  options("speeds", about.speeds.map((speed) => [`${speed}`, `${speed} ×`]));
  byId("level").hidden = about.levels.length < 2;
  byId("next").hidden = false;
  byId("training").hidden = !about.training;
  byId("training").textContent = "in training";
  byId("trained").hidden = about.curve.length < 2;
  byId("help").textContent = HELP;
}

function options(id, entries) {
  const list = byId(id), text = JSON.stringify(entries);
  if (list.dataset.entries === text) return;
  list.dataset.entries = text;
  list.replaceChildren(...entries.map(([value, title]) => new Option(title, value)));
  choose(id, { policies: state.file, levels: `${state.place}`, speeds: `${state.speed}` }[id]);
}

function choose(id, value) {
  if (document.activeElement !== byId(id) && byId(id).value !== value) byId(id).value = value;
}

// Sends the action of whoever drives here, when it changes.
function drive() {
  if (!driving()) {
    sent = "";
    return;
  }
  const action = wheel.action(state.actions), text = JSON.stringify(action);
  if (text !== sent) ask("hand", action);
  sent = text;
}

byId("pause").onclick = () => ask("pause", !state.paused);
byId("one").onclick = () => { drive(); ask("step"); }; // a gamepad sends no event, and a paused show no frame
byId("reset").onclick = () => ask("reset");
byId("next").onclick = () => ask("next");
byId("wheel").onclick = () => { ask("wheel", !driving()); byId("wheel").blur(); };
byId("explain").onchange = ({ target }) => { explains = target.checked; ask("explain", explains); };
for (const [id, what, read] of [["policies", "policy", String], ["levels", "level", Number], ["speeds", "speed", Number], ["greedy", "greedy", (value) => value === "true"], ["seed", "reset", Number]]) {
  byId(id).onchange = ({ target }) => { if (target.reportValidity()) ask(what, read(target.value)); target.blur(); };
}

const SHORTCUTS = { Space: "pause", Period: "one", KeyR: "reset", KeyN: "next", KeyT: "wheel" };
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
  if (driving() && (event.code === "Escape" || event.code === "KeyT")) ask("wheel", false);
  else if (driving() && wheel.takes(event.code) && !(event.code === "Enter" && event.target.tagName === "BUTTON")) wheel.keys.add(event.code);
  else if (SHORTCUTS[event.code] && !event.repeat && !(event.code === "Space" && event.target.tagName === "BUTTON")) byId(SHORTCUTS[event.code]).click();
  else return;
  event.preventDefault();
  drive();
});
addEventListener("keyup", (event) => { wheel.keys.delete(event.code); drive(); });
addEventListener("blur", () => { wheel.release(); drive(); });

connect();
