() => {
  const found = [];
  const seen = (e) => e.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true });
  const name = (e) => (e.getAttribute("aria-label") ?? "") + (e.getAttribute("aria-labelledby") ?? "").split(" ").filter(Boolean)
    .map((id) => document.getElementById(id)?.textContent ?? "").join(" ") + [...(e.labels ?? [])].map((l) => l.textContent).join(" ");
  for (const e of document.querySelectorAll("button, a, input, select, summary"))
    if (!(name(e) || e.textContent || "").trim()) found.push(`no name: ${e.outerHTML.slice(0, 80)}`);
  for (const e of document.querySelectorAll("input, select")) if (!name(e).trim()) found.push(`no label: ${e.id}`);
  for (const e of document.querySelectorAll("section, dialog, form[role], [role=region], [role=img], [role=search]"))
    if (!name(e).trim()) found.push(`no name: ${e.tagName} ${e.id}`);
  for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) found.push("an image without alt");
  for (const e of document.querySelectorAll("table")) if (e.rows.length && !e.caption) found.push(`no caption: ${e.id}`);
  for (const e of document.querySelectorAll("th")) if (!e.textContent.trim() || !e.scope) found.push("a header without text or scope");
  for (const attribute of ["aria-labelledby", "aria-describedby", "for"])
    for (const e of document.querySelectorAll(`[${attribute}]`))
      for (const id of e.getAttribute(attribute).split(" ")) if (!document.getElementById(id)) found.push(`${attribute}: no ${id}`);
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) found.push(`twice: ${id}`);
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].filter(seen).map((e) => Number(e.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1 || levels.some((level, i) => level > (levels[i - 1] ?? 0) + 1)) found.push(`headings ${levels}`);
  for (const tag of ["header", "main", "footer"]) if (document.querySelectorAll(`body > ${tag}`).length !== 1) found.push(`not one ${tag}`);
  if (!document.documentElement.lang || !document.title) found.push("no language or title");
  for (const e of document.querySelectorAll("button, input, select")) {
    const { width, height } = e.getBoundingClientRect();
    if (seen(e) && e.type !== "checkbox" && (width < 24 || height < 24)) found.push(`a target of ${width} by ${height}: ${e.id}`);
  }
  return found;
}
