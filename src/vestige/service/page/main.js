// The page: which stream is shown, and what is asked again when an event says that something has changed.
import { addHistory, drawAnswer, resetAnswer, setAnswer } from "./answer.js";
import { get, listen, of, post, query } from "./api.js";
import { byId, count, make, setText } from "./format.js";
import { showPage, startKeys } from "./keys.js";
import { drawLeak, setLeak } from "./leak.js";
import { areStale, drawTimeline, loadReceipts, remove, setDeadlines, startRequests } from "./requests.js";
import { drawStrip, onPick, resetStrip, setCounts, setStrip, spell, watchRound } from "./strip.js";
import { startTheme } from "./theme.js";
import { startVerify } from "./verify.js";

const PAUSE = 350; // milliseconds between two looks, however many events come
const KEYS_EVERY = 3000;
const SHOWN = 10000; // how long a problem stays in sight
let streams = [];
let demo = null;
let key = null; // of the stream shown, where it has keys
let choice = 0; // which choice of a stream is shown: an answer to an earlier one comes too late
let stale = true;
let keysLoaded = 0;
let mayAudit = true; // until the service says that the token does not allow it

let failed = 0;
function fail(problem) {
  failed = Date.now();
  byId("problem").hidden = false;
  setText("problem", problem.message);
}

const current = () => streams.find((each) => each.name === byId("stream").value);
const isKeyed = (definition) => Boolean(definition?.by?.length);
const kindOf = (definition) => (definition.window ? "window" : definition.epsilon ? "private" : "mean");
const isDemo = (definition) => demo !== null && Object.values(demo.streams).includes(definition.name);
const recordOf = (definition) => (isDemo(definition) ? demo.record : "record");

async function loadStreams() {
  streams = (await get("v1/streams")).streams;
  for (const [id, shown] of [["stream", streams], ["keyed", streams.filter(isKeyed)]]) {
    const select = byId(id), before = select.value;
    const listed = [...select.options].map((each) => each.value).join("\n");
    if (listed === shown.map((each) => each.name).join("\n")) continue;
    select.replaceChildren(...shown.map((each) => make("option", each.name, { value: each.name })));
    if (shown.some((each) => each.name === before)) select.value = before;
    else if (id === "stream") select.value = demo?.streams.mean ?? (shown.find((each) => each.t) ?? shown[0])?.name ?? "";
  }
  byId("keys-section").hidden = !streams.some(isKeyed);
}

function summarize({ statistic = "mean", columns, metrics }) {
  const name = statistic.replaceAll("_", " ");
  return metrics ? `Metrics ${metrics.join(", ")}` : `${name[0].toUpperCase()}${name.slice(1)} of ${(columns ?? []).join(", ")}`;
}

function describe(definition) {
  const limit = [
    definition.retention ? `for more than ${count(definition.retention)} further ${recordOf(definition)}s` : "",
    definition.max_age ? `longer than ${spell(definition.max_age)}` : "",
    definition.notice ? `${count(definition.notice)} ${recordOf(definition)}s after its removal was asked for` : "",
  ].filter(Boolean).join(", or ");
  const what = isDemo(definition) ? "The flights that left New York in 2013, replayed" : summarize(definition);
  setText("terms", `${what}${limit ? `; none is held ${limit}` : ""}${isKeyed(definition) ? `. ${count(definition.keys)} keys, of which this page shows ${key ?? "the first"}` : ""}.`);
}

async function estimate(definition) {
  if (isKeyed(definition) && key === null) {
    const made = choice, page = await get(query(`${of(definition.name)}/estimates`, { limit: 1 }));
    if (made === choice) key = page.estimates[0]?.key ?? null;
    return page.estimates[0];
  }
  return definition.t || isKeyed(definition) ? get(query(`${of(definition.name)}/estimate`, { key: isKeyed(definition) ? key : null })) : undefined;
}

// The stream itself and, beside it, a plain window and a private stream of the same columns.
async function answers(definition) {
  const same = (other) => other !== definition && !isKeyed(other) && !isKeyed(definition) && String(other.columns) === String(definition.columns);
  const beside = ["mean", "window", "private"].filter((kind) => kind !== kindOf(definition)).map((kind) => streams.find((each) => kindOf(each) === kind && same(each))).filter(Boolean);
  const shown = await Promise.all([definition, ...beside].map(async (each) => ({ kind: kindOf(each), definition: each, estimate: await estimate(each) })));
  return shown.filter((each) => each.estimate).map((each) => ({ ...each, ...titles(each) }));
}

// The shadow truth at the moment of each answer: while records arrive, no two answers are of the same moment.
async function findTruths(definition, shown) {
  if (!isDemo(definition) || isKeyed(definition)) return null;
  const moments = [...new Set(shown.map((each) => each.estimate.as_of).filter(Boolean))];
  return new Map(await Promise.all(moments.map(async (t) => [t, await get(query("v1/demo/truth", { t }))])));
}

function titles({ kind, definition, estimate: { answers: several, count: counted, held, as_of: last } }) {
  const record = recordOf(definition), all = `${count(counted)} ${record}s`, name = isKeyed(definition) ? `${definition.name}, ${key ?? ""}` : definition.name;
  const what = isDemo(definition) ? demo.quantity : "";
  if (kind === "window") return { title: "A plain window says", note: `Of its newest ${count(held)} alone.` };
  if (kind === "private") return { title: "With noise for privacy", note: last === null ? "No update has added noise yet." : `Of all ${all}, as of the last update: ${record} ${count(last)}.` };
  const one = several.length > 1 && several[0].quantity ? `${name}: ${several[0].quantity}` : name;
  return { title: isDemo(definition) && !isKeyed(definition) ? what[0].toUpperCase() + what.slice(1) : one, note: `Of all ${all}, from ${count(held)} held.` };
}

async function look() {
  if (demo) setDemo(await get("v1/demo"));
  await loadStreams();
  const definition = current(), made = choice;
  if (!definition) return setText("terms", "The store has no streams yet.");
  const shown = await answers(definition), truths = await findTruths(definition, shown);
  if (made !== choice) return undefined;
  describe(definition);
  if (shown[0]?.definition !== definition) {
    resetAnswer("No record has arrived yet.");
    setDeadlines([]);
    return setCounts({ t: 0, held: 0 }, "");
  }
  setAnswer(shown, truths, { unit: isDemo(definition) ? demo.unit : "", record: recordOf(definition) });
  if (!mayAudit) return setCounts(shown[0].estimate);
  const records = await get(query(`${of(definition.name)}/records`, { key: isKeyed(definition) ? key : null })).catch((problem) => {
    if (problem.status !== 403) throw problem;
    mayAudit = false;
  });
  if (made !== choice) return undefined;
  if (!mayAudit) return setCounts(shown[0].estimate);
  setStrip(records, definition, recordOf(definition));
  setDeadlines(definition.max_age ? records.times.filter(Boolean).map((each) => Date.parse(each) + 1000 * Number.parseFloat(definition.max_age)) : []);
  return undefined;
}

async function loadKeys() {
  const inside = byId("keys").contains(document.activeElement);
  if (Date.now() - keysLoaded < KEYS_EVERY || inside || byId("keys-section").hidden) return;
  keysLoaded = Date.now();
  await showPage();
}

async function follow() {
  for (;;) {
    if (stale && !document.hidden) {
      stale = false;
      try {
        await look();
        if (areStale()) await loadReceipts();
        await loadKeys();
        if (Date.now() - failed > SHOWN) byId("problem").hidden = true;
      } catch (problem) {
        stale ||= Boolean(problem.isLost);
        fail(problem);
        if (problem.isLost) failed = 0; // gone as soon as it answers
      }
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

function setDemo(now) {
  demo = now;
  for (const id of ["demo-controls", "footer-demo", "demo-removal"]) byId(id).hidden = false;
  setText("subject-label", "Tail number of an aeroplane");
  for (const button of document.querySelectorAll("[data-rate]")) button.setAttribute("aria-pressed", String(Number(button.dataset.rate) === demo.rate));
  setText("rate", demo.rate ? `up to ${count(demo.rate)} ${demo.record}s a second` : "paused");
  setLeak(demo);
  watchRound(demo.watched?.round ?? null);
}

const tell = (body) => post("v1/demo", body).then((now) => { setDemo(now); stale = true; }).catch(fail);

async function removeSomebody() {
  const { subject, round } = (await get("v1/demo")).candidate;
  await tell({ watch: round });
  await remove(subject, null, byId("now").checked);
  stale = true;
}

function startDemo() {
  setText("claim", "This store erases every record on time, and still answers for all of them. See what it still tells of one.");
  for (const button of document.querySelectorAll("[data-rate]")) button.addEventListener("click", () => tell({ rate: Number(button.dataset.rate) }));
  document.querySelector("[data-step]").addEventListener("click", () => tell({ step: true }));
  byId("ask-removal").addEventListener("click", () => removeSomebody().catch(fail));
  byId("watch-other").addEventListener("click", () => tell({ watch: null }));
  byId("watch-form").addEventListener("submit", (event) => { event.preventDefault(); tell({ watch: Number(byId("watch").value) }); });
  onPick((round) => { byId("watch").value = round; tell({ watch: round }); });
}

function choose(of_key) {
  key = of_key;
  choice += 1;
  resetAnswer();
  resetStrip();
  stale = true;
}

function show(name, of_key) {
  byId("stream").value = name;
  choose(of_key);
  byId("strip-title").scrollIntoView({ block: "start" });
}

function hear(kind) {
  stale = true;
  if (kind === "removal" || kind === "erased") loadReceipts().catch(fail);
}

function connect(is) {
  setText("health", is ? "Live" : "Disconnected, trying again");
  byId("health").dataset.state = is ? "live" : "lost";
  stale ||= is;
}

function redraw() { drawStrip(); drawLeak(); drawTimeline(); }

async function start() {
  startTheme(() => { redraw(); drawAnswer(true); });
  startRequests(fail);
  startKeys(fail, show);
  startVerify(fail);
  byId("stream").addEventListener("change", () => choose(null));
  addEventListener("resize", () => { redraw(); drawAnswer(); });
  document.addEventListener("visibilitychange", () => { stale = true; });
  const health = await get("health");
  if (health.demo) {
    startDemo();
    setDemo(await get("v1/demo"));
    addHistory((await get("v1/demo/history")).answers);
  }
  await loadStreams();
  follow();
  listen(hear, connect);
  await loadReceipts();
}

addEventListener("DOMContentLoaded", () => start().catch(fail));
