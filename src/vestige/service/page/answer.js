// The answer of the stream beside that of a plain window, as numbers, as a chart and as a table.
import { byId, count, fillTable, make, number, plural, setText, spread } from "./format.js";
import { colour } from "./theme.js";

const KEPT = 400;
const LABELS = ["arrived", "this stream", "plain window", "all (shadow truth)"];
let chart = null;
let points = []; // [t, answer, window, truth]
let shape = "";

export function resetAnswer(text = "") {
  points = [];
  chart?.destroy();
  chart = null;
  for (const id of ["numbers", "chart-table", "notes"]) byId(id).replaceChildren();
  setText("chart-caption", text);
}

export function addHistory(past) { points = past.map(({ t, answer, window, truth }) => [t, answer, window, truth]); }

// `shown` is [{kind, title, estimate, note}], the stream itself first; `truths`, by round, is null outside the demo.
export function setAnswer(shown, truths, { unit, record }) {
  const truthOf = ({ estimate: { as_of: last } }) => truths?.get(last) ?? null, truth = truthOf(shown[0]);
  const cards = shown.map((each) => {
    const { kind, title, estimate, note } = each, truth = truthOf(each);
    const { value, standard_error: error, lower, upper } = estimate.answers[0] ?? {};
    const off = truth && typeof value === "number" ? ` Off the truth by ${apart(Math.abs(value - truth.mean), truth.standard_error)} ${unit}.` : "";
    const range = typeof lower === "number" && typeof upper === "number" ? ` From ${number(lower, error)} to ${number(upper, error)}.` : "";
    return card(kind, title, value, error, truth?.standard_error, unit, `${note}${range}${off}`);
  });
  if (truth) {
    const all = card("truth", `All ${plural(truth.count, record)}`, truth.mean, null, truth.standard_error, unit, "Which no store holds.");
    all.querySelector("h3").append(make("span", "shadow truth", { class: "label" }));
    cards.push(all);
  }
  byId("numbers").replaceChildren(...cards, ...others(shown[0].estimate));
  setText("chart-caption", `${unit ? `In ${unit}, by` : "By"} ${record}s that have arrived. ${caption(shown, truth)}`);
  const notes = shown[0].estimate.notes ?? [];
  byId("notes").hidden = !notes.length;
  setText("notes", notes.join(" "));
  add(shown, truth);
}

function card(kind, title, value, error, scale, unit, text) {
  const big = make("b", number(value, error ?? scale), { "data-value": value ?? "" });
  const more = [unit, typeof error === "number" ? `± ${spread(error)}` : ""].filter(Boolean).join(" ");
  if (more) big.append(make("small", ` ${more}`));
  return make("div", "", { class: `number ${kind}` }, make("h3", title), big, make("p", text));
}

// How far a number is off, in the digits shown: what would be rounded to nothing is said to be less than one of them.
function apart(off, scale) {
  const told = number(off, scale);
  return off && !/[1-9]/.test(told) ? `less than ${told.replace(/0$/, "1")}` : told;
}

function others(estimate) { // further numbers of a statistic with several
  return estimate.answers.slice(1, 12).map(({ quantity, value, standard_error: error }) => card("mean", quantity ?? "", value, error, null, "", ""));
}

function caption(shown, truth) {
  const { estimate } = shown[0];
  const since = estimate.since > 1 ? ` The statistic started anew with number ${count(estimate.since)}.` : "";
  const beside = shown.some(({ kind }) => kind === "window") ? "Blue: this stream. Orange: a plain window." : "Blue: this stream. The store has no plain window of this column to compare with.";
  const spreads = shown.some(({ estimate: { answers } }) => typeof answers[0]?.standard_error === "number") ? " ±: standard error." : "";
  return `${beside}${truth ? " Dashed: all (shadow truth)." : ""}${since}${spreads}`;
}

function add(shown, truth) {
  const value = (kind) => shown.find((each) => each.kind === kind)?.estimate.answers[0]?.value ?? null;
  const point = [shown[0].estimate.as_of ?? shown[0].estimate.t, shown[0].estimate.answers[0]?.value ?? null, value("window"), truth?.mean ?? null];
  while (points.length && points.at(-1)[0] >= point[0]) points.pop();
  points.push(point);
  if (points.length > KEPT) points = points.filter((_, i) => i % 2 || i > KEPT / 2);
  drawAnswer();
}

export function drawAnswer(anew = false) {
  if (!points.length) return;
  const place = byId("chart");
  const columns = [0, 1, 2, 3].map((i) => points.map((point) => point[i]));
  const now = columns.map((column) => column.some((x) => x !== null)).join();
  place.hidden = points.length < 2;
  if (place.hidden) setText("chart-caption", "The chart begins with the next records.");
  if (anew || now !== shape || chart?.width !== place.clientWidth) { chart?.destroy(); chart = null; shape = now; }
  if (!place.hidden) {
    chart ??= new uPlot(options(place.clientWidth), columns, place);
    chart.setData(columns);
  }
  const last = points.slice(-20).reverse();
  const used = LABELS.map((_, i) => i).filter((i) => i < 2 || last.some((row) => row[i] !== null));
  fillTable("chart-table", "The last answers", used.map((i) => [LABELS[i], true]), last.map((row) => used.map((i) => (i ? number(row[i], 0.001) : count(row[i])))));
}

function options(width) {
  const font = "12px Inter, system-ui, sans-serif";
  const axis = { stroke: colour("muted"), font, ticks: { show: false }, gap: 8 };
  const line = (i, name, extra) => ({ label: LABELS[i], stroke: colour(name), spanGaps: true, points: { show: false }, ...extra });
  return {
    width, height: width < 500 ? 220 : 330, legend: { show: false }, cursor: { drag: { x: false, y: false }, points: { size: 7 } }, padding: [8, 12, 0, 0],
    scales: { x: { time: false } },
    axes: [
      { ...axis, grid: { show: false }, space: 90, values: (_, ticks) => ticks.map((x) => (Number.isInteger(x) ? count(x) : "")) },
      { ...axis, grid: { stroke: colour("line"), width: 1 }, size: 48 },
    ],
    series: [{ label: LABELS[0] }, line(1, "mean", { width: 2.5 }), line(2, "window", { width: 1.25 }), line(3, "ink", { width: 1.25, dash: [5, 5] })],
  };
}
