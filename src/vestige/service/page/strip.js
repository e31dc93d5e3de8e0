// The strip: one mark for each of the newest rounds; those held stand tall and fade with age, the others lie on the ground.
import { prepare, write } from "./canvas.js";
import { byId, count, setText } from "./format.js";
import { colour } from "./theme.js";

const canvas = byId("strip");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const TOP = 26, GROUND = 108, HIGH = GROUND - TOP;
const FADED = 0.72; // opacity of the oldest, which still has the contrast of graphics
const FRESH = 0.6; // height of those that are not decided yet: they rise or fall
let state = null; // {t, rounds: Set, first, last, retention}
let heights = new Map();
let shown = null; // the newest round at the right edge, moving towards state.t
let watched = null;
let running = false;

const limit = () => state.retention ?? 128;
const span = () => Math.max(32, Math.min(Math.round(1.5 * limit()), Math.floor(canvas.clientWidth / 4)));

export function setStrip(records, definition, record) {
  const clock = records.clock;
  state = { t: clock.t, rounds: new Set(records.rounds), first: clock.first, last: clock.last, retention: definition.retention };
  if (shown === null || state.t < shown || state.t - shown > span()) shown = state.t;
  for (const round of heights.keys()) if (round <= state.t - 2 * span()) heights.delete(round);
  describe(records, definition, record);
  drawStrip();
}

export function watchRound(round) {
  if (round !== watched) drawStrip();
  watched = round;
  byId("watch-legend").hidden = round === null;
}

export function resetStrip() { state = null; shown = null; heights = new Map(); for (const id of ["arrived", "held", "gone"]) setText(id, "–"); setText("strip-text", ""); prepare(canvas); }

export function drawStrip() {
  if (!running) { running = true; requestAnimationFrame(frame); }
}

export function onPick(pick) {
  canvas.classList.add("picks");
  canvas.addEventListener("click", (event) => {
    if (state === null) return;
    const each = canvas.clientWidth / span();
    const round = Math.round(shown) - Math.floor((canvas.clientWidth - event.offsetX) / each);
    if (round >= 1 && round <= state.t) pick(round);
  });
}

export function setCounts({ t, held }, text = "To see which records are held, use a token with the scope audit.") {
  setText("arrived", count(t));
  setText("held", count(held));
  setText("gone", count(t - held));
  setText("strip-text", text);
}

function describe(records, definition, record) {
  const held = state.rounds.size;
  const parts = [];
  if (held && definition.retention) parts.push(`The oldest ${record} held came ${count(state.t - Math.min(...state.rounds) + 1)} ${record}s ago; after ${count(definition.retention)} none may be left.`);
  const times = records.times.filter(Boolean).map(Date.parse);
  if (times.length && definition.max_age) parts.push(`The oldest ${record} held is of ${new Date(Math.min(...times)).toLocaleString("en-GB")}; none may be older than ${spell(definition.max_age)}.`);
  const leaving = records.leaving.filter(Boolean).length;
  if (leaving) parts.push(`${count(leaving)} ${leaving === 1 ? "was" : "were"} asked to leave and ${leaving === 1 ? "goes" : "go"} with the next update.`);
  setCounts({ t: state.t, held }, parts.join(" "));
}

export function spell(seconds) { // "2592000s" as days, hours or minutes
  const n = Number.parseFloat(seconds);
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) if (n >= length && n % length === 0) return `${count(n / length)} ${unit}${n === length ? "" : "s"}`;
  return `${count(n)} seconds`;
}

function frame() {
  running = false;
  if (state === null || !canvas.clientWidth) return;
  const { pen, width } = prepare(canvas);
  const n = span(), each = width / n;
  shown = still.matches ? state.t : shown + (state.t - shown) * 0.14;
  if (state.t - shown < 0.02) shown = state.t;
  let moving = shown !== state.t;
  zones(pen, width, each);
  const colours = Object.fromEntries(["mean", "gone", "watched"].map((name) => [name, colour(name)]));
  for (let round = Math.max(1, Math.floor(shown) - n); round <= Math.ceil(shown); round++) {
    const goal = !state.rounds.has(round) ? 0 : round > state.last ? FRESH : 1;
    const before = heights.get(round) ?? (goal && round > shown - 2 ? 0 : goal);
    const height = still.matches || Math.abs(goal - before) < 0.01 ? goal : before + (goal - before) * 0.12;
    heights.set(round, height);
    moving ||= height !== goal;
    mark(pen, width - (shown - round + 1) * each, each, height, round, colours);
  }
  write(pen, "newest", width, 136, "right");
  write(pen, `${count(n)} ago`, 0, 136);
  if (moving) drawStrip();
}

function mark(pen, x, each, height, round, colours) {
  const wide = Math.max(1.5, Math.min(each * 0.66, 9)), fresh = round > state.last, chosen = round === watched;
  const tall = 5 + (HIGH - 5) * height;
  pen.fillStyle = chosen ? colours.watched : height > 0.02 ? colours.mean : colours.gone;
  if (height <= 0.02) pen.fillRect(x, GROUND + 4, wide, 3);
  else if (fresh && !chosen) {
    pen.strokeStyle = colours.mean;
    pen.lineWidth = 1.2;
    pen.beginPath(); pen.roundRect(x + 0.6, GROUND - tall + 0.6, Math.max(0.8, wide - 1.2), tall - 0.6, 1.5); pen.stroke();
  } else {
    pen.globalAlpha = chosen ? 1 : 1 - (1 - FADED) * Math.min(1, (state.t - round) / limit());
    pen.beginPath(); pen.roundRect(x, GROUND - tall, wide, tall, Math.min(2, wide / 2)); pen.fill();
    pen.globalAlpha = 1;
  }
  if (chosen) { pen.beginPath(); pen.arc(x + wide / 2, GROUND + 13, 4, 0, 7); pen.fill(); }
}

// Where the answer is written, and where the limit is.
function zones(pen, width, each) {
  const at = (round) => width - (shown - round + 1) * each;
  const left = Math.max(0, at(state.first)), right = at(state.last + 1);
  if (state.last >= state.first && right > left) {
    pen.fillStyle = colour("soft");
    pen.beginPath(); pen.roundRect(left, 0, right - left, GROUND, 6); pen.fill();
    if (right - left > 190) write(pen, "which of these are kept is the answer", left + 8, 16);
    else if (right - left > 80) write(pen, "the answer", left + 8, 16);
  }
  if (right < width - 90 && state.last > 0) write(pen, "just arrived", Math.max(right, 0) + 8, 16);
  const border = at(state.t - limit() + 1);
  if (state.retention && border > 0) {
    pen.strokeStyle = colour("watched");
    pen.setLineDash([4, 4]);
    pen.lineWidth = 1.5;
    pen.beginPath(); pen.moveTo(border, 0); pen.lineTo(border, GROUND + 8); pen.stroke();
    pen.setLineDash([]);
    if (border > 60) write(pen, border > 170 ? "past the limit: all erased" : "limit", border - 8, 16, "right", "watched");
  }
}
