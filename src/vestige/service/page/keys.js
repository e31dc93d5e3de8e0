// Answers by key, a page at a time: the service sorts and says where the next page begins.
import { get, of, query } from "./api.js";
import { byId, count, fillTable, make, number, setText, spread } from "./format.js";

const LIMIT = 25;
let next = null;
let cursor = null;
let before = []; // cursors of the pages before this one
const chosen = () => byId("keyed").value;

export function startKeys(fail, pick) {
  const load = (after, path) => showPage(after).then(() => { before = path; byId("back-keys").disabled = !before.length; }).catch(fail);
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = byId("key").value;
    load(key ? precede(key) : null, []);
  });
  byId("keyed").addEventListener("change", () => load(null, []));
  byId("first-keys").addEventListener("click", () => load(null, []));
  byId("next-keys").addEventListener("click", () => load(next, [...before, cursor]));
  byId("back-keys").addEventListener("click", () => load(before.at(-1) ?? null, before.slice(0, -1)));
  byId("back-keys").disabled = true;
  byId("keys").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) pick(chosen(), button.dataset.key);
  });
}

export async function showPage(after = cursor) {
  if (!chosen()) return;
  const answer = await get(query(`${of(chosen())}/estimates`, { after, limit: LIMIT }));
  cursor = after;
  next = answer.next ?? null;
  fill(answer.estimates);
  byId("next-keys").disabled = next === null;
  setText("keys-text", `${count(answer.estimates.length)} of ${count(answer.total)} keys shown`);
}

// The cursor comes after a key, so that a page from a prefix begins after the text just before the prefix.
function precede(prefix) {
  const last = [...prefix].at(-1), point = last.codePointAt(0);
  return point > 1 ? `${prefix.slice(0, -last.length)}${String.fromCodePoint(point - 1 === 0xdfff ? 0xd7ff : point - 1)}\u{10ffff}` : prefix;
}

function fill(estimates) {
  const hasErrors = estimates.some((each) => typeof each.answers[0]?.standard_error === "number");
  const scale = Math.max(...estimates.map((each) => Math.abs(each.answers[0]?.value ?? 0)), 1e-9) / 1000;
  const rows = estimates.map((each) => {
    const { value, standard_error: error } = each.answers[0] ?? {};
    const show = make("button", "Show", { type: "button", "data-key": each.key ?? "", "aria-label": `Show ${each.key ?? ""}` });
    return [each.key ?? "–", number(value, error ?? scale), ...(hasErrors ? [spread(error)] : []), count(each.count), count(each.held), count(each.t), show];
  });
  fillTable("keys", "Sorted by key", [["key"], ["answer", true], ...(hasErrors ? [["standard error", true]] : []), ["counted", true], ["held", true], ["arrived", true], ["show", true]], rows);
}
