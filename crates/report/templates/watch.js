"use strict";
(() => {
  const $ = id => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const MOST_PANELS = 8;
  let state = null;

  // Every text from the sweep goes through textContent.
  const put = (parent, name, text, className) => {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    parent.append(e);
    return e;
  };
  const draw = (parent, name, attributes, text) => {
    const e = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    if (text !== undefined) e.textContent = text;
    parent.append(e);
    return e;
  };

  const number = x => {
    if (x === null || x === undefined) return "–";
    const size = Math.abs(x);
    if (size >= 1000) return Math.round(x).toLocaleString("en");
    return String(Number(x.toPrecision(3)));
  };
  const time = s => {
    const whole = Math.max(0, Math.round(s));
    const two = n => String(n).padStart(2, "0");
    const [h, m, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    return h ? `${h}:${two(m)}:${two(rest)} h` : m ? (rest ? `${m}:${two(rest)} min` : `${m} min`) : `${rest} s`;
  };
  const latency = ms => ms >= 1000 ? `${number(ms / 1000)} s` : `${number(ms)} ms`;
  const UNITS = { rate: "req/s", concurrency: "in flight", sessions: "sessions/s", "trace-scale": "× trace speed" };
  const AXES = { rate: "requests per second", concurrency: "requests in flight", sessions: "sessions per second", "trace-scale": "× the speed of the trace" };
  const KINDS = {
    list: "a listed level", burst: "a burst", ramp: "ramp", baseline: "the unloaded server", refine: "close to the boundary", hold: "holding the safe rate",
    confirm: "soak at the safe rate", recovery: "recovery from a surge", peak: "peak throughput", profile: "under the profiler",
  };
  const METRICS = { ttft: "TTFT", ttfc: "TTFC", tpot: "TPOT", itl: "ITL", e2e: "e2e" };
  const named = limit => {
    const at = limit.indexOf(".p");
    return at < 0 ? limit : `${limit.slice(at + 1)} ${METRICS[limit.slice(0, at)] ?? limit.slice(0, at)}`;
  };
  const level = step => step.kind === "baseline" ? "unloaded" : `${number(step.level)} ${UNITS[step.control] ?? ""}`;
  // Names of tier, class and series only where there are several.
  const several = (all, key) => new Set(all.map(one => one[key])).size > 1;
  const whose = (one, all) => ["series", "tier", "class"]
    .filter(key => key in one && several(all, key)).map(key => one[key]).join(", ");

  const scale = (from, to, low, high, log) => {
    const [a, b] = log ? [Math.log(low), Math.log(high)] : [low, high];
    return x => from + (to - from) * ((log ? Math.log(x) : x) - a) / (b - a || 1);
  };
  // Marks at 1, 2 and 5 times powers of ten, or evenly spaced ones.
  const marks = (low, high, log, most) => {
    const all = [];
    if (log) {
      const wide = Math.log10(high / low) > 3;
      for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) {
        for (const m of wide ? [1] : [1, 2, 5]) {
          const x = m * 10 ** e;
          if (x >= low && x <= high) all.push(x);
        }
      }
      if (all.length > 1) return all;
    }
    all.length = 0;
    const raw = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    const pace = [1, 2, 5, 10].map(m => m * power).find(p => p >= raw);
    for (let x = Math.ceil(low / pace) * pace; x <= high; x += pace) all.push(x);
    return all;
  };

  // An empty chart with its axes: { svg, x, y, right }.
  const chart = (parent, title, width, x, y, spoken) => {
    const figure = put(parent, "figure");
    put(figure, "figcaption", title);
    const [height, left, right, top, bottom] = [270, 58, width - 16, 16, 228];
    const svg = draw(figure, "svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": spoken });
    const sx = scale(left, right, x.low, x.high, x.log);
    const sy = scale(bottom, top, y.low, y.high, y.log);
    for (const mark of marks(y.low, y.high, y.log, 5)) {
      draw(svg, "line", { x1: left, x2: right, y1: sy(mark), y2: sy(mark), class: "grid" });
      draw(svg, "text", { x: left - 6, y: sy(mark) + 4, "text-anchor": "end" }, y.format(mark));
    }
    let last = -Infinity;
    for (const mark of marks(x.low, x.high, x.log, Math.max(3, width / 90))) {
      if (sx(mark) - last < 44) continue;
      last = sx(mark);
      draw(svg, "line", { x1: last, x2: last, y1: top, y2: bottom, class: "grid" });
      const atEdge = last > right - 24;
      draw(svg, "text", { x: atEdge ? right : last, y: bottom + 16, "text-anchor": atEdge ? "end" : "middle" }, x.format(mark));
    }
    draw(svg, "text", { x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }, x.name);
    return { svg, x: sx, y: sy, left, right, top, bottom };
  };
  const width = parent => {
    const all = parent.clientWidth || 320;
    const columns = Math.max(1, Math.floor((all + 20) / 452));
    const shown = Math.min(columns, parent.dataset.panels);
    return (all - 20 * (shown - 1)) / shown;
  };

  const MARK = {
    meets: (svg, x, y) => draw(svg, "circle", { cx: x, cy: y, r: 5, class: "meets" }),
    fails: (svg, x, y) => draw(svg, "path", { d: `M${x - 5} ${y - 5}L${x + 5} ${y + 5}M${x + 5} ${y - 5}L${x - 5} ${y + 5}`, class: "fails" }),
    undecided: (svg, x, y) => draw(svg, "circle", { cx: x, cy: y, r: 5, class: "undecided" }),
    invalid: (svg, x, y) => draw(svg, "path", { d: `M${x} ${y - 5}L${x + 5} ${y + 4}L${x - 5} ${y + 4}Z`, class: "invalid" }),
  };

  // Latency of the steps for every limit.
  const latencies = () => {
    const parent = $("latency");
    const panels = state.limits.slice(0, MOST_PANELS);
    const steps = state.steps.filter(s => s.kind !== "baseline" && s.level > 0);
    $("latencies").hidden = !(panels.length && (steps.length || state.running));
    parent.replaceChildren();
    parent.dataset.panels = panels.length;
    const wide = width(parent);
    for (const limit of panels) {
      const of = s => s.limits.find(l => l.limit === limit.limit && l.tier === limit.tier && l.class === limit.class);
      const points = steps.map(s => ({ step: s, at: of(s) })).filter(p => p.at && p.at.ms > 0);
      const running = state.running && state.phase === "step" && state.running.level > 0 && state.running.kind !== "baseline" ? state.running : null;
      const xs = points.map(p => p.step.level).concat(running ? [running.level] : []);
      const ys = points.map(p => p.at.ms).concat([limit.limit_ms]);
      if (!xs.length) continue;
      const control = (running ?? points.at(-1).step).control;
      const x = { low: Math.min(...xs) / 1.25, high: Math.max(...xs) * 1.25, log: true, format: number, name: AXES[control] ?? "" };
      const y = { low: Math.min(...ys) / 1.6, high: Math.max(...ys) * 1.6, log: true, format: latency };
      const own = whose(limit, state.limits);
      const title = `${named(limit.limit)}${own ? `, ${own}` : ""}`;
      const spoken = `${title} of ${points.length} steps, limit ${latency(limit.limit_ms)}`;
      const c = chart(parent, title, wide, x, y, spoken);
      const at = c.y(limit.limit_ms);
      draw(c.svg, "line", { x1: c.left, x2: c.right, y1: at, y2: at, class: "limit" });
      draw(c.svg, "text", { x: c.left + 6, y: at - 6, class: "strong" }, `limit ${latency(limit.limit_ms)}`);
      if (running) {
        draw(c.svg, "line", { x1: c.x(running.level), x2: c.x(running.level), y1: c.top, y2: c.bottom, class: "current" });
      }
      for (const { step, at } of points) {
        const mark = (MARK[step.verdict] ?? MARK.undecided)(c.svg, c.x(step.level), c.y(at.ms));
        draw(mark, "title", {}, `${step.series === "main" ? "" : `${step.series}, `}step ${step.step}: ${level(step)}, ${latency(at.ms)}, ${step.verdict}`);
      }
    }
  };

  // The answers as they were known after each step.
  const estimates = () => {
    const groups = new Map();
    for (const one of state.estimates) {
      const key = JSON.stringify([one.series, one.tier, one.class]);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(one);
    }
    const some = e => e.rate !== null || e.high !== null || e.met !== null || e.failed !== null;
    const panels = [...groups.values()].map(g => g.filter(some)).filter(g => g.length).slice(-MOST_PANELS);
    const parent = $("goodput");
    $("closing").hidden = !panels.length;
    parent.replaceChildren();
    parent.dataset.panels = panels.length;
    const wide = width(parent);
    for (const all of panels) {
      const last = all.at(-1);
      const settled = [last.rate, last.high, last.met, last.failed].filter(v => v !== null);
      const seen = all.flatMap(e => [e.rate, e.high, e.met, e.failed]).filter(v => v !== null);
      // Early intervals reach far beyond the answer: they are cut off at the edge.
      const high = Math.min(Math.max(...seen), 2 * Math.max(...settled)) * 1.1;
      const times = all.map(e => e.at_s);
      const end = state.budget ? state.budget.began_s + state.budget.total_s : 1;
      const x = { low: 0, high: Math.max(...times, state.spent_s, end), format: time, name: "time of the sweep" };
      const y = { low: 0, high, format: number };
      const own = whose(last, state.estimates);
      const unit = UNITS[last.control] ?? "";
      const interval = last.low !== null ? ` (${number(last.low)} to ${number(last.high)})` : "";
      const value = last.rate !== null ? `${number(last.rate)} ${unit}${interval}` : last.met !== null ? `at least ${number(last.met)} ${unit}` : last.high !== null ? `below ${number(last.high)} ${unit}` : `below ${number(last.failed)} ${unit}`;
      const title = `${own ? `${own}: ` : ""}${value}`;
      const c = chart(parent, title, wide, x, y, `Goodput so far: ${title}`);
      const inside = v => Math.max(c.top, Math.min(c.bottom, c.y(v)));
      const known = all.filter(e => e.low !== null && e.high !== null);
      if (known.length) {
        const there = known.map(e => `${c.x(e.at_s)} ${inside(e.high)}`);
        const back = known.map(e => `${c.x(e.at_s)} ${inside(e.low)}`).reverse();
        draw(c.svg, "path", { d: `M${there.concat(back).join("L")}Z`, class: "band" });
        for (const e of known) {
          draw(c.svg, "rect", { x: c.x(e.at_s) - 2, width: 4, y: inside(e.high), height: Math.max(1, inside(e.low) - inside(e.high)), class: "band" });
        }
      }
      const medians = all.filter(e => e.rate !== null);
      if (medians.length) draw(c.svg, "path", { d: `M${medians.map(e => `${c.x(e.at_s)} ${inside(e.rate)}`).join("L")}`, class: "median" });
      for (const e of medians) draw(c.svg, "circle", { cx: c.x(e.at_s), cy: inside(e.rate), r: 3, class: "dot" });
      for (const e of all) {
        if (e.met !== null) draw(c.svg, "text", { x: c.x(e.at_s), y: inside(e.met) + 11, "text-anchor": "middle" }, "▲");
        if (e.failed !== null) draw(c.svg, "text", { x: c.x(e.at_s), y: inside(e.failed) - 2, "text-anchor": "middle" }, "▼");
      }
    }
  };

  const caveats = () => {
    const said = state.words?.caveats ?? [];
    $("caveats").hidden = !said.length;
    $("said").replaceChildren();
    for (const one of said) {
      const item = put($("said"), "li", one.text);
      put(item, "em", one.advice);
    }
  };

  const table = () => {
    $("measured").hidden = !state.steps.length;
    const manySeries = several(state.steps, "series");
    $("heads").replaceChildren();
    const heads = ["Step", ...(manySeries ? ["Series"] : []), "Level", "Achieved req/s",
      ...state.limits.map(l => [named(l.limit), whose(l, state.limits)].filter(Boolean).join(", ")), "Verdict"];
    const isNumber = head => !["Series", "Verdict"].includes(head);
    for (const head of heads) put($("heads"), "th", head, isNumber(head) ? "n" : "");
    $("steps").replaceChildren();
    const tones = { meets: "good", fails: "bad", undecided: "open", invalid: "open" };
    for (const step of [...state.steps].reverse()) {
      const row = put($("steps"), "tr");
      put(row, "td", step.step, "n");
      if (manySeries) put(row, "td", step.series);
      put(row, "td", level(step), "n");
      put(row, "td", number(step.achieved), "n");
      for (const l of state.limits) {
        const at = step.limits.find(m => m.limit === l.limit && m.tier === l.tier && m.class === l.class);
        put(row, "td", at && at.ms !== null ? latency(at.ms) : "–", "n");
      }
      put(row, "td", step.verdict, tones[step.verdict]);
    }
  };

  const fact = (name, value) => {
    const one = put($("facts"), "div");
    put(one, "dt", name);
    put(one, "dd", value);
  };
  const now = () => {
    const { running, phase, budget } = state;
    $("facts").replaceChildren();
    if (phase === "reporting") $("doing").textContent = "Everything is measured. The report is being written.";
    else if (running && phase === "step") {
      const who = several(state.steps.concat([running]), "series") ? `${running.series}, ` : "";
      $("doing").textContent = `${who}Step ${running.step}: ${level(running)}${running.kind === "baseline" ? "" : `, ${KINDS[running.kind] ?? running.kind}`}`;
      fact("In this step", running.end_s > 0 ? `${time(running.elapsed_s)} of ${time(running.end_s)}` : time(running.elapsed_s));
      fact("In flight", number(running.in_flight));
    } else $("doing").textContent = running ? "Between two steps" : "Preparing the server";
    $("part").value = phase === "step" && running.end_s > 0 ? Math.min(1, running.elapsed_s / running.end_s) : phase === "reporting" ? 1 : 0;
    if (budget) fact("Budget left", `${time(budget.total_s - (state.spent_s - budget.began_s))} of ${time(budget.total_s)}`);
    else fact("Time spent", time(state.spent_s));
    fact("Steps measured", number(state.steps.length));
    misses(phase === "step" ? running.misses : []);
  };

  const misses = rows => {
    $("missing").hidden = !rows.length;
    $("misses").replaceChildren();
    for (const one of rows) {
      const row = put($("misses"), "tr");
      const own = whose(one, rows);
      put(row, "td", `${named(one.limit)}${own ? `, ${own}` : ""}`);
      put(row, "td", number(one.misses), "n");
      const permitted = one.permitted * one.n;
      put(row, "td", permitted.toFixed(1), "n");
      put(row, "td", number(one.n), "n");
      const used = permitted > 0 ? one.misses / permitted : 0;
      const bar = draw(put(row, "td"), "svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": `${Math.round(100 * used)} % of what is permitted` });
      draw(bar, "rect", { width: 100, height: 8, class: "ground" });
      draw(bar, "rect", { width: Math.min(100, 100 * used), height: 8, class: used > 1 ? "much" : "" });
    }
  };

  const all = () => {
    $("name").textContent = state.name;
    document.title = `goodput: ${state.name}`;
    if (state.words?.headline && state.steps.length) $("headline").textContent = `So far: ${state.words.headline}`;
    $("about").textContent = `${state.server} · ${state.workload} · goodput ${state.version}`;
    latencies();
    estimates();
    caveats();
    table();
    now();
  };

  const events = new EventSource("events");
  const arrived = () => {
    $("link").textContent = "live";
    $("link").classList.remove("bad");
    if (state.phase === "report") {
      events.close();
      location.replace("report.html");
    }
  };
  events.addEventListener("state", event => {
    state = JSON.parse(event.data);
    all();
    arrived();
  });
  let shown = null;
  events.addEventListener("now", event => {
    if (!state) return;
    Object.assign(state, JSON.parse(event.data));
    now();
    const step = `${state.running?.step} ${state.phase}`;
    if (step !== shown) latencies();
    shown = step;
    arrived();
  });
  events.addEventListener("error", () => {
    $("link").textContent = "no connection; trying again …";
    $("link").classList.add("bad");
  });
  let resized = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(resized);
    resized = requestAnimationFrame(() => { if (state) { latencies(); estimates(); } });
  });
})();
