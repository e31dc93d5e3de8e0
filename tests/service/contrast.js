() => {
  const parse = (text) => { const n = text.match(/[\d.]+/g).map(Number); return [n[0], n[1], n[2], n[3] ?? 1]; };
  const over = ([r, g, b, a], under) => [r, g, b].map((x, i) => x * a + under[i] * (1 - a));
  const back = (e) => { const own = parse(getComputedStyle(e).backgroundColor); return own[3] === 1 || !e.parentElement ? (own[3] ? own.slice(0, 3) : [255, 255, 255]) : over(own, back(e.parentElement)); };
  const light = (rgb) => rgb.map((x) => x / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)).reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.textContent.trim() || !e.checkVisibility({ checkVisibilityCSS: true }) || e.tagName === "OPTION") continue;
    const style = getComputedStyle(e), under = back(e), ink = over(parse(e instanceof SVGElement ? style.fill : style.color), under);
    const [low, high] = [light(ink), light(under)].sort((a, b) => a - b);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    found.push({ text: node.textContent.trim().slice(0, 40), contrast: (high + 0.05) / (low + 0.05), needed: e.closest(":disabled") ? 0 : large ? 3 : 4.5 });
  }
  return found;
}
