// Removal requests: the form, the receipts, and their deadlines on a line of time.
import { get, post, query } from "./api.js";
import { prepare, write } from "./canvas.js";
import { announce, count, fillTable, setText, time } from "./format.js";
import { colour } from "./theme.js";

const canvas = document.getElementById("timeline");
let receipts = [];
let next = null;

export async function loadReceipts(more = false) {
  const answer = await get(query("v1/receipts", { after: more ? next : null, limit: 100 }));
  receipts = more ? [...receipts, ...answer.receipts] : answer.receipts;
  next = answer.next ?? null;
  document.getElementById("more-receipts").hidden = next === null;
  const rows = receipts.map((each) => [each.id.slice(0, 8), each.reference ?? "–", time(each.requested), each.due ? time(each.due) : each.due_round ? `round ${count(each.due_round)}` : "–", each.erased ? time(each.erased) : "open"]);
  fillTable("receipts", "Receipts: the same whether anybody was held or not", [["receipt"], ["reference"], ["requested"], ["due"], ["erased"]], rows);
  const open = receipts.filter((each) => !each.erased).length;
  setText("timeline-text", receipts.length ? `${count(receipts.length)} ${receipts.length === 1 ? "request" : "requests"}: ${count(open)} open, ${count(receipts.length - open)} met.` : "No requests yet.");
  canvas.hidden = !receipts.length;
  drawTimeline();
}

export function startRequests(fail) {
  document.getElementById("more-receipts").addEventListener("click", () => loadReceipts(true).catch(fail));
  document.getElementById("removal-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const [subject, reference] = ["subject", "reference"].map((id) => document.getElementById(id).value.trim());
    if (subject) remove(subject, reference, document.getElementById("now").checked).then(() => event.target.reset()).catch(fail);
  });
}

export async function remove(subject, reference, now) {
  const answer = await post("v1/removals", { subjects: [subject], now, references: reference ? [reference] : null });
  const receipt = answer.receipts[0];
  const told = receipt.erased ? "Erased." : `Asked; due ${receipt.due ? time(receipt.due) : receipt.due_round ? `by round ${count(receipt.due_round)}` : "as the streams say"}.`;
  setText("removal-result", `${told} Receipt ${receipt.id}.`);
  announce(`Removal: ${told}`);
  await loadReceipts();
  return receipt;
}

export function drawTimeline() {
  if (!receipts.length || !canvas.clientWidth) return;
  const { pen, width } = prepare(canvas);
  const times = receipts.flatMap((each) => [each.requested, each.due, each.erased]).filter(Boolean).map(Date.parse);
  const from = Math.min(...times), to = Math.max(...times, Date.now(), from + 60000);
  const at = (text) => 8 + ((Date.parse(text) - from) / (to - from)) * (width - 16);
  pen.strokeStyle = colour("line");
  pen.lineWidth = 2;
  pen.beginPath(); pen.moveTo(0, 60); pen.lineTo(width, 60); pen.stroke();
  receipts.slice(0, 200).forEach((each, i) => {
    const y = 44 - (i % 4) * 10, start = at(each.requested), end = at(each.erased ?? new Date().toISOString());
    pen.strokeStyle = pen.fillStyle = colour(each.erased ? "private" : "window");
    pen.lineWidth = 3;
    pen.beginPath(); pen.moveTo(start, y); pen.lineTo(Math.max(end, start + 1), y); pen.stroke();
    pen.beginPath(); pen.arc(start, y, 4, 0, 7); pen.fill();
    if (each.erased) pen.fillRect(end - 4, y - 4, 8, 8);
    if (each.due) { pen.fillStyle = colour("watched"); pen.fillRect(at(each.due) - 1, 52, 2, 16); }
  });
  const now = at(new Date().toISOString());
  pen.fillStyle = colour("ink");
  pen.fillRect(now - 1, 50, 2, 20);
  write(pen, "now", Math.min(now, width - 4), 84, now > width - 20 ? "right" : "center");
  if (now > 190) write(pen, time(new Date(from).toISOString()), 0, 84);
}
