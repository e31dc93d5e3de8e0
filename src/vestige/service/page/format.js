// Numbers, times and small pieces of the page as text; nothing is ever inserted as markup.
export const count = (n) => (n === null || n === undefined ? "–" : n.toLocaleString("en-US"));

export function number(x, error = null) {
  if (x === null || x === undefined) return "–";
  if (typeof x !== "number") return String(x);
  const scale = error ? Math.abs(error) : Math.abs(x) / 1000;
  const digits = scale > 0 ? Math.min(8, Math.max(0, 1 - Math.floor(Math.log10(scale)))) : 2;
  return x.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export const spread = (s) => (s === 0 ? "0" : s === null || s === undefined ? "–" : Number(s.toPrecision(2)).toLocaleString("en-US", { maximumSignificantDigits: 2 }));
export const time = (text) => (text ? new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" }) : "–");

export function make(tag, text = "", attributes = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== "") made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function setText(id, text) {
  const place = document.getElementById(id);
  if (place.textContent !== text) place.textContent = text;
}

// A table with a caption; columns are [title, isNumber].
export function fillTable(id, caption, columns, rows) {
  const head = make("tr", "", {}, ...columns.map(([title, right]) => make("th", title, { scope: "col", class: right ? "n" : "" })));
  const body = rows.map((cells) => make("tr", "", {}, ...cells.map((cell, i) => make("td", String(cell), { class: columns[i][1] ? "n" : "" }))));
  document.getElementById(id).replaceChildren(make("caption", caption), make("thead", "", {}, head), make("tbody", "", {}, ...body));
}

let announced = 0;
export function announce(text) { // at most one sentence in ten seconds
  if (Date.now() - announced < 10000) return;
  announced = Date.now();
  setText("live", text);
}
