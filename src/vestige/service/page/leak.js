// What the kept records say about one that is erased, under three policies on one scale. Demo only.
import { byId, count, draw, fillTable, make, number, setText, spread } from "./format.js";

const NAMES = { mean: "Mean", window: "Window", private: "Private" };
const READABLE = 3, PARTLY = 0.3; // bits by which the guess is narrower than that of a stranger
let shown = null;

export function setLeak(demo) {
  const { watched, leak, unit, record } = shown = demo;
  byId("leak-section").hidden = false;
  if (!watched) {
    setText("leak-story", "The first records are being taken.");
    byId("leak").replaceChildren();
    return;
  }
  const ago = demo.t - watched.round;
  byId("leak-story").replaceChildren(make("b", `${watched.subject}, ${record} number ${count(watched.round)},`), ` left ${count(watched.value)} ${unit} late. ${count(ago)} ${ago === 1 ? `${record} has` : `${record}s have`} left since.`);
  drawLeak();
  fillTable("leak-table", "What each policy says", [["policy"], ["held"], [`guess, ${unit}`, true], [`spread, ${unit}`, true], ["bits learned", true], [`error of its answer, ${unit}`, true]],
    leak.map((each) => [NAMES[each.policy], each.held ? "yes" : "no", number(each.guess, each.spread), spread(each.spread), number(each.bits, 0.1), spread(Math.abs(each.error))]));
}

export function drawLeak() {
  if (!shown?.watched) return;
  const { watched, leak, prior } = shown;
  const wide = byId("leak").clientWidth;
  const low = Math.min(watched.value, prior.mean - 2 * prior.deviation), high = Math.max(watched.value, prior.mean + 2 * prior.deviation);
  const at = (x) => 8 + Math.min(1, Math.max(0, (x - low) / (high - low))) * (wide - 16);
  byId("leak").replaceChildren(...leak.map((each, i) => row(each, at, wide, i === leak.length - 1 ? ticks(low, high) : [])));
}

function judge({ policy, held, bits }) {
  if (held) return ["held", "Not erased yet", "Still held, so it can simply be read."];
  if (bits >= READABLE) return ["leak", "Erased, yet still readable", "The choice of the records kept tells it."];
  if (bits >= PARTLY) return ["leak", "Erased, partly readable", "The choice of the records kept tells some of it."];
  if (policy === "private") return ["gone", "Erased, and hidden by noise", "What is left is too little to tell it by."];
  return ["gone", "Erased, and nothing left", "The best guess is the average of all."];
}

function row(each, at, wide, marks) {
  const { policy, guess, spread: off } = each, { unit, watched } = shown;
  const [kind, verdict, why] = judge(each);
  const said = make("p", `${kind === "held" ? count(guess) : number(guess, Math.min(Math.max(off, 0.01), 1))} ${unit}`, { class: "guess", "data-guess": guess });
  if (kind !== "held") said.append(make("small", ` ± ${spread(off)}`));
  const label = `${NAMES[policy]}: guess ${number(guess, 1)} ${unit}, give or take ${spread(off)}; really ${number(watched.value, 1)}`;
  const high = marks.length ? 60 : 40, scale = draw("svg", { role: "img", "aria-label": label, viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none" });
  scale.append(draw("line", { class: "axis", x1: 0, x2: wide, y1: 20, y2: 20 }), draw("line", { class: "real", x1: at(watched.value), x2: at(watched.value), y1: 0, y2: 40 }));
  scale.append(draw("line", { class: "bar-line", x1: at(guess - 2 * off), x2: at(guess + 2 * off), y1: 20, y2: 20 }), draw("circle", { class: "dot", cx: at(guess), cy: 20, r: 7.5 }));
  const side = (x) => (at(x) > wide - 60 ? "end" : at(x) < 40 ? "" : "mid");
  const apart = (x) => Math.abs(at(x) - at(watched.value)) > 90;
  for (const x of marks.filter(apart)) scale.append(draw("text", { class: `tick ${side(x)}`, x: at(x), y: 56 }, `${count(x)} ${unit}`));
  if (marks.length) scale.append(draw("text", { class: `tick really ${side(watched.value)}`, x: at(watched.value), y: 56 }, `really ${count(watched.value)} ${unit}`));
  return make("div", "", { class: `meter ${policy}` }, make("h3", NAMES[policy]), said, make("p", verdict, { class: "verdict", "data-kind": kind }), make("p", why, { class: "why" }), scale);
}

function ticks(low, high) {
  const step = [10, 20, 50, 100, 200, 500, 1000].find((each) => (high - low) / each <= 6) ?? 2000;
  return Array.from({ length: 8 }, (_, i) => (Math.ceil(low / step) + i) * step).filter((x) => x <= high);
}
