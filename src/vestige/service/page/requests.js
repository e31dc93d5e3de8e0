// Removal requests: the form, the receipts, and their deadlines on a line of time.
import { get, post, query } from "./api.js";
import { byId, clock, count, draw, fillTable, make, plural, setText, time } from "./format.js";

const SHOWN = 8; // requests on the line
const HIGH = 16;
const EVERY = 1500; // milliseconds between two looks at receipts that are open
let receipts = [];
let next = null;
let total = 0;
let loaded = 0;
let deadlines = []; // of the records that the stream holds, in milliseconds
let latest = null; // the request made here last

export async function loadReceipts(more = false) {
  const answer = await get(query("v1/receipts", { after: more ? next : null, limit: more ? 100 : Math.min(1000, Math.max(100, receipts.length)), newest: true }));
  loaded = Date.now();
  receipts = more ? [...receipts, ...answer.receipts] : answer.receipts;
  next = answer.next ?? null;
  total = answer.total ?? receipts.length;
  byId("more-receipts").hidden = next === null;
  const rows = receipts.map((each) => [make("code", each.id.slice(0, 8)), each.reference ?? "–", time(each.requested), due(each), make("span", each.erased ? `erased ${clock(each.erased)}` : "open", { class: "state", "data-met": Boolean(each.erased) })]);
  byId("receipts-region").hidden = !receipts.length;
  fillTable("receipts", "Receipts, newest first", [["receipt"], ["reference"], ["requested"], ["due"], ["state"]], rows);
  const open = receipts.filter((each) => !each.erased).length;
  const known = next === null ? "" : `; of the newest ${count(receipts.length)}`;
  setText("timeline-text", receipts.length ? `${plural(total, "request")}${known}: ${count(receipts.length - open)} met, ${count(open)} open` : "No requests yet.");
  tellLatest();
  drawTimeline();
}

export const areStale = () => Date.now() - loaded > EVERY && receipts.some((each) => !each.erased);

const due = (each) => (each.due_round && each.due_round === each.requested_round ? "at once" : each.due ? time(each.due) : each.due_round ? `record ${count(each.due_round)}` : "with the next update");

export function startRequests(fail) {
  byId("more-receipts").addEventListener("click", () => loadReceipts(true).catch(fail));
  byId("removal-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const [subject, reference] = ["subject", "reference"].map((id) => byId(id).value.trim());
    if (subject) remove(subject, reference || null, byId("now").checked).then(() => event.target.reset()).catch(fail);
  });
}

export async function remove(subject, reference, now) {
  const answer = await post("v1/removals", { subjects: [subject], now, reference });
  latest = { id: answer.receipts[0].id, subject };
  byId("removal-form").dispatchEvent(new CustomEvent("removed", { detail: subject }));
  await loadReceipts();
}

function tellLatest() { // changes once when it is asked for, once when it is met
  const receipt = latest && receipts.find((each) => each.id === latest.id);
  if (!receipt) return;
  setText("removal-result", receipt.erased ? `${latest.subject}: erased at ${clock(receipt.erased)}. Receipt ${receipt.id.slice(0, 8)}.` : `${latest.subject}: asked for, due ${due(receipt)}. Receipt ${receipt.id.slice(0, 8)}.`);
}

export function setDeadlines(moments) {
  deadlines = moments;
  setText("deadline-text", moments.length ? `Red: when each of the ${plural(moments.length, "record")} held must be gone, the first at ${time(Math.min(...moments))}.` : "");
  drawTimeline();
}

export function drawTimeline() {
  const place = byId("timeline"), now = Date.now();
  place.hidden = !receipts.length && !deadlines.length;
  if (place.hidden || !place.clientWidth) return;
  const wide = place.clientWidth, listed = receipts.slice(0, SHOWN);
  const moments = [...listed.flatMap((each) => [each.requested, each.due, each.erased]).filter(Boolean).map(Date.parse), ...deadlines, now];
  const from = Math.min(...moments), to = Math.max(...moments, from + 30000);
  const at = (moment) => 8 + ((moment - from) / (to - from)) * (wide - 16);
  const high = listed.length * HIGH + 44, base = high - 26;
  const picture = draw("svg", { viewBox: `0 0 ${wide} ${high}`, height: high, "aria-hidden": "true" });
  listed.forEach((each, i) => {
    const y = 10 + i * HIGH, met = each.erased ? " met" : "", start = at(Date.parse(each.requested)), end = at(each.erased ? Date.parse(each.erased) : now);
    picture.append(draw("line", { class: `req${met}`, x1: start, x2: Math.max(end, start), y1: y, y2: y }), draw("circle", { class: `req-dot${met}`, cx: start, cy: y, r: 4.5 }));
    if (each.erased) picture.append(draw("rect", { class: `req-dot${met}`, x: end - 4.5, y: y - 4.5, width: 9, height: 9 }));
    if (each.due) picture.append(draw("line", { class: "due", x1: at(Date.parse(each.due)), x2: at(Date.parse(each.due)), y1: y - 6, y2: y + 6 }));
  });
  picture.append(draw("line", { class: "axis", x1: 0, x2: wide, y1: base, y2: base }), draw("line", { class: "today", x1: at(now), x2: at(now), y1: 0, y2: base + 5 }));
  for (const moment of deadlines) picture.append(draw("line", { class: "due", x1: at(moment), x2: at(moment), y1: base - 8, y2: base }));
  const side = at(now) > wide - 60 ? "end" : at(now) < 60 ? "" : "mid";
  picture.append(draw("text", { class: `tick ${side}`, x: side === "end" ? wide : side ? at(now) : 0, y: high - 8 }, `now, ${clock(now)}`));
  if (at(now) > 190) picture.append(draw("text", { class: "tick", x: 0, y: high - 8 }, time(from)));
  if (at(now) < wide - 240) picture.append(draw("text", { class: "tick end", x: wide, y: high - 8 }, time(to)));
  place.replaceChildren(picture);
}
