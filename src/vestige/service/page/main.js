// The page: which stream is shown, and what is asked again when an event says that something has changed.
import { get, listen, of, post, query } from "./api.js";
import { drawAnswer, resetAnswer, setAnswer } from "./answer.js";
import { announce, count, make, setText } from "./format.js";
import { showPage, startKeys } from "./keys.js";
import { setLeak } from "./leak.js";
import { drawTimeline, loadReceipts, remove, startRequests } from "./requests.js";
import { drawStrip, onPick, resetStrip, setStrip, watchRound } from "./strip.js";
import { startTheme } from "./theme.js";
import { startVerify } from "./verify.js";

const byId = (id) => document.getElementById(id);
const PAUSE = 250; // milliseconds between two looks, however many events come
let streams = [];
let demo = null;
let key = null; // of the stream shown, where it has keys
let stale = true;

function fail(problem) {
  byId("problem").hidden = false;
  setText("problem", problem.message);
}

const current = () => streams.find((each) => each.name === byId("stream").value);
const kindOf = (definition) => (definition.window ? "window" : definition.epsilon ? "private" : "mean");
const TITLES = { mean: "This stream", window: "Plain window", private: "Private" };

async function loadStreams() {
  streams = (await get("v1/streams")).streams;
  for (const [id, shown] of [["stream", streams], ["keyed", streams.filter((each) => each.by?.length)]]) {
    const select = byId(id), before = select.value;
    const listed = [...select.options].map((each) => each.value).join("\n");
    if (listed === shown.map((each) => each.name).join("\n")) continue;
    select.replaceChildren(...shown.map((each) => make("option", each.name, { value: each.name })));
    if (shown.some((each) => each.name === before)) select.value = before;
    else if (id === "stream" && demo) select.value = demo.streams.mean;
  }
}

function describe(definition) {
  const limit = definition.retention ? `none longer than ${count(definition.retention)} rounds` : definition.max_age ? `none older than ${definition.max_age}` : "";
  const parts = [definition.statistic, (definition.columns ?? []).join(", "), limit, definition.by?.length ? `${count(definition.keys)} keys` : ""];
  setText("terms", parts.filter(Boolean).join(" · "));
}

async function estimate(definition) {
  if (!definition.by?.length) return get(query(`${of(definition.name)}/estimate`, {}));
  const page = await get(query(`${of(definition.name)}/estimates`, { limit: 1 }));
  key = page.estimates[0]?.key ?? null;
  return page.estimates[0];
}

// The stream itself and, beside it, a plain window and a private stream of the same columns.
async function answers(definition) {
  const same = (other) => other !== definition && !other.by?.length && !definition.by?.length && String(other.columns) === String(definition.columns);
  const beside = ["window", "private"].map((kind) => streams.find((each) => kindOf(each) === kind && same(each))).filter(Boolean);
  const shown = await Promise.all([definition, ...beside].map(async (each, i) => ({
    kind: kindOf(each), title: i ? TITLES[kindOf(each)] : `${each.name}${key === null ? "" : ` / ${key}`}`, estimate: await estimate(each),
    note: kindOf(each) === "window" ? "Of the records in the window alone." : "",
  })));
  return shown.filter((each) => each.estimate);
}

async function look() {
  if (demo) setDemo(await get("v1/demo"));
  await loadStreams();
  const definition = current();
  if (!definition) return setText("terms", "The store has no streams yet.");
  describe(definition);
  key = null;
  const shown = await answers(definition);
  if (!shown.length || shown[0].estimate === undefined) return undefined;
  const truth = demo && Object.values(demo.streams).includes(definition.name) && !definition.by?.length ? demo.truth : null;
  setAnswer(shown, truth, truth ? demo.unit : "");
  setStrip(await get(query(`${of(definition.name)}/records`, { key })), definition);
  return announce(`${count(shown[0].estimate.t)} records have arrived, ${count(shown[0].estimate.held)} are held.`);
}

async function follow() {
  for (;;) {
    if (stale && !document.hidden) {
      stale = false;
      try {
        await look();
        byId("problem").hidden = true;
      } catch (problem) {
        fail(problem);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

function setDemo(now) {
  demo = now;
  byId("demo-controls").hidden = byId("footer-demo").hidden = false;
  for (const button of document.querySelectorAll("[data-rate]")) button.setAttribute("aria-pressed", String(Number(button.dataset.rate) === demo.rate));
  setText("rate", demo.rate ? `${count(demo.rate)} flights a second` : "paused");
  setLeak(demo);
  watchRound(demo.watched?.round ?? null);
}

const tell = (body) => post("v1/demo", body).then((now) => { setDemo(now); stale = true; }).catch(fail);

async function removeSomebody() {
  const { subject, round } = (await get("v1/demo")).candidate;
  await tell({ watch: round });
  await remove(subject, null, false);
  stale = true;
}

function startDemo() {
  for (const button of document.querySelectorAll("[data-rate]")) button.addEventListener("click", () => tell({ rate: Number(button.dataset.rate) }));
  document.querySelector("[data-step]").addEventListener("click", () => tell({ step: true }));
  byId("ask-removal").addEventListener("click", () => removeSomebody().catch(fail));
  byId("watch-other").addEventListener("click", () => tell({ watch: null }));
  onPick((round) => { if (demo) tell({ watch: round }); });
}

function hear(kind) {
  stale = true;
  if (kind === "removal" || kind === "erased") loadReceipts().catch(fail);
}

async function start() {
  startTheme(() => { drawStrip(); drawAnswer(true); drawTimeline(); });
  startRequests(fail);
  startKeys(fail);
  startVerify(fail);
  startDemo();
  byId("stream").addEventListener("change", () => { resetAnswer(); resetStrip(); stale = true; });
  addEventListener("resize", () => { drawStrip(); drawAnswer(); drawTimeline(); });
  document.addEventListener("visibilitychange", () => { stale = true; });
  const health = await get("health");
  if (health.demo) setDemo(await get("v1/demo"));
  await loadStreams();
  follow();
  listen(hear, (is) => setText("health", is ? "live" : "reconnecting"));
  await Promise.all([loadReceipts(), showPage()]);
}

addEventListener("DOMContentLoaded", () => start().catch(fail));
