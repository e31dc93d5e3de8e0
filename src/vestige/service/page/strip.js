// The strip: one mark for each of the last rounds; those held stand tall, the others lie on the ground.
import { prepare, write } from "./canvas.js";
import { colour } from "./theme.js";
import { count, setText } from "./format.js";

const canvas = document.getElementById("strip");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const GROUND = 112, TALL = 78;
let state = null; // {t, rounds: Set, first, last, retention}
let heights = new Map();
let shown = null; // the newest round at the right edge, moving towards state.t
let watched = null;
let running = false;

const span = () => Math.min(Math.max(2 * (state.retention ?? 64), 64), 400, Math.max(48, Math.floor(canvas.clientWidth / 3)));

export function setStrip(records, definition) {
  const clock = records.clock;
  state = { t: clock.t, rounds: new Set(records.rounds), first: clock.first, last: clock.last, retention: definition.retention };
  if (shown === null || state.t < shown || state.t - shown > span()) shown = state.t;
  for (const round of heights.keys()) if (round <= state.t - 2 * span()) heights.delete(round);
  describe(definition);
  drawStrip();
}

export function watchRound(round) {
  watched = round;
  document.getElementById("watch-legend").hidden = round === null;
  drawStrip();
}

export function resetStrip() { state = null; shown = null; heights = new Map(); }

export function drawStrip() {
  if (!running) { running = true; requestAnimationFrame(frame); }
}

export function onPick(pick) {
  canvas.addEventListener("click", (event) => {
    if (state === null) return;
    const each = canvas.clientWidth / span();
    const round = Math.round(shown) - Math.floor((canvas.clientWidth - event.offsetX) / each);
    if (round >= 1) pick(round);
  });
}

function describe(definition) {
  const oldest = state.rounds.size ? state.t - Math.min(...state.rounds) + 1 : 0;
  const limit = definition.retention ? ` None may stay longer than ${count(definition.retention)} rounds.` : "";
  setText("strip-text", `${count(state.rounds.size)} of ${count(state.t)} records are held; the oldest arrived ${count(oldest)} rounds ago.${limit}`);
}

function frame() {
  running = false;
  if (state === null) return;
  const { pen, width } = prepare(canvas);
  const n = span(), each = width / n;
  shown = still.matches ? state.t : shown + (state.t - shown) * 0.14;
  if (state.t - shown < 0.02) shown = state.t;
  let moving = shown !== state.t;
  border(pen, width, each);
  const colours = Object.fromEntries(["mean", "gone", "watched"].map((name) => [name, colour(name)]));
  for (let round = Math.max(1, Math.floor(shown) - n); round <= Math.ceil(shown); round++) {
    const goal = state.rounds.has(round) ? 1 : 0;
    const before = heights.get(round) ?? (goal && round > shown - 2 ? 0 : goal);
    const height = still.matches || Math.abs(goal - before) < 0.01 ? goal : before + (goal - before) * 0.12;
    heights.set(round, height);
    moving ||= height !== goal;
    mark(pen, width - (shown - round + 1) * each, each, height, round, colours);
  }
  write(pen, "newest", width, 146, "right");
  write(pen, `${count(n)} rounds ago`, 0, 146);
  if (moving) drawStrip();
}

function mark(pen, x, each, height, round, colours) {
  const wide = Math.max(1.5, each * 0.68), fresh = round > state.last;
  const chosen = round === watched;
  pen.fillStyle = chosen ? colours.watched : height > 0.02 ? colours.mean : colours.gone;
  if (height > 0.02) {
    const tall = 6 + (TALL - 6) * height;
    if (fresh && !chosen) {
      pen.strokeStyle = colours.mean;
      pen.lineWidth = 1.2;
      pen.strokeRect(x + 0.6, GROUND - tall, Math.max(0.8, wide - 1.2), tall);
    } else pen.fillRect(x, GROUND - tall, wide, tall);
  } else pen.fillRect(x, GROUND + 3, wide, 3);
  if (chosen) {
    pen.beginPath();
    pen.arc(x + wide / 2, GROUND + 16, 4, 0, 7);
    pen.fill();
  }
}

function border(pen, width, each) {
  const at = (round) => width - (shown - round + 1) * each;
  pen.fillStyle = colour("soft");
  const left = Math.max(0, at(state.first)), right = at(state.last + 1);
  if (state.last >= state.first && right > left) {
    pen.fillRect(left, 8, right - left, GROUND);
    if (right - left > 150) write(pen, "the batch that holds the answer", left + 6, 22);
  }
  if (state.retention && at(state.t - state.retention + 1) > 0) {
    const x = at(state.t - state.retention + 1);
    pen.strokeStyle = colour("watched");
    pen.setLineDash([4, 4]);
    pen.lineWidth = 1.5;
    pen.beginPath(); pen.moveTo(x, 8); pen.lineTo(x, GROUND + 8); pen.stroke();
    pen.setLineDash([]);
    write(pen, "limit", x - 5, 22, "right", "watched");
  }
}
