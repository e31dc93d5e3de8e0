// Answers by key, a page at a time; the service sorts and says where the next page begins.
import { get, of, query } from "./api.js";
import { count, fillTable, number, setText, spread } from "./format.js";

let next = null;
const chosen = () => document.getElementById("keyed").value;

export function startKeys(fail) {
  const load = (after) => showPage(after).catch(fail);
  document.getElementById("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = document.getElementById("key").value;
    if (event.submitter?.value === "exact" && key) showOne(key).catch(fail);
    else load(key ? before(key) : null);
  });
  document.getElementById("keyed").addEventListener("change", () => load(null));
  document.getElementById("first-keys").addEventListener("click", () => load(null));
  document.getElementById("next-keys").addEventListener("click", () => load(next));
}

export async function showPage(after = null) {
  if (!chosen()) return;
  const answer = await get(query(`${of(chosen())}/estimates`, { after, limit: 50 }));
  fill(answer.estimates);
  next = answer.next ?? null;
  document.getElementById("next-keys").disabled = next === null;
  setText("keys-text", `${count(answer.estimates.length)} shown, ${count(answer.total)} in all`);
}

async function showOne(key) {
  try {
    fill([await get(query(`${of(chosen())}/estimate`, { key }))]);
    setText("keys-text", "1 shown");
  } catch (problem) {
    if (problem.status !== 404) throw problem;
    fill([]);
    setText("keys-text", "There is no such key.");
  }
}

// The cursor comes after a key, so that a page from a prefix begins after the text just before the prefix.
function before(prefix) {
  const last = prefix.codePointAt(prefix.length - 1);
  return last > 1 ? `${prefix.slice(0, -1)}${String.fromCodePoint(last - 1)}\u{10ffff}` : prefix;
}

function fill(estimates) {
  const rows = estimates.map((each) => {
    const { value, standard_error: error } = each.answers[0] ?? {};
    return [each.key ?? "–", number(value, error), spread(error), count(each.count), count(each.held), count(each.t)];
  });
  fillTable("keys", "Answers, sorted by key", [["key"], ["answer", true], ["standard error", true], ["records counted", true], ["held", true], ["arrived", true]], rows);
}
