// The answer of the stream beside that of a plain window, as numbers, as a chart and as a table.
import { count, fillTable, make, number, setText, spread } from "./format.js";
import { colour } from "./theme.js";

const KEPT = 400;
let chart = null;
let points = []; // [t, answer, window, truth]
let labels = null;

export function resetAnswer() { points = []; chart?.destroy(); chart = null; }

// `shown` is [{kind, title, estimate, note}], the stream itself first; `truth` is null outside the demo.
export function setAnswer(shown, truth, unit) {
  const cards = shown.map(({ kind, title, estimate, note }) => {
    const { value, standard_error: error } = estimate.answers[0] ?? {};
    const off = truth && typeof value === "number" ? `${number(Math.abs(value - truth.mean), truth.standard_error)} off the truth of all. ` : "";
    const says = error === null || error === undefined ? "" : `± ${spread(error)} standard error. `;
    return make("div", "", { class: `number ${kind}` },
      make("h3", title), make("b", `${number(value, error ?? truth?.standard_error)}${unit ? ` ${unit}` : ""}`, { "data-value": value ?? "" }),
      make("small", `${says}${off}${note}`));
  });
  if (truth) cards.push(make("div", "", { class: "number" },
    make("h3", "All records", {}, make("span", "shadow truth", { class: "label" })), make("b", `${number(truth.mean, truth.standard_error)} ${unit}`, { "data-value": truth.mean }),
    make("small", `${count(truth.count)} records, which no store holds.`)));
  document.getElementById("numbers").replaceChildren(...cards, ...others(shown[0].estimate));
  setText("chart-caption", caption(shown, truth));
  add(shown, truth);
}

function others(estimate) { // further numbers of a statistic with several
  return estimate.answers.slice(1, 12).map((answer) => make("div", "", { class: "number mean" },
    make("h3", answer.metric ?? ""), make("b", number(answer.value, answer.standard_error), { "data-value": answer.value ?? "" }),
    make("small", answer.standard_error ? `± ${spread(answer.standard_error)} standard error` : "")));
}

function caption(shown, truth) {
  const { estimate } = shown[0];
  const since = estimate.since > 1 ? ` The statistic started anew in round ${count(estimate.since)}.` : "";
  const beside = shown.some(({ kind }) => kind === "window") ? "" : " The store has no plain window of this column to compare with.";
  return `Since this page was opened. The answer counts ${count(estimate.count)} records out of ${count(estimate.held)} held.${since}${beside}${truth ? " The truth of all is the demo's." : ""} ${estimate.notes?.join(" ") ?? ""}`;
}

function add(shown, truth) {
  const value = (kind) => shown.find((each) => each.kind === kind)?.estimate.answers[0]?.value ?? null;
  const point = [shown[0].estimate.t, shown[0].estimate.answers[0]?.value ?? null, value("window"), truth?.mean ?? null];
  if (points.length && points.at(-1)[0] === point[0]) points.pop();
  points.push(point);
  if (points.length > KEPT) points = points.filter((_, i) => i % 2 || i > KEPT / 2);
  labels = ["records", "this stream", "plain window", "truth of all"];
  drawAnswer();
}

export function drawAnswer(anew = false) {
  if (!points.length) return;
  const place = document.getElementById("chart");
  const columns = [0, 1, 2, 3].map((i) => points.map((point) => point[i]));
  if (anew || chart?.width !== place.clientWidth) { chart?.destroy(); chart = null; }
  chart ??= new uPlot(options(place.clientWidth), columns, place);
  chart.setData(columns);
  const last = points.slice(-20).reverse();
  fillTable("chart-table", "The last answers", labels.map((label) => [label, true]), last.map((row) => [count(row[0]), ...row.slice(1).map((x) => number(x, 0.001))]));
}

function options(width) {
  const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "12px system-ui, sans-serif" };
  const line = (i, name, extra) => ({ label: labels[i], stroke: colour(name), spanGaps: true, points: { show: false }, show: points.some((point) => point[i] !== null), ...extra });
  return {
    width, height: 240, cursor: { drag: { x: false, y: false } },
    scales: { x: { time: false } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map(count) }, { ...axis, size: 56 }],
    series: [{ label: labels[0], value: (_, x) => count(x) }, line(1, "mean", { width: 2 }), line(2, "window", { width: 1.25 }), line(3, "ink", { width: 1, dash: [6, 5] })]
      .map((each, i) => (i ? { ...each, value: (_, x) => number(x, 0.01) } : each)),
  };
}
