"use strict";
// The page of `tide dashboard`. It reads samples and states from one stream and draws the panel that is chosen. Names from
// the cluster are data: they enter the page as text nodes only. Nothing is evaluated, nothing is loaded from elsewhere.

const SAMPLES = 600, EVENTS = 200;
const model = { me: null, samples: [], state: null, last: 0, problem: "", losses: new Map(), annotations: [], decisions: null, shipped: [] };

/* ---- small tools ---- */

const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined).map((c) => (c instanceof Node ? c : String(c))));
  return node;
}

function draw(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const list = (value) => (Array.isArray(value) ? value : []);
const known = (value) => typeof value === "number" && Number.isFinite(value);

function count(value) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  for (const [limit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= limit) return Number((value / limit).toPrecision(3)) + letter;
  }
  return String(Number(value.toPrecision(3)));
}

function bytes(value) {
  if (!known(value)) return "–";
  for (const [limit, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (value >= limit) return Number((value / limit).toPrecision(3)) + " " + unit;
  }
  return Math.round(value) + " B";
}

function seconds(value) {
  if (!known(value)) return "–";
  if (value >= 60) return Math.floor(value / 60) + " min " + Math.round(value % 60) + " s";
  for (const [limit, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) {
    if (value >= limit) return Number((value / limit).toPrecision(3)) + " " + unit;
  }
  return value === 0 ? "0 s" : Math.round(value * 1e9) + " ns";
}

const precise = (value) => (known(value) ? String(Number(value.toPrecision(3))) : "–");
const share = (value) => (known(value) ? (100 * value).toFixed(value < 0.1 ? 1 : 0) + " %" : "–");
const clock = (time) => (known(time) ? new Date(time * 1000).toLocaleTimeString("en-GB") : "–");

/* ---- the connection ---- */

function token() {
  const given = /^#token=([0-9a-f]{64})$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem("tide-token", given[1]);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem("tide-token") || "";
}

const bearer = token();
const here = (path) => path.replace(/^\//, ""); // below the address of the page, which may have a prefix

async function ask(path, body) {
  const headers = { Authorization: "Bearer " + bearer };
  const answer = await fetch(here(path), body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(data.error ? data.error + (data.help ? ": " + data.help : "") : "answer " + answer.status);
  return data;
}

let stream = null, wait = 500, heard = 0;

function say(text, off) {
  const live = document.getElementById("live");
  if (live.textContent !== text) live.textContent = text;
  live.classList.toggle("off", Boolean(off));
}

function tell(problem) {
  const node = document.getElementById("problem");
  node.hidden = !problem;
  if (node.textContent !== problem) node.textContent = problem;
}

function take(event, id, data) {
  const value = JSON.parse(data);
  heard = Date.now();
  if (event === "sample") {
    if (id <= model.last && model.samples.length > 0) return;
    model.last = id;
    model.samples.push(value);
    if (model.samples.length > SAMPLES) model.samples.shift();
    for (const [name, loss, , reports] of list(value.runs)) learn(name, loss, reports, value.t);
  } else if (event === "state") {
    model.state = value;
    show();
  } else if (event === "gap") {
    model.samples.push({ t: null, lost: value.lost });
  }
}

// A point of a run's curve; a loss that is not known is none.
function learn(name, loss, reports, time) {
  if (!known(loss)) return;
  let curve = model.losses.get(name);
  if (!curve) model.losses.set(name, (curve = { began: time, points: [] }));
  const last = curve.points[curve.points.length - 1];
  if (last && last[0] === reports && last[1] === loss) return;
  curve.points.push([reports, loss, time - curve.began]);
  if (curve.points.length > 2000) curve.points = curve.points.filter((_, i) => i % 2 === 0);
  if (model.losses.size > 32) model.losses.delete(model.losses.keys().next().value);
}

function parse(buffer, start) {
  let event = "", id = 0, data = "";
  for (const line of buffer.split("\n")) {
    if (line.startsWith("event: ")) event = line.slice(7);
    else if (line.startsWith("id: ")) id = Number(line.slice(4));
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (event) take(event, id, data);
}

async function follow() {
  if (stream || document.hidden) return;
  const mine = (stream = new AbortController());
  try {
    const answer = await fetch("api/stream?after=" + model.last, { headers: { Authorization: "Bearer " + bearer }, signal: mine.signal });
    if (answer.status === 401 || answer.status === 403 || answer.status === 429) {
      const why = (await answer.json().catch(() => ({}))).error || "answer " + answer.status;
      say("access denied", true);
      tell(`No access: ${why}.`);
      stream = null;
      return;
    }
    if (!answer.ok) throw new Error("answer " + answer.status);
    wait = 500;
    if (!model.me) ask("/api/me").then((me) => { model.me = me; show(); }, () => {});
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      buffer += value;
      let end;
      while ((end = buffer.indexOf("\n\n")) >= 0) {
        parse(buffer.slice(0, end));
        buffer = buffer.slice(end + 2);
      }
    }
  } catch (problem) {
    if (mine.signal.aborted) return;
  }
  if (stream === mine) stream = null;
  if (!document.hidden) {
    say("no connection to tide dashboard; reconnecting", true);
    setTimeout(follow, wait);
    wait = Math.min(2 * wait, 8000);
  }
}

// A browser has six connections to a host: a tab that nobody sees gives its own back, and comes back with its last number.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    if (stream) stream.abort();
    stream = null;
  } else follow();
});

setInterval(() => {
  if (stream && heard && Date.now() - heard > 15000) { // a stream that stands still may be one whose other end has gone
    stream.abort();
    stream = null;
    follow();
  }
}, 5000);

/* ---- charts ---- */

// At most a dozen ticks, whatever the numbers: a step that is lost in rounding would never come to an end.
function scale(low, high, ticks, base) {
  if (!(high - low > 1e-9 * Math.max(Math.abs(low), Math.abs(high)))) high = low + (Math.abs(low) || 1);
  const rough = (high - low) / ticks, power = base ** Math.floor(Math.log(rough) / Math.log(base));
  const step = (base === 1024 ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] : [1, 2, 5, 10]).map((n) => n * power).find((n) => n >= rough) || rough;
  const first = Math.ceil(low / step), out = [];
  for (let i = 0; i < 12 && (first + i) * step <= high * (1 + 1e-9); i++) out.push((first + i) * step);
  return { low, high, ticks: out };
}

// A logarithmic axis: a tick a decade, at most a dozen.
function decades(low, high) {
  const first = Math.floor(Math.log10(low)), last = Math.max(first + 1, Math.ceil(Math.log10(high))), out = [], step = Math.ceil((last - first) / 11);
  for (let e = first; e <= last; e += step) out.push(10 ** e);
  return { low: 10 ** first, high: 10 ** last, ticks: out, log: true };
}

// An exponential moving mean, corrected for its beginning; a gap stays one.
function smooth(points, weight) {
  if (!(weight > 0)) return points;
  let mean = 0, sum = 0;
  return points.map(([x, y]) => {
    if (!known(y)) return [x, y];
    mean = weight * mean + (1 - weight) * y;
    sum = weight * sum + 1 - weight;
    return [x, mean / sum];
  });
}

function download(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function fetch_text(path) {
  const answer = await fetch(here(path), { headers: { Authorization: "Bearer " + bearer } });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || "answer " + answer.status);
  return answer.text();
}

// Pixels that a chart of this width has: a wide one fills its card, and on a narrow screen each is drawn narrower, not
// smaller, so that its letters stay as they are.
function room(wish) {
  const width = document.getElementById("panels").clientWidth - 58;
  return width > 0 ? Math.max(240, wish >= 900 ? width : Math.min(wish, width)) : wish;
}

// The same of a chart in a cell of a grid (style.css).
function cell_room() {
  const whole = document.getElementById("panels").clientWidth - 32, cells = innerWidth <= 820 ? 1 : Math.max(1, Math.floor((whole + 11) / 351));
  return whole > 0 ? Math.max(240, (whole - 11 * (cells - 1)) / cells - 28) : 480;
}

function key_list(names, sign_of) {
  return make("ul", { class: "key" }, ...names.map((name, i) => {
    const sign = draw("svg", { viewBox: "0 0 18 10", "aria-hidden": "true" });
    sign.append(sign_of(i));
    return make("li", {}, sign, make("bdi", {}, name));
  }));
}

const stroke_sign = (i) => draw("line", { class: `l s${i % 8} d${Math.floor(i / 8) % 3}`, x1: 0, x2: 18, y1: 5, y2: 5 });
const fill_sign = (i) => draw("rect", { class: `f${i % 8}`, x: 0, y: 0, width: 18, height: 10 });

// What changed, in the order of the numbers at the lines of a chart.
function marks_list(marks, format) {
  if (marks.length === 0) return null;
  return folded(`What changed (${marks.length})`, () => make("ol", { class: "marks" }, ...marks.map((m) => make("li", {}, `${format(m.x)}: `, make("bdi", {}, m.text)))), marks.length <= 6);
}

// Series: [{name, points: [[x, y], ...]}]; y that is not known breaks the line.
function lines(title, series, o) {
  const W = o.width ? room(o.width) : cell_room(), H = o.height || 150, L = 56, R = 8, T = 8, B = 20;
  let x0 = Infinity, x1 = -Infinity, y0 = o.zero === false ? Infinity : 0, y1 = -Infinity;
  for (const { points } of series) {
    for (const [x, y] of points) {
      if (!known(x)) continue;
      x0 = Math.min(x0, x); x1 = Math.max(x1, x);
      if (known(y) && (!o.logy || y > 0)) { y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
    }
  }
  const figure = make("figure", { class: "card", "data-chart": title }, make("h2", {}, title));
  if (!known(x0) || !known(y1)) {
    figure.append(make("p", { class: "soft" }, o.empty || "nothing to show yet"));
    return figure;
  }
  const Y = o.logy && y0 > 0 ? decades(y0, y1) : scale(y0, y1, 4, o.format === bytes ? 1024 : 10);
  const ly = Y.log ? Math.log10 : (v) => v, lx = o.logx && x0 > 0 ? Math.log10 : (v) => v, wide = lx(x1) - lx(x0) || 1;
  const px = (x) => L + (W - L - R) * (lx(x) - lx(x0)) / wide, py = (y) => T + (H - T - B) * (1 - (ly(y) - ly(Y.low)) / (ly(Y.high) - ly(Y.low)));
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  for (const y of Y.ticks) {
    svg.append(draw("line", { class: "axis", x1: L, x2: W - R, y1: py(y), y2: py(y) }));
    svg.append(draw("text", { x: L - 5, y: py(y) + 4, "text-anchor": "end" }, o.format(y)));
  }
  const xf = o.x || ((x) => clock(x));
  svg.append(draw("text", { x: L, y: H - 5 }, xf(x0)), draw("text", { x: W - R, y: H - 5, "text-anchor": "end" }, xf(x1)));
  (o.marks || []).forEach((mark, i) => {
    if (mark.x < x0 || mark.x > x1) return;
    const line = draw("line", { class: "s1 d2", x1: px(mark.x), x2: px(mark.x), y1: T, y2: H - B });
    line.append(draw("title", {}, mark.text));
    svg.append(line);
    if (i < 40) svg.append(draw("text", { class: "mark", x: px(mark.x) + 2, y: T + 8 + 10 * (i % 3) }, i + 1));
  });
  series.forEach(({ points }, i) => {
    let path = "", open = false;
    for (const [x, y] of points) {
      if (!known(x) || !known(y) || o.logy && !(y > 0) || o.logx && !(x > 0)) { open = false; continue; }
      path += (open ? "L" : "M") + px(x).toFixed(1) + " " + py(y).toFixed(1);
      if (!open) path += "h.1";
      open = true;
    }
    svg.append(draw("path", { class: `l s${i % 8} d${Math.floor(i / 8) % 3}`, d: path }));
  });
  figure.append(svg);
  if (series.length > 1 || o.named) {
    figure.append(key_list(series.map(({ name }) => name), stroke_sign));
  }
  const listed = marks_list(o.marks || [], xf);
  if (listed) figure.append(listed);
  figure.append(numbers(series, o, xf));
  return figure;
}

// The same as a table: the newest points, one row a moment.
function numbers(series, o, xf) {
  const at = new Map();
  series.forEach(({ points }, i) => {
    for (const [x, y] of points.slice(-20)) {
      if (!known(x)) continue;
      if (!at.has(x)) at.set(x, []);
      at.get(x)[i] = y;
    }
  });
  const rows = [...at.entries()].sort((a, b) => b[0] - a[0]).slice(0, 20);
  return folded("Show data", () => rows_table(null, [o.xname || "time", ...series.map((s) => s.name)],
    rows.map(([x, ys]) => [xf(x), ...series.map((_, i) => o.format(ys[i]))]), series.map((_, i) => i + 1)));
}

const opened = new Set(), met = new Set();
let panel_key = "", fold_number = 0;

// Details that stay open when the panel is drawn again, and are made only when they are.
function folded(title, body, at_first) {
  const key = panel_key + "/" + fold_number++ + "/" + title;
  if (at_first && !met.has(key)) opened.add(key);
  met.add(key);
  const node = make("details", { open: opened.has(key) ? "" : null }, make("summary", {}, title));
  const fill = () => { if (node.open && node.childElementCount === 1) node.append(body()); };
  node.addEventListener("toggle", () => { if (node.open) opened.add(key); else opened.delete(key); fill(); });
  fill();
  return node;
}

// `order`: {by, down, set(name)} for columns that sort; a head is then a button.
function rows_table(caption, heads, rows, right, order) {
  const numeric = new Set(right || []);
  const head_of = (head, i) => {
    const sorts = order && order.names[i], th = make("th", { scope: "col", class: numeric.has(i) ? "n" : null, "aria-sort": sorts && order.by === sorts ? (order.down ? "descending" : "ascending") : null });
    if (!sorts) return (th.append(head), th);
    const button = make("button", { type: "button", class: "sort" }, head + (order.by === sorts ? (order.down ? " ↓" : " ↑") : ""));
    button.addEventListener("click", () => order.set(sorts));
    th.append(button);
    return th;
  };
  const cell = (value, i) => {
    const td = make("td", { class: numeric.has(i) ? "n" : null });
    if (value instanceof Node) td.append(value);
    else if (value && value.text !== undefined) { td.append(String(value.text)); td.className += " " + value.class; }
    else td.append(value === undefined || value === null ? "–" : String(value));
    return td;
  };
  return make("div", { class: rows.length > 24 ? "wide tall" : "wide", tabindex: "0", role: "region", "aria-label": caption || "table" }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map(head_of))),
    make("tbody", {}, ...(rows.length > 0 ? rows.map((row) => make("tr", { class: row.down ? "down" : null }, ...list(row.cells || row).map(cell)))
      : [make("tr", {}, make("td", { colspan: heads.length, class: "soft" }, "none"))]))));
}

// Parts of a whole, a bar a row: [{name, parts: [share, ...]}].
function stacked(title, names, rows, of) {
  const figure = make("figure", { class: "card", "data-chart": title }, make("h2", {}, title));
  const H = 18, W = room(960), L = W < 500 ? 96 : 140, letters = W < 500 ? 14 : 20;
  const svg = draw("svg", { viewBox: `0 0 ${W} ${rows.length * H + 4}`, role: "img", "aria-label": title });
  rows.forEach(({ name, parts }, i) => {
    svg.append(draw("text", { x: L - 6, y: i * H + 13, "text-anchor": "end" }, name.length > letters ? name.slice(0, letters - 1) + "…" : name));
    let at = L;
    parts.forEach((part, k) => {
      const wide = Math.max(0, part) * (W - L);
      const rect = draw("rect", { class: `f${k % 8}`, x: at, y: i * H + 2, width: wide, height: H - 4 });
      rect.append(draw("title", {}, `${name}: ${names[k]} ${share(part)}`));
      svg.append(rect);
      at += wide;
    });
  });
  figure.append(svg, key_list(names, fill_sign), folded("Show data", () => rows_table(null, [of || "worker", ...names],
    rows.map((r) => [r.name, ...r.parts.map((part, k) => (r.texts ? r.texts[k] : share(part)))]), names.map((_, i) => i + 1))));
  return figure;
}

// Shares of a sum over time, one above the other: [{name, points: [[x, y], ...]}], all with the same x.
function areas(title, series, o) {
  const W = room(o.width || 960), H = o.height || 200, L = 64, R = 8, T = 8, B = 20;
  const figure = make("figure", { class: "card", "data-chart": title }, make("h2", {}, title));
  const xs = series.length > 0 ? series[0].points.map(([x]) => x) : [], sums = xs.map((_, i) => series.reduce((sum, each) => sum + (each.points[i][1] || 0), 0));
  if (xs.length < 2) return (figure.append(make("p", { class: "soft" }, "nothing to show yet")), figure);
  const Y = scale(0, Math.max(...sums), 4, o.format === bytes ? 1024 : 10), wide = xs[xs.length - 1] - xs[0] || 1;
  const px = (x) => (L + (W - L - R) * (x - xs[0]) / wide).toFixed(1), py = (y) => (T + (H - T - B) * (1 - y / Y.high)).toFixed(1);
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title }), below = xs.map(() => 0);
  series.forEach(({ name, points }, k) => {
    const under = below.slice();
    points.forEach(([, y], i) => { below[i] += y || 0; });
    const path = draw("path", { class: `f${k % 8} area`, d: "M" + xs.map((x, i) => px(x) + " " + py(below[i])).join("L") + "L" + xs.map((x, i) => px(x) + " " + py(under[i])).reverse().join("L") + "Z" });
    path.append(draw("title", {}, name));
    svg.append(path);
  });
  for (const y of Y.ticks) {
    svg.append(draw("line", { class: "axis", x1: L, x2: W - R, y1: py(y), y2: py(y) }), draw("text", { x: L - 5, y: Number(py(y)) + 4, "text-anchor": "end" }, o.format(y)));
  }
  svg.append(draw("text", { x: L, y: H - 5 }, clock(xs[0])), draw("text", { x: W - R, y: H - 5, "text-anchor": "end" }, clock(xs[xs.length - 1])));
  figure.append(svg, key_list(series.map(({ name }) => name), fill_sign), numbers(series, o, clock));
  return figure;
}

// Cividis in eleven steps: dark blue to yellow, the same order for all eyes and in grey.
const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#f3db4d", "#fee838"];
const shade_of = (value, low, high) => CIVIDIS[Math.max(0, Math.min(10, Math.round(10 * (value - low) / ((high - low) || 1))))];

function shades(low, high, format) {
  const svg = draw("svg", { viewBox: "0 0 110 10", class: "shades", "aria-hidden": "true" });
  CIVIDIS.forEach((fill, i) => svg.append(draw("rect", { x: 10 * i, y: 0, width: 10, height: 10, fill })));
  return make("span", { class: "soft" }, format(low) + " ", svg, " " + format(high));
}

// Points [x, y, colour, name]: colour, if it is known, from dark blue to yellow.
function scatter(title, points, o) {
  const W = room(o.width || 960), H = o.height || 320, L = 60, R = 8, T = 8, B = 34;
  const figure = make("figure", { class: "card", "data-chart": title }, make("h2", {}, title));
  const fit = points.filter(([x, y]) => known(x) && known(y) && (!o.logx || x > 0) && (!o.logy || y > 0));
  if (fit.length === 0) return (figure.append(make("p", { class: "soft" }, "no run has both fields")), figure);
  const range = (k) => fit.reduce(([a, b], p) => (known(p[k]) ? [Math.min(a, p[k]), Math.max(b, p[k])] : [a, b]), [Infinity, -Infinity]);
  const axis = (k, log) => (log ? decades(...range(k)) : scale(...range(k), 5, 10)), X = axis(0, o.logx), Y = axis(1, o.logy), [c0, c1] = range(2);
  const on = (A, v) => (A.log ? Math.log10(v / A.low) / Math.log10(A.high / A.low) : (v - A.low) / (A.high - A.low));
  const px = (x) => L + 6 + (W - L - R - 12) * on(X, x), py = (y) => T + (H - T - B) * (1 - on(Y, y));
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  for (const y of Y.ticks) svg.append(draw("line", { class: "axis", x1: L, x2: W - R, y1: py(y), y2: py(y) }), draw("text", { x: L - 5, y: py(y) + 4, "text-anchor": "end" }, precise(y)));
  for (const x of X.ticks) svg.append(draw("text", { x: px(x), y: H - B + 14, "text-anchor": "middle" }, precise(x)));
  svg.append(draw("text", { x: W - R, y: H - 4, "text-anchor": "end" }, o.xname));
  for (const [x, y, colour, name] of fit) {
    const dot = draw("circle", { cx: px(x).toFixed(1), cy: py(y).toFixed(1), r: 4, class: "dot", fill: known(colour) ? shade_of(colour, c0, c1) : "gray" });
    dot.append(draw("title", {}, `${name || ""}: ${o.xname} ${precise(x)}, ${o.yname} ${precise(y)}${known(colour) ? `, ${o.colour} ${precise(colour)}` : ""}`));
    svg.append(dot);
  }
  figure.append(svg);
  if (known(c0)) figure.append(make("div", { class: "row" }, make("span", { class: "soft" }, o.colour), shades(c0, c1, precise)));
  figure.append(folded("Show data", () => rows_table(null, ["run", o.xname, o.yname, ...(o.colour ? [o.colour] : [])], fit.slice(0, 100).map(([x, y, colour, name]) => [name, precise(x), precise(y), ...(o.colour ? [precise(colour)] : [])]), [1, 2, 3])));
  return figure;
}

// A map of shades, for more cells than numbers fit: columns [[label, [value, ...]], ...] from left to right, rows from the
// bottom up. A cell's numbers are read by pointer or by arrow keys.
function heat_map(title, columns, row_names, o) {
  const W = room(o.width || 960), L = o.left || 64, B = 18, T = 4, cell_w = (W - L - 4) / Math.max(columns.length, 1), cell_h = o.square ? Math.max(5, Math.min(14, cell_w)) : 14, H = T + B + row_names.length * cell_h;
  const figure = make("figure", { class: "card", "data-chart": title }, make("h2", {}, title));
  const low = o.low ?? 0, high = Math.max(1e-12, ...columns.flatMap(([, values]) => values.filter(known)));
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title + ": arrow keys read cells", tabindex: "0" }), paths = CIVIDIS.map(() => "");
  const y_of = (i) => (o.down ? T + i * cell_h : H - B - (i + 1) * cell_h);
  columns.forEach(([, values], c) => values.forEach((value, r) => {
    if (known(value) && value > 0) paths[CIVIDIS.indexOf(shade_of(value, low, high))] += `M${(L + c * cell_w).toFixed(1)} ${y_of(r).toFixed(1)}h${cell_w.toFixed(1)}v${cell_h.toFixed(1)}h-${cell_w.toFixed(1)}z`;
  }));
  paths.forEach((d, i) => { if (d) svg.append(draw("path", { d, fill: CIVIDIS[i], stroke: "none" })); });
  const every = Math.ceil(12 / cell_h);
  row_names.forEach((name, r) => { if (r % every === 0) svg.append(draw("text", { x: L - 4, y: y_of(r) + Math.min(cell_h, 10), "text-anchor": "end" }, name.length > 10 ? name.slice(0, 9) + "…" : name)); });
  if (columns.length > 0) svg.append(draw("text", { x: L, y: H - 4 }, columns[0][0]), draw("text", { x: W - 4, y: H - 4, "text-anchor": "end" }, columns[columns.length - 1][0]));
  const cursor = draw("rect", { class: "cursor", width: cell_w, height: cell_h, x: -99, y: -99 }), status = make("span", { class: "soft", role: "status" }, "point at a cell, or move by the arrow keys");
  let c = 0, r = 0;
  const tell_cell = () => {
    c = Math.max(0, Math.min(columns.length - 1, c)); r = Math.max(0, Math.min(row_names.length - 1, r));
    cursor.setAttribute("x", L + c * cell_w); cursor.setAttribute("y", y_of(r));
    status.textContent = o.cell(columns[c][0], row_names[r], columns[c][1][r]);
  };
  svg.append(cursor);
  svg.addEventListener("pointermove", (e) => {
    const box = svg.getBoundingClientRect(), x = (e.clientX - box.left) * W / box.width, y = (e.clientY - box.top) * H / box.height;
    c = Math.floor((x - L) / cell_w); r = o.down ? Math.floor((y - T) / cell_h) : Math.floor((H - B - y) / cell_h);
    tell_cell();
  });
  svg.addEventListener("keydown", (e) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, o.down ? -1 : 1], ArrowDown: [0, o.down ? 1 : -1] }[e.key];
    if (!step) return;
    c += step[0]; r += step[1];
    e.preventDefault();
    tell_cell();
  });
  figure.append(svg, make("div", { class: "row" }, shades(low, high, o.format), status));
  return figure;
}

const MANY = 16; // rows or columns whose numbers still fit

// The same of many nodes: a map, and the greatest cells as a table.
function heat_of_many(title, heads, rows, format) {
  const cells = rows.flatMap((r) => r.values.map((v, i) => [r.name, heads[i], v])).filter(([, , v]) => known(v) && v > 0).sort((a, b) => b[2] - a[2]);
  const map = heat_map(title, heads.map((head, i) => [head, rows.map((r) => r.values[i])]), rows.map((r) => r.name), { format, square: true, down: true,
    cell: (column, row, value) => `${row}, ${column}: ${format(value ?? null) || "–"}` });
  map.append(folded(`The ${Math.min(20, cells.length)} greatest of ${cells.length}`, () => rows_table(null, ["row", "column", "value"], cells.slice(0, 20).map(([row, column, v]) => [row, column, format(v)]), [2])));
  return map;
}

// A table whose cells are shaded by their size.
function heat(title, heads, rows, format) {
  if (heads.length > MANY || rows.length > MANY) return heat_of_many(title, heads, rows, format);
  const most = Math.max(1e-12, ...rows.flatMap((r) => r.values.filter(known)));
  const body = rows.map((r) => make("tr", {}, make("th", { scope: "row" }, r.name), ...r.values.map((v) => {
    const td = make("td", { class: "h" }, format(v));
    if (known(v) && v > 0) td.style.background = `color-mix(in srgb, var(--accent) ${Math.round(55 * v / most)}%, transparent)`;
    return td;
  })));
  return make("figure", { class: "card heat", "data-chart": title }, make("h2", {}, title),
    make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": title }, make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, ""), ...heads.map((h) => make("th", { scope: "col", class: "n" }, h)))),
      make("tbody", {}, ...body))));
}

function facts(pairs) {
  return make("dl", { class: "numbers" }, ...pairs.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

const curve = (key) => model.samples.map((s) => [s.t, s[key] === false ? null : s[key]]);

/* ---- panels ---- */

function event_rows(events) {
  return events.map((e) => [clock(e.time), e.kind, e.node, e.text]);
}

function sentences(state) {
  const found = list(state.slowest);
  if (list(state.runs).length === 0) return [make("div", { class: "card" }, make("p", { class: "sentence" }, "No active runs."))];
  if (found.length === 0) return [make("div", { class: "card" }, make("p", { class: "sentence" }, "Collecting samples; the first diagnosis appears after the next refresh."))];
  return found.map((f) => make("div", { class: "card", "data-cause": f.cause },
    make("p", { class: "sentence" }, f.run ? make("strong", {}, make("bdi", {}, f.run), ": ") : null, f.sentence),
    f.remedy ? make("p", { class: "remedy" }, "Try: " + f.remedy) : null,
    folded("Evidence", () => make("ul", {}, ...list(f.evidence).map((line) => make("li", {}, line)),
      ...list(f.others).map((other) => make("li", { class: "soft" }, `${other.cause}: ${share(other.share)}`))))));
}

function states_of(nodes) {
  const counts = new Map();
  for (const node of nodes) counts.set(word_of(node), (counts.get(word_of(node)) || 0) + 1);
  return [...counts].sort(([a], [b]) => (b === "up") - (a === "up")).map(([word, n]) => n + (word === "up" ? (n === 1 ? " node up" : " nodes up") : " " + word)).join(", ") || "none";
}

const word_of = (node) => (node.up ? (node.bare ? (node.name.startsWith("driver") ? "driver" : "controller") : "up") : node.state === "up" ? "silent" : node.state);

const may_operate = () => !model.me || model.me.right !== "read";
const without_right = (what) => make("p", { class: "soft" }, `${what} requires the right operate, and this token has read.`);

const panels = [];
const panel = (name, body) => panels.push({ name, body });

panel("Cluster", (state) => {
  const now = model.samples[model.samples.length - 1] || {}, nodes = list(state.nodes);
  const small = (title, key, format) => lines(title, [{ name: title, points: curve(key) }], { format });
  return [...sentences(state),
    facts([["members", states_of(nodes)], ["examples/s", count(now.rate)], ["local accesses", share(now.near)],
      ["sent/s", bytes(now.wire)], ["pull p99", seconds(now.p99)], ["resident memory", bytes(now.rss)],
      ["of memory cap", now.memory === undefined ? "no cap" : share(now.memory)], ["view", String(state.view ?? "–")]]),
    make("div", { class: "grid" }, small("Throughput (examples/s)", "rate", count), loss_chart(false),
      small("Local access ratio (%)", "near", share), small("Network traffic (B/s)", "wire", bytes),
      small("Pull latency, p99", "p99", seconds), small("Resident memory, all nodes", "rss", bytes)),
    make("div", { class: "card" }, make("h2", {}, "Latest events"),
      rows_table("Latest events", ["time", "kind", "node", "event"], event_rows(list(state.events).slice(-8).reverse())))];
});

const OWNERS = ["tables", "mail", "links", "process"];

// Memory over time, by table and what else holds it.
function memory_chart() {
  const samples = model.samples.filter((s) => s.t !== null && Array.isArray(s.owners)), names = [...new Set(samples.flatMap((s) => s.owners.map(([name]) => name)))].sort((a, b) => (b === "processes") - (a === "processes"));
  return areas("Resident memory by owner, all nodes", names.map((name) => ({ name, points: samples.map((s) => [s.t, (s.owners.find(([n]) => n === name) || [])[1] || 0]) })), { format: bytes, height: 220 });
}

function owners_chart(nodes) {
  const rows = nodes.filter((n) => list(n.owners).length > 0), most = Math.max(1, ...rows.map((n) => n.owners.reduce((a, b) => a + b, 0)));
  if (rows.length === 0) return null;
  return stacked("Resident memory by owner, each node", OWNERS, rows.map((n) => ({ name: n.name, parts: n.owners.map((v) => v / most), texts: n.owners.map(bytes) })), "node");
}

const node_cells = (n) => ({ down: !n.up && !n.left, cells: [n.name, { text: word_of(n), class: n.up ? "good" : n.left ? "soft" : "bad" }, n.workers,
  bytes(n.rss), n.memory ? `${share(n.memory.used / n.memory.cap)}, ${n.memory.tier}` : "no cap", known(n.cpu) ? share(n.cpu) : "–",
  n.store_busy === undefined ? "–" : share(n.store_busy), count(n.mail), count(n.handled), n.busiest ? `${n.busiest} ${share(n.busy)}` : "–"] });

panel("Nodes", (state) => {
  const nodes = list(state.nodes), names = nodes.filter((n) => n.up).map((n) => n.name), cpu = new Map(), departed = nodes.filter((n) => n.left);
  for (const sample of model.samples) {
    for (const [name, value] of list(sample.cpu)) {
      if (!cpu.has(name)) cpu.set(name, []);
      cpu.get(name).push([sample.t, value]);
    }
  }
  const heads = ["node", "state", "workers", "memory", "of cap", "processor", "store busy", "mail", "messages/s", "busiest"];
  const busiest = [...cpu].sort(([, a], [, b]) => b[b.length - 1][1] - a[a.length - 1][1]);
  const linked = nodes.filter((n) => list(n.links).length > 0);
  const row_of = (node, key) => { const by_peer = new Map(list(node.links).map((l) => [l.peer, l[key]])); return { name: node.name, values: names.map((p) => by_peer.get(p) ?? null) }; };
  return [make("div", { class: "card" }, make("h2", {}, "Nodes"), rows_table("Nodes", heads, nodes.filter((n) => !n.left).map(node_cells), [2, 3, 5, 6, 7, 8]),
    departed.length > 0 ? folded(`${departed.length} departed`, () => rows_table("Departed nodes", heads, departed.map(node_cells), [2, 3, 5, 6, 7, 8])) : null),
    make("div", { class: "grid" }, lines(busiest.length > 12 ? "CPU usage of the 12 busiest nodes (% of one core)" : "CPU usage (% of one core)", busiest.slice(0, 12).map(([name, points]) => ({ name, points })), { format: share, named: true })),
    memory_chart(), owners_chart(nodes),
    heat("Network traffic between nodes (B/s, row = sender)", names, linked.map((n) => row_of(n, "sent")), (v) => (v === null ? "" : bytes(v))),
    heat("Round-trip time (row = sender)", names, linked.map((n) => row_of(n, "round_trip_s")), (v) => (known(v) ? seconds(v) : ""))].filter(Boolean);
});

panel("Tables", (state) => {
  const tables = list(state.tables);
  if (tables.length === 0) return [make("p", { class: "soft" }, "No tables.")];
  const nodes = list(state.nodes).filter((n) => !n.bare && !n.left).map((n) => n.name);
  const near = (t) => { const a = t.pulls_local + t.pushes_local, b = a + t.pulls_remote + t.pushes_remote; return b > 0 ? a / b : null; };
  return [make("div", { class: "card" }, make("h2", {}, "Tables"), rows_table("Tables", ["table", "rows", "memory", "pulls/s", "pushes/s", "local", "sent/s", "moves/s", "not finite/s"],
    tables.map((t) => [t.name, count(t.rows), bytes(t.bytes), count(t.pulls_local + t.pulls_remote), count(t.pushes_local + t.pushes_remote), share(near(t)),
      bytes(t.wire), count(t.moves), { text: count(t.not_finite), class: t.not_finite > 0 ? "bad" : "" }]), [1, 2, 3, 4, 5, 6, 7, 8])),
    heat("Rows by node", nodes, tables.map((t) => ({ name: t.name, values: nodes.map((n) => (list(t.parts).find((p) => p.node === n) || {}).rows ?? null) })), (v) => (v === null ? "" : count(v))),
    heat("Remote keys (keys/s)", nodes, tables.map((t) => ({ name: t.name, values: nodes.map((n) => (list(t.parts).find((p) => p.node === n) || {}).far ?? null) })), (v) => (v === null ? "" : count(v))),
    make("div", { class: "card" }, make("h2", {}, "Hottest keys"), make("div", { class: "row" }, ...tables.slice(0, 24).map((t) => action("all of " + t.name, () => load_hottest(t.name)))),
      hottest ? hottest_table() : rows_table("Hottest keys", ["table", "key", "share of accesses", "used on"],
        tables.flatMap((t) => list(t.hot).map((h) => [t.name, h.key, share(h.share), list(h.users).join(", ")])), [1, 2]))];
});

let hottest = null; // {table, keys | problem}: the answer of GET /api/hottest

async function load_hottest(name) {
  try { hottest = await ask(`/api/hottest?table=${encodeURIComponent(name)}&count=100`); } catch (problem) { hottest = { table: name, problem: problem.message, keys: [] }; }
  show();
}

function hottest_table() {
  return make("div", { id: "hottest" }, make("div", { class: "row" }, make("strong", {}, `${hottest.table}: ${list(hottest.keys).length} hottest keys of ${count(hottest.accesses)} accesses`), action("again", () => load_hottest(hottest.table)), action("close", () => { hottest = null; show(); })),
    hottest.problem ? make("p", { class: "warn" }, hottest.problem) : null, rows_table("Hottest keys", ["key", "share", "reads", "writes", "used on (reads, writes)"],
      list(hottest.keys).map((k) => [k.key, share(k.share), count(k.reads), count(k.writes), list(k.users).map((u) => `${u.node} (${count(u.reads)}, ${count(u.writes)})`).join(", ")]), [0, 1, 2, 3]));
}

const PARTS = ["working", "barrier", "chunk", "driver", "report", "messages and other"];

// What the sentence about the run rests on: the time of all its workers together.
function split_of(state, run) {
  const found = list(state.slowest).find((f) => f.run === run.name), split = Object.entries((found && found.split) || {}).filter(([, v]) => known(v) && v > 0.0005).sort();
  return split.length === 0 ? [] : [stacked(`${run.name}: all workers together`, split.map(([name]) => name), [{ name: "all", parts: split.map(([, v]) => v) }])];
}

panel("Workers", (state) => {
  const runs = list(state.runs).filter((r) => list(r.workers).length > 0);
  if (runs.length === 0) return [make("p", { class: "soft" }, "No run with workers.")];
  return runs.flatMap((run) => [
    stacked(`${run.name}: worker time by activity`, PARTS, run.workers.map((w) => ({ name: `${w.rank} on ${w.node}`,
      parts: [w.work, w.waits.barrier, w.waits.chunk, w.waits.driver, w.waits.report, w.rest] }))),
    ...split_of(state, run),
    make("div", { class: "card" }, make("div", { class: "row" }, make("h2", {}, `Workers of ${run.name}`), stack_button(run.name, "stacks of all workers")), rows_table(`Workers of ${run.name}`, ["worker", "node", "state", "reports", "now"],
      run.workers.map((w) => [w.rank, w.node, w.state, count(w.reports), stack_button(`${run.name}/${w.rank}`)]), [0, 3])), ...stack_card()]);
});

/* ---- looking inside ---- */

let looked = null; // {of, at, stacks | problem}: the answer of GET /api/stack

async function load_stack(name) {
  looked = { of: name, waiting: true, stacks: [] };
  show();
  try { looked = await ask("/api/stack?of=" + encodeURIComponent(name)); } catch (problem) { looked = { of: name, problem: problem.message, stacks: [] }; }
  show();
  const card = document.getElementById("stack");
  if (card) card.scrollIntoView({ block: "nearest" });
}

function stack_button(name, label) {
  const button = make("button", { type: "button", "aria-label": "stack of " + name }, label || "stack");
  button.addEventListener("click", () => load_stack(name));
  return button;
}

const stack_text = () => list(looked.stacks).map((s) => s.title + "\n" + s.text).join("\n\n");

function stack_card() {
  if (!looked) return [];
  return [make("div", { class: "card", id: "stack" }, make("div", { class: "row" }, make("h2", {}, `Stack of ${looked.of}`), make("span", { class: "soft" }, looked.waiting ? "asking the nodes" : clock(looked.at)),
    action("again", () => load_stack(looked.of)), action("download", () => download("stack.txt", stack_text(), "text/plain")), action("close", () => { looked = null; show(); })),
  looked.problem ? make("p", { class: "warn" }, looked.problem) : null,
  ...list(looked.stacks).map((s) => make("div", {}, make("strong", {}, s.title), s.line ? make("span", { class: "soft" }, " at " + s.line) : null, make("pre", {}, s.text))))];
}

let actors = null, actors_at = 0, actor_filter = "";
const actor_order = { by: "busy", down: true };

async function load_actors() {
  if (Date.now() - actors_at < 5000) return;
  actors_at = Date.now();
  try {
    const answer = await ask("/api/actors"), before = new Map(list(actors && actors.actors).map((a) => [a.node + a.address, a]));
    for (const a of answer.actors) {
      const old = before.get(a.node + a.address);
      a.busy = old && actors_at > actors.at ? Math.max(0, a.busy_s - old.busy_s) / ((actors_at - actors.at) / 1000) : null;
    }
    actors = { ...answer, at: actors_at };
  } catch (problem) { actors = { actors: [], problem: problem.message, at: actors_at }; }
  if (current().name === "Actors") show();
}

const ACTORS_SHOWN = 200;
const actor_names = ["node", "name", "type", "address", "mail", "messages", "busy", "waits_for"];

function actor_rows() {
  const words = actor_filter.toLowerCase().split(/\s+/).filter(Boolean), { by, down } = actor_order;
  const fit = list(actors.actors).filter((a) => words.every((w) => [a.node, a.name, a.type, a.address, a.waits_for].join(" ").toLowerCase().includes(w)));
  const before = (x, y) => (typeof x === "number" && typeof y === "number" ? x - y : String(x ?? "").localeCompare(String(y ?? "")));
  return fit.sort((a, b) => (down ? -1 : 1) * before(a[by], b[by]) || before(a.address, b.address));
}

function actors_panel() {
  load_actors();
  if (!actors) return [make("p", { class: "soft" }, "Asking the nodes.")];
  const rows = actor_rows(), order = { ...actor_order, names: [...actor_names, null], set: (name) => { actor_order.down = actor_order.by === name ? !actor_order.down : typeof (rows[0] || {})[name] === "number"; actor_order.by = name; show(); } };
  return [...stack_card(), make("div", { class: "card" }, make("h2", {}, "Actors"), actors.problem ? make("p", { class: "warn" }, actors.problem) : null,
    make("div", { class: "row" }, typed("filter", "actor-filter", actor_filter, (value) => { actor_filter = value; show(); }), make("span", { class: "soft" }, `${Math.min(rows.length, ACTORS_SHOWN)} of ${actors.all ?? rows.length} actors; a stack is the console's stack("NODE/NAME")`)),
    rows_table("Actors", ["node", "name", "type", "address", "mail", "messages", "busy", "waits for", "now"], rows.slice(0, ACTORS_SHOWN).map((a) => [a.node, a.name || "", a.type, a.address, count(a.mail), count(a.messages), known(a.busy) ? share(a.busy) : "–",
      a.waits_for ? `${a.waits_for}${known(a.waits_s) ? ", " + seconds(a.waits_s) : ""}` : "", stack_button(a.address)]), [4, 5, 6], order))];
}

let by_time = false, saved = null, saved_at = 0;
const compared = new Map(); // id -> {name, curves} of saved runs that are drawn beside those that go on

let filter = "";

const run_order = { by: "", down: false };

async function load_saved(now) {
  if (!now && Date.now() - saved_at < 5000) return;
  saved_at = Date.now();
  try { saved = await ask(`/api/runs?filter=${encodeURIComponent(filter)}&sort=${encodeURIComponent(run_order.by)}${run_order.down ? "&descending=1" : ""}`); } catch (problem) { saved = { runs: [], problem: problem.message }; }
  show();
}

async function compare(run, on) {
  if (!on) compared.delete(run.id);
  else {
    try { compared.set(run.id, { name: `${run.name || run.job || ""} ${run.id}`, curves: list((await ask("/api/run/" + encodeURIComponent(run.id))).curves) }); }
    catch (problem) { saved.problem = problem.message; }
  }
  load_curve();
  load_bins();
  if (plot && plot_view.reports) load_plot();
  show();
}

// The chart of one field of the runs that are checked; thinned by the server.
const view = { field: "loss", x: "n", smooth: 0, logx: false, logy: false };
let drawn = null; // the answer of GET /api/curve

const curve_path = (more) => `/api/curve?runs=${[...compared.keys()].map(encodeURIComponent).join(",")}&field=${encodeURIComponent(view.field)}&x=${view.x}${more || ""}`;

async function load_curve() {
  if (compared.size === 0) drawn = null;
  else {
    try { drawn = await ask(curve_path()); } catch (problem) { drawn = { problem: problem.message, curves: [] }; }
  }
  show();
}

function choice(label, value, options, changed) {
  const select = make("select", {}, ...options.map(([key, name]) => make("option", { value: key, selected: key === value ? "" : null }, name)));
  select.addEventListener("change", () => { select.blur(); changed(select.value); });
  return make("label", {}, label, select);
}

function check(label, value, changed) {
  const box = make("input", { type: "checkbox", checked: value ? "" : null });
  box.addEventListener("change", () => changed(box.checked));
  return make("label", {}, box, label);
}

function action(label, pressed) {
  const button = make("button", { type: "button" }, label);
  button.addEventListener("click", pressed);
  return button;
}

function curve_chart() {
  if (!drawn) return null;
  const fields = [...new Set([view.field, ...list(drawn.fields)])].map((f) => [f, f]);
  const slider = make("input", { type: "range", min: "0", max: "0.99", step: "0.01", value: String(view.smooth), id: "smooth" });
  slider.addEventListener("change", () => { view.smooth = Number(slider.value); slider.blur(); show(); });
  const names = { n: "report", elapsed_s: "time", examples: "examples" }, title = `${view.field}${drawn.mean ? " (mean)" : ""} by ${names[view.x]}`;
  const format = view.x === "elapsed_s" ? seconds : count;
  const chart = lines(title, list(drawn.curves).map((c) => ({ name: [c.name, c.params, c.id].filter(Boolean).join(" "), points: smooth(list(c.points), view.smooth) })),
    { format: precise, zero: false, named: true, width: 960, height: 320, logx: view.logx, logy: view.logy, x: format, marks: list(drawn.curves).flatMap((c) => list(c.marks)), xname: names[view.x], empty: "no run has this field" });
  const reload = (key) => (value) => { view[key] = value; load_curve(); }, redraw = (key) => (value) => { view[key] = value; show(); };
  return make("div", { id: "curve" }, make("div", { class: "row" }, choice("field", view.field, fields, reload("field")), choice("over", view.x, Object.entries(names), reload("x")),
    make("label", {}, `smoothing ${view.smooth}`, slider), check("log y", view.logy, redraw("logy")), check("log x", view.logx, redraw("logx")),
    action("CSV", async () => { try { download(`${view.field}.csv`, await fetch_text(curve_path("&format=csv")), "text/csv"); } catch (problem) { drawn.problem = problem.message; show(); } }),
    action("SVG", () => download(`${view.field}.svg`, picture_of(chart.querySelector("svg")), "image/svg+xml"))),
  drawn.problem ? make("p", { class: "warn" }, drawn.problem) : null, chart);
}

// A chart as a file that looks the same elsewhere: styles of the page are written into it.
function picture_of(svg) {
  if (!svg) return "<svg xmlns='http://www.w3.org/2000/svg'/>";
  const copy = svg.cloneNode(true), from = svg.querySelectorAll("*");
  copy.setAttribute("xmlns", SVG);
  copy.querySelectorAll("*").forEach((node, i) => {
    const style = getComputedStyle(from[i]);
    for (const key of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size"]) node.setAttribute(key, style.getPropertyValue(key));
    node.removeAttribute("class");
  });
  return new XMLSerializer().serializeToString(copy);
}

let read = null; // {id, text, search, rank, stderr} of the saved run whose log is shown

const log_path = () => `/api/run/${encodeURIComponent(read.id)}/log?search=${encodeURIComponent(read.search)}&rank=${encodeURIComponent(read.rank)}${read.stderr ? "&stderr=1" : ""}`;

async function load_log_of() {
  const mine = read;
  try { mine.text = await fetch_text(log_path()); } catch (problem) { mine.text = problem.message; }
  show();
}

function read_log(id) {
  if (read && read.id === id) { read = null; show(); return; }
  read = { id, text: "reading", search: "", rank: "", stderr: false };
  load_log_of();
}

const SHOWN = 1000; // lines of a log

function typed(label, id, value, changed) {
  const input = make("input", { type: "text", id, value, autocomplete: "off", spellcheck: "false" });
  input.addEventListener("change", () => { input.blur(); changed(input.value); });
  return make("label", { for: id }, label, input);
}

function run_log_card() {
  if (!read) return [];
  const rows = read.text.split("\n"), last = rows.slice(-SHOWN);
  return [make("h2", {}, `Log of ${read.id}`), make("div", { class: "row" },
    typed("search", "log-search", read.search, (value) => { read.search = value; load_log_of(); }),
    typed("rank (0: the script)", "log-rank", read.rank, (value) => { read.rank = /^[0-9]*$/.test(value) ? value : ""; load_log_of(); }),
    check("standard error", read.stderr, (value) => { read.stderr = value; load_log_of(); }),
    action("download", () => download(`${read.id}.log`, read.text, "text/plain"))),
  rows.length > SHOWN ? make("p", { class: "soft" }, `the last ${SHOWN} of ${rows.length} lines; the download has all`) : null,
  make("pre", { id: "run-log" }, last.join("\n") || "no output")];
}

function log_button(id) {
  const button = make("button", { type: "button", "aria-label": "log of " + id }, "log");
  button.addEventListener("click", () => read_log(id));
  return button;
}

function saved_runs() {
  load_saved();
  if (!saved) return make("p", { class: "soft" }, "Reading the runs of this directory.");
  const runs = run_order.by ? list(saved.runs) : list(saved.runs).slice().reverse(), columns = param_columns(runs);
  const rows = runs.map((r) => {
    const box = make("input", { type: "checkbox", "aria-label": "draw " + r.id, checked: compared.has(r.id) ? "" : null });
    box.addEventListener("change", () => compare(r, box.checked));
    const failed = r.state === "failed" || r.state === "lost";
    return [box, log_button(r.id), r.id, r.name || r.job || "", { text: failed && r.why ? `${r.state}: ${r.why}` : r.state, class: failed ? "bad" : "" }, r.user || "", r.tags || "",
      ...columns.map((name) => { const v = (r.values || {})[name]; return known(v) ? String(v) : v === undefined ? "" : v; }),
      count(r.loss), count(r.reports), count(r.rate), known(r.started_at) ? new Date(r.started_at * 1000).toLocaleString("en-GB") : "", seconds(r.took_s), [r.script, r.args].filter(Boolean).join(" "), [failed ? "" : r.why, r.note].filter(Boolean).join("; ")];
  });
  const n = columns.length, order = { ...run_order, names: [null, null, "id", "name", "state", "person", null, ...columns, "loss", "reports", "rate", "started", "duration", "script", "note"],
    set: (name) => { run_order.down = run_order.by === name ? !run_order.down : false; run_order.by = name; load_saved(true); } };
  return make("div", { class: "card" }, make("h2", {}, `Runs in ${saved.directory || ".tide/runs"}${run_order.by ? "" : ", newest first"} (check to draw)`), saved.problem ? make("p", { class: "warn" }, saved.problem) : null,
    make("div", { class: "row" }, typed("filter: words, loss<0.9, rank=64, tag=best", "run-filter", filter, (value) => { filter = value; load_saved(true); if (plot) load_plot(); }),
      run_order.by ? action("newest first", () => { run_order.by = ""; load_saved(true); }) : null, make("span", { class: "soft" }, `${saved.fit ?? rows.length} of ${saved.all ?? rows.length} runs`)),
    rows_table("Saved runs", ["draw", "log", "id", "run", "state", "person", "tags", ...columns, "loss", "reports", "examples/s", "started", "duration", "script", "note"], rows, [...columns.map((_, i) => 7 + i), 7 + n, 8 + n, 9 + n, 11 + n], order),
    ...run_log_card());
}

// Params that are columns: those in which the runs that are shown differ, at most ten; all where one run is shown.
function param_columns(runs) {
  const names = list(saved.columns).filter((name) => runs.length < 2 || new Set(runs.map((r) => (r.values || {})[name])).size > 1);
  return names.slice(0, 10);
}

/* ---- scatter charts and histograms ---- */

const plot_view = { x: "", y: "loss", colour: "", reports: false, logx: false, logy: false };
let plot = null, bins = null, bin_field = "";

async function load_plot() {
  const of = plot_view.reports && compared.size > 0 ? `&runs=${[...compared.keys()].map(encodeURIComponent).join(",")}` : `&filter=${encodeURIComponent(filter)}`;
  try { plot = await ask(`/api/scatter?x=${encodeURIComponent(plot_view.x)}&y=${encodeURIComponent(plot_view.y)}&colour=${encodeURIComponent(plot_view.colour)}${of}`); } catch (problem) { plot = { problem: problem.message, points: [], fields: [] }; }
  if (!plot_view.x && list(plot.fields).length > 0) {
    if (!plot.fields.includes(plot_view.y)) plot_view.y = plot.fields[0];
    plot_view.x = plot.fields.find((f) => f !== plot_view.y) || plot.fields[0];
    return load_plot();
  }
  return show();
}

function plot_card() {
  if (!plot) return make("div", { class: "row" }, action("scatter chart of these runs", load_plot));
  const fields = [...new Set([plot_view.x, plot_view.y, ...list(plot.fields)])].filter(Boolean).map((f) => [f, f]), set = (key) => (value) => { plot_view[key] = value; load_plot(); };
  const redraw = (key) => (value) => { plot_view[key] = value; show(); };
  const chart = scatter(`${plot_view.y} over ${plot_view.x}`, list(plot.points), { xname: plot_view.x, yname: plot_view.y, colour: plot_view.colour, logx: plot_view.logx, logy: plot_view.logy });
  return make("div", { id: "scatter" }, make("div", { class: "row" }, choice("x", plot_view.x, fields, set("x")), choice("y", plot_view.y, fields, set("y")), choice("colour", plot_view.colour, [["", "none"], ...fields], set("colour")),
    choice("a point is", plot_view.reports ? "report" : "run", [["run", "a run of the list below"], ["report", "a report of the checked runs"]], (value) => set("reports")(value === "report")),
    check("log y", plot_view.logy, redraw("logy")), check("log x", plot_view.logx, redraw("logx")), action("SVG", () => download("scatter.svg", picture_of(chart.querySelector("svg")), "image/svg+xml")), action("close", () => { plot = null; show(); })),
  plot.problem ? make("p", { class: "warn" }, plot.problem) : null, chart);
}

async function load_bins() {
  const id = [...compared.keys()][0];
  bins = null;
  if (id) {
    try { bins = await ask(`/api/histogram?runs=${encodeURIComponent(id)}&field=${encodeURIComponent(bin_field)}`); } catch (problem) { bins = { problem: problem.message, fields: [], bins: [], columns: [] }; }
  }
  show();
}

// Bin b counts magnitudes from 4^b to below 4^(b+1).
function bins_card() {
  if (!bins || list(bins.fields).length === 0) return null;
  const names = bins.bins.map((b) => "≥ " + precise(4 ** b));
  return make("div", { id: "histogram" }, make("div", { class: "row" }, choice("histogram of", bins.field, bins.fields.map((f) => [f, f]), (value) => { bin_field = value; load_bins(); })),
    heat_map(`${bins.field} of ${bins.run}: magnitudes by report`, bins.columns.map(([n, counts]) => ["report " + n, counts]), names, { format: share, cell: (column, row, value) => `${column}, ${row}: ${share(value)}` }));
}

function saved_series() {
  return [...compared.values()].flatMap(({ name, curves }) => curves.filter((c) => c.name === "loss").map((c) => ({ name, points: list(by_time ? c.over_time : c.points) })));
}

function loss_chart(wide) {
  const series = [...model.losses].map(([name, c]) => ({ name, points: c.points.map((p) => [by_time && wide ? p[2] : p[0], p[1]]) }));
  if (wide) series.push(...saved_series());
  return lines("Loss", series, { format: count, zero: false, named: true, width: wide ? 960 : 480, height: wide ? 300 : 150,
    x: by_time && wide ? seconds : (x) => "report " + x, xname: by_time && wide ? "time" : "report", empty: "no loss reported yet" });
}

panel("Runs", (state) => {
  const runs = list(state.runs), rates = new Map();
  for (const sample of model.samples) {
    for (const [name, , value] of list(sample.runs)) {
      if (!rates.has(name)) rates.set(name, []);
      rates.get(name).push([sample.t, value]);
    }
  }
  const button = make("button", { type: "button" }, by_time ? "over reports" : "over time");
  button.addEventListener("click", () => { by_time = !by_time; show(); });
  return [make("div", { class: "card" }, make("h2", {}, "Active runs"), rows_table("Active runs", ["run", "state", "report", "loss", "examples/s", "duration", "reason", "directory"],
    runs.map((r) => [r.name, r.state, count(r.reports), r.diverged ? { text: "NaN", class: "bad" } : count(r.loss), count(r.rate), seconds(r.elapsed), r.why || "", r.directory || ""]), [2, 3, 4, 5])),
    ...runs.filter((r) => list(r.layers).length > 0).map((r) => make("div", { class: "card" }, make("h2", {}, `Layers of ${r.name}`),
      rows_table(`Layers of ${r.name}`, ["layer", "of", "mean", "standard deviation", "largest", "zeros", "not finite"],
        r.layers.map(([layer, of, mean, std, max, zeros, bad]) => [layer, of, precise(mean), precise(std), precise(max), share(zeros), bad > 0 ? { text: count(bad), class: "bad" } : "0"]), [2, 3, 4, 5, 6]))),
    make("div", { class: "row" }, button), loss_chart(true), ...[curve_chart(), bins_card(), plot_card()].filter(Boolean), saved_runs(),
    lines("Throughput by run (examples/s)", [...rates].slice(0, 24).map(([name, points]) => ({ name, points })), { format: count, named: true, width: 960, height: 200 })];
});

let chosen = "", replayed = "", replay_text = "", replay_policy = "", asking = false, would = null;

const both_texts = (r) => make("div", {}, make("p", { class: "soft" }, "proposed"), make("pre", {}, r.plan || "nothing"), make("p", { class: "soft" }, "observed"), make("pre", {}, r.view || "not recorded"));

function would_cell(other, r) {
  const found = r.what === "decision" ? other.at.get(r.at + " " + r.seat) : undefined;
  return found === undefined ? { text: r.what === "decision" ? "the same" : "", class: "soft" } : { text: found, class: "warn" };
}

async function load_decisions(name) {
  if (asking) return;
  asking = true;
  try {
    if (model.shipped.length === 0) model.shipped = list((await ask("/api/policies")).shipped);
    model.decisions = { run: name, at: Date.now(), data: await ask("/api/policy/" + encodeURIComponent(name)) };
  } catch (problem) {
    model.decisions = { run: name, at: Date.now(), problem: problem.message };
  }
  asking = false;
  if (current().name === "Policies") show();
}

async function replay(name) {
  replayed = "replaying…";
  would = null;
  show();
  try {
    const body = { run: name };
    if (replay_text.trim()) body.text = replay_text; else if (replay_policy) body.policy = replay_policy;
    const r = await ask("/api/replay", body);
    replayed = `${r.same} of ${r.decisions} decisions are the same` + (r.identical === true ? ": byte for byte what was recorded" : "")
      + (r.faults ? `; ${r.faults} faults: ${r.fault || ""}` : "") + (r.first_difference_tick !== undefined ? `; the first difference is at tick ${r.first_difference_tick}` : "")
      + (r.open_loop ? "; views are as recorded, they do not react to the other policy" : "");
    if (body.text || body.policy) {
      would = { run: name, policy: body.text ? "the pasted policy" : body.policy, at: new Map(list(r.differences).map((e) => [e.at + " " + e.seat, e.would || "nothing"])) };
    }
  } catch (problem) { replayed = problem.message; }
  show();
}

function replay_form(run) {
  if (!may_operate()) return without_right("A replay");
  const select = make("select", { id: "replay-policy" }, make("option", { value: "" }, "the recorded ones"),
    ...model.shipped.map((name) => make("option", { value: name, selected: name === replay_policy ? "" : null }, name)));
  select.addEventListener("change", () => { replay_policy = select.value; });
  const area = make("textarea", { id: "replay-text", spellcheck: "false", placeholder: "or the text of a policy" });
  area.value = replay_text;
  area.addEventListener("input", () => { replay_text = area.value; });
  const go = make("button", { type: "button", id: "replay-go" }, "replay");
  go.addEventListener("click", () => replay(run));
  return make("div", { class: "card" }, make("h2", {}, "What would another policy have decided?"),
    make("div", { class: "row" }, make("label", { for: "replay-policy" }, "policy", select), go), area,
    make("p", { role: "status", id: "replayed" }, replayed));
}

panel("Policies", (state) => {
  const runs = list(state.runs).filter((r) => list(r.policies).length > 0);
  if (runs.length === 0) return [make("p", { class: "soft" }, "No active run with policies.")];
  const run = runs.find((r) => r.name === chosen) || runs[0];
  const d = model.decisions && model.decisions.run === run.name ? model.decisions : null;
  if (!d || Date.now() - d.at > (d.problem ? 15000 : 2000)) load_decisions(run.name);
  const select = make("select", { "aria-label": "run" }, ...runs.map((r) => make("option", { value: r.name, selected: r === run ? "" : null }, r.name)));
  select.addEventListener("change", () => { chosen = select.value; show(); });
  const out = [make("div", { class: "row" }, make("label", {}, "run", select)),
    make("div", { class: "card" }, make("h2", {}, "Seats"), rows_table("Seats", ["seat", "policy", "version", "decisions", "actions", "faults"],
      list(run.policies).map((p) => [p.seat, p.policy, p.version, count(p.decisions), count(p.actions), { text: count(p.faults), class: p.faults > 0 ? "bad" : "" }]), [3, 4, 5]))];
  const changes = list(state.events).filter((e) => e.kind === "policy");
  out.push(lines("Throughput (examples/s) and policy changes", [{ name: "examples/s", points: model.samples.map((s) => [s.t, (list(s.runs).find((r) => r[0] === run.name) || [])[2]]) }],
    { format: count, width: 960, height: 180, marks: changes.map((e) => ({ x: e.time, text: e.text })) }));
  if (changes.length > 0) out.push(make("div", { class: "card" }, make("h2", {}, "Swaps, guards, rollbacks"), rows_table("Swaps, guards, rollbacks", ["time", "kind", "node", "event"], event_rows(changes.slice(-20).reverse()))));
  if (d && d.problem) out.push(make("p", { class: "warn" }, d.problem));
  if (d && d.data) {
    const other = would && would.run === run.name ? would : null;
    const titles = ["at", "seat", "policy", "observed", "proposed", "applied", "reason"];
    if (other) titles.push(other.policy + " would propose");
    out.push(make("div", { class: "card" }, make("h2", {}, "Decisions, newest first"), rows_table("Decisions", [...titles, "full record"],
      list(d.data.decisions).slice(-40).reverse().map((r) => [seconds(r.at), r.seat, r.policy + (r.canary ? " (canary)" : ""), r.saw || "", r.wanted || "",
        { text: r.what === "decision" ? r.got : r.what, class: /^(rejected|fault|partial)/.test(r.got) ? "bad" : "" }, r.why || "",
        ...(other ? [would_cell(other, r)] : []), r.plan || r.view ? folded("view and plan", () => both_texts(r)) : ""]))));
  }
  out.push(replay_form(run.name));
  return out;
});

let wanted_kind = "";

panel("Events", (state) => {
  const events = list(state.events).slice(-EVENTS), kinds = [...new Set(events.map((e) => e.kind))].sort();
  const select = make("select", {}, make("option", { value: "" }, "all"), ...kinds.map((k) => make("option", { value: k, selected: k === wanted_kind ? "" : null }, k)));
  select.addEventListener("change", () => { wanted_kind = select.value; show(); });
  return [make("div", { class: "row" }, make("label", {}, "kind", select)),
    make("div", { class: "card" }, make("h2", {}, "Events, newest first"), rows_table("Events, newest first", ["time", "kind", "node", "event"],
      event_rows(events.filter((e) => !wanted_kind || e.kind === wanted_kind).reverse())))];
});

let log = null, log_at = 0, level = "";

async function load_log() {
  if (Date.now() - log_at < 3000) return;
  log_at = Date.now();
  try { log = { lines: list((await ask("/api/log")).lines) }; } catch (problem) { log = { lines: [], problem: problem.message }; }
  if (current().name === "Log") show();
}

const TRACE_S = 3;
let recorded = "";

async function record() {
  recorded = `recording ${TRACE_S} s…`;
  show();
  try {
    const answer = await fetch("api/trace", { method: "POST", headers: { Authorization: "Bearer " + bearer }, body: JSON.stringify({ seconds: TRACE_S }) });
    if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || "answer " + answer.status);
    const blob = await answer.blob(), url = URL.createObjectURL(blob), name = "tide-trace.json";
    make("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    recorded = `${name}, ${bytes(blob.size)}: open it at ui.perfetto.dev`;
  } catch (problem) { recorded = problem.message; }
  show();
}

function trace_card() {
  if (!may_operate()) return without_right("Recording a trace");
  const go = make("button", { type: "button", id: "trace-go" }, `record ${TRACE_S} s`);
  go.addEventListener("click", record);
  return make("div", { class: "card" }, make("h2", {}, "Trace"), make("div", { class: "row" }, go,
    make("span", { class: "soft" }, "threads and fibers of all nodes, as a file for ui.perfetto.dev")), make("p", { role: "status", id: "recorded" }, recorded));
}

panel("Log", () => {
  load_log();
  if (!log) return [make("p", { class: "soft" }, "Reading the logs of the nodes.")];
  const LEVELS = ["debug", "info", "warn", "error"], select = make("select", {}, make("option", { value: "" }, "all"),
    ...LEVELS.slice(1).map((l) => make("option", { value: l, selected: l === level ? "" : null }, l)));
  select.addEventListener("change", () => { level = select.value; show(); });
  const lines = log.lines.filter((l) => !level || LEVELS.indexOf(l.level) >= LEVELS.indexOf(level)).reverse();
  return [trace_card(), make("div", { class: "row" }, make("label", {}, "minimum level", select)), log.problem ? make("p", { class: "warn" }, log.problem) : null,
    make("div", { class: "card" }, make("h2", {}, "Latest log lines of the nodes"), rows_table("Log", ["time", "level", "node", "text"],
      lines.map((l) => [clock(l.time), { text: l.level, class: l.level === "error" ? "bad" : l.level === "warn" ? "warn" : "" }, l.node, l.text])))].filter(Boolean);
});

panel("Actors", actors_panel);

/* ---- showing ---- */

let at = 0;
const current = () => panels[at];

function busy_inside(node) { // somebody types or has a list open there: it is drawn again when they leave
  const active = document.activeElement;
  return active && node.contains(active) && (active.tagName === "SELECT" || active.tagName === "TEXTAREA" || active.tagName === "INPUT" && (active.type === "text" || active.type === "range"));
}

function show() {
  const { state } = model, main = document.getElementById("panels");
  if (!state) return;
  document.getElementById("cluster").textContent = state.cluster;
  document.title = "Tide " + state.cluster;
  const down = list(state.nodes).filter((n) => !n.up && !n.left).length;
  const me = model.me && (model.me.person || model.me.right !== "admin") ? `, ${[model.me.person, "right " + model.me.right].filter(Boolean).join(", ")}` : "";
  say(`${clock(state.time)}: ${list(state.nodes).length} members${down ? `, ${down} down` : ""}, ${list(state.runs).length} ${list(state.runs).length === 1 ? "run" : "runs"}${me}`, Boolean(state.problem));
  tell(state.problem ? "The cluster does not answer: " + state.problem : "");
  const node = document.getElementById("panel");
  if (!node || busy_inside(node)) return;
  panel_key = current().name;
  fold_number = 0;
  const focus = document.activeElement && node.contains(document.activeElement)
    ? [...node.querySelectorAll("button, summary, input, [tabindex]")].indexOf(document.activeElement) : -1;
  const scroll = [...node.querySelectorAll(".wide")].map((e) => e.scrollLeft);
  node.replaceChildren(...current().body(state));
  [...node.querySelectorAll(".wide")].forEach((e, i) => { if (scroll[i]) e.scrollLeft = scroll[i]; });
  if (focus >= 0) { const again = node.querySelectorAll("button, summary, input, [tabindex]")[focus]; if (again) again.focus({ preventScroll: true }); }
  main.setAttribute("aria-busy", "false");
}

function choose(index, focus) {
  at = (index + panels.length) % panels.length;
  sessionStorage.setItem("tide-panel", current().name);
  [...document.querySelectorAll("[role=tab]")].forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(i === at));
    tab.tabIndex = i === at ? 0 : -1;
    if (i === at && focus) tab.focus();
    if (i === at) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  document.getElementById("panel").setAttribute("aria-labelledby", "tab-" + at);
  if (document.activeElement && document.activeElement.blur && !focus) document.activeElement.blur();
  show();
}

function theme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  document.getElementById("theme").textContent = dark ? "light mode" : "dark mode";
}

function start() {
  const tabs = document.getElementById("tabs");
  panels.forEach(({ name }, i) => {
    const tab = make("button", { type: "button", role: "tab", id: "tab-" + i, "aria-controls": "panel" }, name);
    tab.addEventListener("click", () => choose(i));
    tabs.append(tab);
  });
  document.getElementById("panels").append(make("section", { id: "panel", role: "tabpanel", "data-panel": "" }, make("p", { class: "soft" }, "Waiting for the first sample of the cluster.")));
  const kept = localStorage.getItem("tide-theme"), wish = matchMedia("(prefers-color-scheme: dark)");
  theme(kept ? kept === "dark" : wish.matches);
  wish.addEventListener("change", () => { if (!localStorage.getItem("tide-theme")) theme(wish.matches); });
  const turn = () => {
    const dark = !document.documentElement.classList.contains("dark");
    localStorage.setItem("tide-theme", dark ? "dark" : "light");
    theme(dark);
  };
  document.getElementById("theme").addEventListener("click", turn);
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== "checkbox") return;
    if (e.key >= "1" && e.key <= String(panels.length)) choose(Number(e.key) - 1, true);
    else if (e.key === "t") turn();
    else if (e.key === "/") { const input = document.querySelector("#panel input[type=text]"); if (input) { e.preventDefault(); input.focus(); } }
    else if (e.target.getAttribute && e.target.getAttribute("role") === "tab" && e.key === "ArrowRight") choose(at + 1, true);
    else if (e.target.getAttribute && e.target.getAttribute("role") === "tab" && e.key === "ArrowLeft") choose(at - 1, true);
  });
  const before = panels.findIndex((p) => p.name === sessionStorage.getItem("tide-panel"));
  choose(before < 0 ? 0 : before);
  addEventListener("hashchange", () => { if (/^#token=/.test(location.hash)) location.reload(); });
  follow();
}

start();
