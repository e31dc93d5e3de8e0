// Numbers, times and small pieces of the page as text; nothing is ever inserted as markup.
export const byId = (id) => document.getElementById(id);
export const count = (n) => (n === null || n === undefined ? "–" : n.toLocaleString("en-US"));
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

export function number(x, error = null) {
  if (x === null || x === undefined) return "–";
  if (typeof x !== "number") return String(x);
  const scale = error ? Math.abs(error) : Math.abs(x) / 1000;
  const digits = scale > 0 ? Math.min(8, Math.max(0, 1 - Math.floor(Math.log10(scale)))) : 2;
  return x.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export const spread = (s) => (s === 0 ? "0" : s === null || s === undefined ? "–" : Number(s.toPrecision(2)).toLocaleString("en-US", { maximumSignificantDigits: 2 }));
export const time = (text) => (text ? new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" }) : "–");
export const clock = (moment) => new Date(moment).toLocaleTimeString("en-GB");

export function make(tag, text = "", attributes = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== "") made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function draw(tag, attributes = {}, text = "") {
  const made = document.createElementNS(byId("picture").namespaceURI, tag);
  if (text !== "") made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export function setText(id, text) {
  const place = byId(id);
  if (place.textContent !== text) place.textContent = text;
}

// A table with a caption; columns are [title, isNumber], cells are texts or elements.
export function fillTable(id, caption, columns, rows) {
  const cell = (content, right) => {
    const made = make("td", content instanceof Node ? "" : String(content), { class: right ? "n" : "wide" });
    if (content instanceof Node) made.append(content);
    return made;
  };
  const head = make("tr", "", {}, ...columns.map(([title, right]) => make("th", title, { scope: "col", class: right ? "n" : "" })));
  const body = rows.map((cells) => make("tr", "", {}, ...cells.map((content, i) => cell(content, columns[i][1]))));
  byId(id).replaceChildren(make("caption", caption), make("thead", "", {}, head), make("tbody", "", {}, ...body));
}
