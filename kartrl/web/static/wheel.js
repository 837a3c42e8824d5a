// Turns held keys and gamepads into an action.

const WORDS = { // of actions, that for which there is an action; the letter of a key is one too
  ArrowLeft: ["LEFT"], ArrowRight: ["RIGHT"], ArrowUp: ["UP", "FORWARD", "MAIN", "GAS", "B"], ArrowDown: ["DOWN", "BRAKE", "Y"],
  KeyX: ["B"], KeyC: ["Y"], KeyV: ["A"], KeyD: ["X"], Space: ["FIRE", "BUTTON", "R", "L", "A", "B"], ShiftLeft: ["L"], ShiftRight: ["L"],
};
const JOYPAD = ["KeyX", "KeyC", "Backspace", "Enter", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "KeyV", "KeyD", "ShiftLeft", "Space"]; // by bit
const PAD = ["KeyX", "KeyV", "KeyC", "KeyD", "Space", "Space", "KeyC", "KeyX", "Backspace", "Enter", , , "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
const AXES = [["ArrowLeft", "ArrowRight"], ["ArrowDown", "ArrowUp"], ["KeyA", "KeyD"], ["KeyS", "KeyW"]]; // less, more
const UPWARDS = [1, -1, 1, -1]; // a gamepad's axes point down
const DEAD = 0.3; // of a stick

export const HELP = "arrows, A D S W, a gamepad; X C V D, space, shift, enter, backspace: buttons; digits: actions by number; or press a bar, also by tab and enter. T or Esc gives it back.";

// What a name such as left+B or UPRIGHTFIRE says.
function words(name) {
  const said = name.toUpperCase().split("+").flatMap((part) => part.match(/UP|DOWN|LEFT|RIGHT|FIRE|[^+\s]+/g) || []);
  return said.filter((word) => !["NONE", "NOOP"].includes(word));
}

// What a key says, of the words that there are.
function meant(code, known, joypad) {
  const said = [joypad[JOYPAD.indexOf(code)], ...(WORDS[code] || []), code.startsWith("Key") ? code.slice(3) : ""];
  return said.find((word) => known.has(word));
}

export class Wheel {
  constructor() {
    this.keys = new Set();
    this.pressed = new Map(); // column -> index of a bar
    this.turn = 0;
    this.begin({ columns: [], joypad: [] });
  }

  // Learns which columns an action has: their kinds, and the names of their alternatives.
  begin({ columns, joypad }) {
    this.columns = columns;
    this.joypad = joypad;
    const [first] = columns;
    this.names = first && first.kind === "choice" ? (first.names.length || first.size !== 2 ? first.names : ["LEFT", "RIGHT"]) : [];
    this.said = this.names.map(words);
    const bits = columns.filter((one) => one.kind === "bit").map((one) => one.name);
    this.known = new Set([...this.said.flat(), ...bits].filter(Boolean));
  }

  takes(code) {
    const axis = AXES.findIndex((keys) => keys.includes(code));
    const moves = axis >= 0 && axis < this.columns.length && this.columns[axis].kind === "number";
    return /^(Arrow|Digit\d$|Space)/.test(code) || moves || meant(code, this.known, this.joypad) !== undefined;
  }

  // Whether keys choose among all alternatives of a column; else its bars are reached by tab.
  reaches(column) {
    const { kind, name, size } = this.columns[column];
    if (kind === "bit") return this.digit(column) !== null || [...JOYPAD, ...Object.keys(WORDS)].some((code) => meant(code, this.known, this.joypad) === name);
    if (kind === "number") return column < AXES.length;
    return column === 0 && (size <= 10 || this.joypad.length > 0);
  }

  // The key of a bit that is one of a few.
  digit(column) {
    return this.columns[0].kind === "bit" && !this.joypad.length && column < 10 ? `Digit${(column + 1) % 10}` : null;
  }

  release() {
    this.keys.clear();
    this.pressed.clear();
  }

  // The action, a number for each column; what nobody holds is the network's.
  action(actions) {
    const held = new Set(this.keys), axes = [];
    for (const pad of navigator.getGamepads ? navigator.getGamepads() : []) {
      if (!pad) continue;
      pad.buttons.forEach((button, at) => { if (button.pressed && PAD[at]) held.add(PAD[at]); });
      pad.axes.forEach((value, at) => {
        if (Math.abs(value) < DEAD || !AXES[at]) return;
        axes[at] = UPWARDS[at] * value;
        if (at < 2) held.add(AXES[at][axes[at] < 0 ? 0 : 1]);
      });
    }
    this.turn++;
    const said = new Set([...held].map((code) => meant(code, this.known, this.joypad)));
    return actions.map((one, column) => {
      const { kind, name, size } = this.columns[column];
      if (this.pressed.has(column)) return this.pressed.get(column);
      if (kind === "number") return AXES[column] ? axes[column] || held.has(AXES[column][1]) - held.has(AXES[column][0]) || this.rest(one) : this.own(one);
      if (kind === "bit") return this.reaches(column) ? Number(said.has(name) || held.has(this.digit(column))) : one.chosen;
      const [digit] = column === 0 ? [...held].filter((code) => /^Digit\d$/.test(code) && Number(code.slice(5)) < size) : [];
      if (digit) return Number(digit.slice(5));
      return column === 0 && this.names.length ? this.best(said) : one.chosen;
    });
  }

  // A number as the network's decision has it, -1 to 1: that which the network has taken, and the one next to zero.
  own(one, taken = one.values[3]) {
    return Math.max(-1, Math.min(1, (2 * (taken - one.low)) / (one.high - one.low) - 1));
  }

  rest(one) {
    return this.own(one, Math.max(one.low, Math.min(one.high, 0)));
  }

  // The alternative that says most of what is held and least of what is not; of several, one after another.
  best(held) {
    let best = [], most = -Infinity;
    this.said.forEach((own, index) => {
      const right = own.filter((word) => held.has(word)).length, score = 3 * right - own.length;
      if (score > most) [best, most] = [[], score];
      if (score === most) best.push(index);
    });
    return best[this.turn % best.length];
  }
}
