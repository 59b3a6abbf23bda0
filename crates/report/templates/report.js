"use strict";
// The page says everything without this: it sorts tables, shows the values of charts, and changes colours.
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Colours: those of the system until somebody chooses; the choice lasts as long as the page.
  const root = document.documentElement, theme = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const label = () => { theme.textContent = isDark() ? "Light colours" : "Dark colours"; };
  theme.hidden = false;
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); });
  system.addEventListener("change", label);
  label();

  // What is folded is opened for a link into it, and for paper.
  const open = () => {
    const at = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!at) return;
    const inside = at.matches(".block, .part") && at.querySelector(":scope > details");
    if (inside) inside.open = true;
    for (let up = at; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
  };
  addEventListener("hashchange", open);
  open();
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all("details:not([open])");
    folded.forEach(d => { d.open = true; });
  });
  addEventListener("afterprint", () => { folded.forEach(d => { d.open = false; }); });
  // On a phone the contents would stand before the answer; where there is room for them they have no head to open them by.
  const narrow = matchMedia("(max-width: 69.99rem)");
  const contents = () => all("nav details").forEach(d => { d.open = !narrow.matches; });
  narrow.addEventListener("change", contents);
  contents();

  // A box that does not scroll is no stop for the keyboard.
  const boxes = all(".scroll, pre");
  const fit = () => boxes.forEach(b => {
    if (b.scrollWidth > b.clientWidth + 1) b.tabIndex = 0; else b.removeAttribute("tabindex");
  });
  new ResizeObserver(fit).observe(document.body);
  all("details").forEach(d => d.addEventListener("toggle", fit));
  fit();

  // Tables sort by a column: upwards, then downwards. What has no value stands last.
  const order = (a, b, down) => {
    const [x, y] = [a, b].map(cell => cell.dataset.v === undefined ? null : Number(cell.dataset.v));
    if (x !== null && y !== null) return down ? y - x : x - y;
    if (x !== null || y !== null) return x === null ? 1 : -1;
    const by = a.textContent.localeCompare(b.textContent, "en", { numeric: true });
    return down ? -by : by;
  };
  all("table[data-sort]").forEach(table => {
    const heads = all("thead th", table), body = table.tBodies[0];
    heads.forEach(head => {
      const button = document.createElement("button");
      button.type = "button";
      const wrap = () => { button.append(...head.childNodes); head.append(button); };
      wrap();
      // On paper a head with a button in it is not repeated on the next page.
      addEventListener("beforeprint", () => { button.remove(); head.append(...button.childNodes); });
      addEventListener("afterprint", wrap);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending", at = head.cellIndex;
        heads.forEach(h => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        body.append(...[...body.rows].sort((a, b) => order(a.cells[at], b.cells[at], down)));
      });
    });
  });

  // Charts: the values of the nearest point, by pointer and by arrow keys.
  const said = document.getElementById("said");
  // From attributes: what is folded away has no box yet.
  const middle = mark => {
    const of = (...names) => names.map(n => Number(mark.getAttribute(n)));
    if (mark.tagName === "circle") { const [x, y] = of("cx", "cy"); return { x, y }; }
    if (mark.tagName === "rect") { const [x, y, w, h] = of("x", "y", "width", "height"); return { x: x + w / 2, y: y + h / 2 }; }
    const [a, b, c, d] = mark.getAttribute("d").match(/-?[\d.]+/g).map(Number);
    return { x: (a + c) / 2, y: (b + d) / 2 };
  };
  all(".plot").forEach(plot => {
    const svg = plot.querySelector("svg");
    // The chart's own title would stand in the way of the values; its words are its label.
    const name = svg.querySelector(":scope > title");
    if (name) { svg.removeAttribute("aria-labelledby"); svg.setAttribute("aria-label", name.textContent); name.remove(); }
    const points = all(".hint", svg).map(mark => {
      const title = mark.querySelector("title"), text = title ? title.textContent.replaceAll(" · ", "\n") : "";
      if (title) title.remove();
      return { mark, text, ...middle(mark) };
    }).sort((a, b) => a.x - b.x || a.y - b.y);
    if (!points.length) { plot.removeAttribute("tabindex"); return; }
    plot.setAttribute("aria-label", `${plot.getAttribute("aria-label")}. ${points.length} points: step through them with the arrow keys.`);
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    plot.append(tip);
    let at = -1;
    const hide = () => {
      tip.hidden = true;
      if (at >= 0) points[at].mark.classList.remove("on");
      at = -1;
      said.textContent = "";
    };
    const show = (next, aloud) => {
      if (at >= 0) points[at].mark.classList.remove("on");
      at = next;
      const point = points[at];
      point.mark.classList.add("on");
      tip.textContent = point.text;
      tip.hidden = false;
      const box = point.mark.getBoundingClientRect(), frame = plot.getBoundingClientRect();
      const x = (box.left + box.right) / 2 - frame.left + plot.scrollLeft, y = box.top - frame.top;
      const least = plot.scrollLeft + 4, most = plot.scrollLeft + plot.clientWidth - tip.offsetWidth - 4;
      tip.style.left = `${Math.max(least, Math.min(most, x - tip.offsetWidth / 2))}px`;
      const above = y - tip.offsetHeight - 8;
      tip.style.top = `${above >= 4 ? above : Math.min(y + box.height + 8, plot.clientHeight - tip.offsetHeight - 4)}px`;
      if (aloud) said.textContent = `${point.text.replaceAll("\n", ", ")}; point ${at + 1} of ${points.length}`;
    };
    plot.addEventListener("pointermove", event => {
      const turn = svg.getScreenCTM().inverse();
      const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(turn);
      const under = points.findIndex(q => q.mark === event.target);
      const far = points.map(q => Math.hypot(q.x - p.x, q.y - p.y));
      const near = under >= 0 ? under : far.indexOf(Math.min(...far));
      if (under < 0 && far[near] > 40) { if (document.activeElement !== plot) hide(); } else if (near !== at) show(near, false);
    });
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
    plot.addEventListener("keydown", event => {
      const last = points.length - 1;
      const next = { ArrowRight: Math.min(at + 1, last), ArrowLeft: at < 0 ? last : Math.max(at - 1, 0), Home: 0, End: last }[event.key];
      if (event.key === "Escape") hide();
      else if (next !== undefined) { event.preventDefault(); show(next, true); }
    });
  });
})();
