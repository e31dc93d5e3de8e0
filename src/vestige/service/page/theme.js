// Light or dark: the system's wish, until the button says otherwise.
const wish = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");
let chosen = null;

function apply(redraw) {
  const dark = chosen ?? wish.matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  button.setAttribute("aria-pressed", String(dark));
  redraw();
}

export function startTheme(redraw) {
  button.addEventListener("click", () => { chosen = !(chosen ?? wish.matches); apply(redraw); });
  wish.addEventListener("change", () => apply(redraw));
  apply(redraw);
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
