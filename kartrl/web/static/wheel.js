// Turns held keys and gamepads into an action.

const WORDS = {
  ArrowLeft: ["LEFT"], ArrowRight: ["RIGHT"], ArrowUp: ["UP", "FORWARD", "B"], ArrowDown: ["DOWN", "Y"],
  KeyX: ["B"], KeyC: ["Y"], KeyV: ["A"], KeyD: ["X"], Space: ["FIRE", "R", "L", "A"], ShiftLeft: ["L"], ShiftRight: ["L"],
};
const PAD = ["KeyX", "KeyV", "KeyC", "KeyD", "Space", "Space", "KeyC", "KeyX", , , , , "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
const AXES = [["ArrowLeft", "ArrowRight"], ["ArrowUp", "ArrowDown"]];
const DEAD = 0.3; // of a stick

export const HELP = "arrows or a gamepad; X C V D space: buttons; digits: actions by number; or press a bar. T or Esc gives it back.";

// What a name such as left+B or UPRIGHTFIRE says.
function words(name, index, number, named) {
  if (!named) return number === 2 ? [["LEFT", "RIGHT"][index]] : index ? [`${index}`] : [];
  const said = name.toUpperCase().split("+").flatMap((part) => part.match(/UP|DOWN|LEFT|RIGHT|FIRE|[^+\s]+/g) || []);
  return said.filter((word) => !["NONE", "NOOP"].includes(word));
}

export class Wheel {
  constructor() {
    this.keys = new Set();
    this.pressed = new Map(); // column -> index of a bar
    this.turn = 0;
  }

  takes(code) {
    return code in WORDS || /^Digit\d$/.test(code);
  }

  release() {
    this.keys.clear();
    this.pressed.clear();
  }

  // The action, a number for each column; what nobody holds is the network's.
  action(about, actions) {
    const held = new Set(this.keys), axes = [];
    for (const pad of navigator.getGamepads ? navigator.getGamepads() : []) {
      if (!pad) continue;
      pad.buttons.forEach((button, at) => { if (button.pressed && PAD[at]) held.add(PAD[at]); });
      pad.axes.forEach((value, at) => {
        if (Math.abs(value) < DEAD) return;
        axes[at] = value;
        if (AXES[at]) held.add(AXES[at][value < 0 ? 0 : 1]);
      });
    }
    this.turn++;
    return actions.map((one, column) => {
      if (this.pressed.has(column)) return this.pressed.get(column);
      if (about.kinds[column] === "number") {
        if (!AXES[column]) return axes[column] || this.own(one);
        return axes[column] || held.has(AXES[column][1]) - held.has(AXES[column][0]);
      }
      for (const code of held) {
        const index = Number(code.slice(5));
        if (column === 0 && /^Digit\d$/.test(code) && one.bars.some((bar) => bar[0] === index)) return index;
      }
      return column === 0 ? this.best(about, one, [...held]) : one.chosen;
    });
  }

  // A number as the network's decision has it, -1 to 1.
  own(one) {
    return Math.max(-1, Math.min(1, (2 * (one.values[3] - one.low)) / (one.high - one.low) - 1));
  }

  // The alternative that says most of what is held and least of what is not; of several, one after another.
  best(about, one, held) {
    let best = [], most = -Infinity;
    for (const [index, name] of one.bars) {
      const said = words(name, index, one.bars.length, about.names.length > 0);
      const meant = held.filter((code) => (WORDS[code] || []).some((word) => said.includes(word)));
      const extra = said.filter((word) => !held.some((code) => (WORDS[code] || []).includes(word)));
      const score = 2 * meant.length - extra.length;
      if (score > most) [best, most] = [[], score];
      if (score === most) best.push(index);
    }
    return best[this.turn % best.length];
  }
}
