"use strict";
// What is shown and what the reader does: passes on the left, a stage beside the one before, search, hover.

const ROW = 18;
let MODEL;
const $ = (id) => document.getElementById(id);
const state = {stage: 0, graph: "", view: "diff", open: new Set(), rows: [], shown: [], hits: [], hit: -1, query: "",
  groups: new Set(), zoom: 1, tree: null};

function stages() { return MODEL.stages; }

// The last stage before `index` that has a module; a skipped pass has none.
function before(index) {
  for (let i = index - 1; i >= 0; i--) if (stages()[i].functions) return i;
  return -1;
}

function functionAt(index) {
  return index < 0 || !stages()[index].functions ? null : MODEL.at(stages()[index], state.graph);
}

function changesGraph(index) {
  if (before(index) < 0) return true;
  return functionAt(index) !== functionAt(before(index));
}

function listPasses() {
  const only = $("only-changed").checked;
  $("passes").innerHTML = stages().map((stage, i) => {
    const same = !stage.skipped && !changesGraph(i);
    if (only && (same || stage.skipped)) return "";
    const found = state.query && (stage.name + " " + stage.did).toLowerCase().includes(state.query);
    const ops = stage.after === null ? "" : stage.before === null ? `${stage.after} operations` : `${stage.before} \u2192 ${stage.after}`;
    return `<li data-stage="${i}" class="${same ? "same " : ""}${stage.skipped ? "skipped " : ""}${found ? "found" : ""}" aria-current="${i === state.stage}">`
      + `<span class="cost">${stage.ms === null ? "" : stage.ms.toFixed(1) + " ms"}</span>`
      + `<b>${String(stage.number).padStart(2, "0")} ${escapeText(stage.name)}</b> ${ops}`
      + `<span class="did">${escapeText(stage.did)}${same && stage.changed ? " (not in this graph)" : ""}</span></li>`;
  }).join("");
}

function listGraphs() {
  const names = new Map();
  for (const stage of stages()) {
    for (const index of stage.functions || []) {
      const fn = MODEL.functions[index];
      names.set(fn.name, Math.max(names.get(fn.name) || 0, fn.code.length));
    }
  }
  const order = [...names.keys()].sort((a, b) => a.startsWith("init ") - b.startsWith("init "));
  $("graph").innerHTML = order.map((n) => `<option value="${escapeText(n)}">${escapeText(n)}</option>`).join("");
  state.graph = order.includes("train") ? "train" : order[0];
  $("graph").value = state.graph;
}

function show() {
  const was = functionAt(before(state.stage)), now = functionAt(state.stage);
  const one = state.view === "text" || before(state.stage) < 0;
  state.rows = one && now ? now.lines.map((line) => ({left: null, right: line, same: true}))
    : stages()[state.stage].functions ? difference(was, now) : [];
  state.one = one;
  state.open = new Set();
  findHits();
  listPasses();
  heads(was, now);
  $("drawing").hidden = state.view !== "graph";
  $("lines").hidden = $("heads").hidden = state.view === "graph";
  for (const view of ["diff", "text", "graph"]) $("view-" + view).setAttribute("aria-pressed", state.view === view);
  if (state.view === "graph") draw();
  else { $("lines").scrollTop = 0; fold(); }
}

function heads(was, now) {
  const stage = stages()[state.stage], earlier = stages()[before(state.stage)];
  const gone = state.rows.filter((r) => !r.same && r.left).length, come = state.rows.filter((r) => !r.same && r.right).length;
  const told = stage.skipped ? "skipped" : !now ? "not in this stage" : state.one ? `${now.lines.length} lines`
    : gone + come ? `${gone} lines gone, ${come} new` : "unchanged";
  $("left-head").textContent = earlier ? `${String(earlier.number).padStart(2, "0")} ${earlier.name}${was ? "" : " (not in this stage)"}` : "";
  $("right-head").textContent = `${String(stage.number).padStart(2, "0")} ${stage.name}: ${told}`;
  $("heads").className = state.one ? "one" : "";
}

function fold() {
  state.shown = state.one ? state.rows.map((_, i) => i) : folded(state.rows, state.open);
  $("space").style.height = state.shown.length * ROW + "px";
  paint();
}

function cell(line, side, same) {
  if (!line) return `<div class="cell ${side} void"></div>`;
  const colour = same ? "" : side === "left" ? " gone" : " come";
  return `<div class="cell ${side}${colour}" data-line="${line.index}"><i>${line.index + 1}</i>${escapeText(MODEL.text(line.code))}</div>`;
}

// Only the rows in sight are in the document.
function paint() {
  const box = $("lines");
  const from = Math.max(0, Math.floor(box.scrollTop / ROW) - 20);
  const to = Math.min(state.shown.length, from + Math.ceil((box.clientHeight || 800) / ROW) + 60);
  const hits = new Set(state.hits), here = state.hits[state.hit];
  let text = "";
  for (let i = from; i < to; i++) {
    const entry = state.shown[i];
    if (typeof entry === "object") {
      const [a, b] = entry.fold;
      text += `<div class="row fold" style="top:${i * ROW}px" data-fold="${a}">${b - a} unchanged lines</div>`;
      continue;
    }
    const row = state.rows[entry];
    const mark = (hits.has(entry) ? " hit" : "") + (entry === here ? " here" : "") + (state.one ? " one" : "");
    text += `<div class="row${mark}" style="top:${i * ROW}px" data-row="${entry}">${cell(row.left, "left", row.same)}${cell(row.right, "right", row.same)}</div>`;
  }
  $("space").innerHTML = text;
}

function searched(line) {
  if (!line) return "";
  const {file, line: number, path, source} = MODEL.place(line.code);
  return `${MODEL.text(line.code)} ${path} ${file}:${number} ${source}`.toLowerCase();
}

function findHits() {
  state.hits = [];
  state.hit = -1;
  if (state.query) {
    state.rows.forEach((row, i) => {
      if (searched(row.right).includes(state.query) || (!row.same && searched(row.left).includes(state.query))) state.hits.push(i);
    });
  }
  $("matches").textContent = state.query ? `${state.hits.length} lines` : "";
}

function jump(by) {
  if (!state.hits.length) return;
  state.hit = (state.hit + by + state.hits.length) % state.hits.length;
  $("matches").textContent = `${state.hit + 1} of ${state.hits.length} lines`;
  if (state.view !== "graph") reveal(state.hits[state.hit]);
}

function reveal(row) {
  for (const entry of state.shown) {
    if (typeof entry === "object" && entry.fold[0] <= row && row < entry.fold[1]) state.open.add(entry.fold[0]);
  }
  fold();
  const at = state.shown.indexOf(row);
  $("lines").scrollTop = Math.max(0, at * ROW - $("lines").clientHeight / 2);
  paint();
}

function draw() {
  const fn = functionAt(state.stage);
  $("about").textContent = fn ? "click a box to open or close it, an operation to see its line; green: new in this stage" : "not in this stage";
  if (!fn) { $("svg").innerHTML = ""; return; }
  const news = new Set(before(state.stage) < 0 ? [] : state.rows.filter((r) => !r.same && r.right).map((r) => r.right.index));
  const hits = new Set(state.hits.filter((i) => state.rows[i].right).map((i) => state.rows[i].right.index));
  state.tree = groupTree(fn);
  drawGraph($("svg"), fn, state.tree, state.groups, {news, hits});
  zoom();
}

function zoom() {
  const svg = $("svg");
  svg.setAttribute("width", Math.round(svg.dataset.width * state.zoom));
  svg.setAttribute("height", Math.round(svg.dataset.height * state.zoom));
}

function expandLevel(group) {
  if (!state.groups.has(group.id)) { state.groups.add(group.id); return; }
  for (const child of group.children.values()) expandLevel(child);
}

function tell(line, x, y) {
  const tip = $("tip");
  const {file, line: number, source, path, via} = MODEL.place(line.code);
  const types = typesOf(line), slot = slotOf(line);
  const rows = [["operation", line.operation || (line.argument ? "argument" : "")],
    ["shape", types.map((t) => `${t.dtype}${t.shape}`).join(", ")],
    ["bytes", types.length ? `${sizeText(bytesOf(line))} (${bytesOf(line)})` : ""],
    ["arena", slot || (types.length && !line.argument ? "not planned at this stage" : "")],
    ["model path", path], ["source", file ? `${file}:${number}` : ""], ["through", via], ["line", source, "code"],
    ["text", MODEL.text(line.code).trim(), "code"]];
  tip.innerHTML = "<dl>" + rows.filter((r) => r[1]).map(([name, text, tag]) =>
    `<dt>${name}</dt><dd>${tag ? `<${tag}>` : ""}${escapeText(text)}${tag ? `</${tag}>` : ""}</dd>`).join("") + "</dl>";
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + "px";
}

function lineUnder(target) {
  const owner = target.closest("[data-line]");
  if (!owner) return null;
  const left = owner.classList.contains("left");
  const fn = functionAt(left ? before(state.stage) : state.stage);
  return fn ? fn.lines[Number(owner.dataset.line)] : null;
}

function choose(by) {
  const items = [...document.querySelectorAll("#passes li")].map((li) => Number(li.dataset.stage));
  const at = items.findIndex((i) => i >= state.stage);
  const next = items[Math.max(0, Math.min(items.length - 1, (at < 0 ? items.length : at) + by))];
  if (next !== undefined) { state.stage = next; show(); }
}

function view(name) { state.view = name; show(); }

function listen() {
  $("passes").addEventListener("click", (e) => {
    const item = e.target.closest("li");
    if (item) { state.stage = Number(item.dataset.stage); show(); }
  });
  $("graph").addEventListener("change", (e) => { state.graph = e.target.value; state.groups.clear(); show(); });
  $("only-changed").addEventListener("change", listPasses);
  for (const name of ["diff", "text", "graph"]) $("view-" + name).addEventListener("click", () => view(name));
  $("search").addEventListener("input", (e) => {
    state.query = e.target.value.trim().toLowerCase();
    findHits();
    listPasses();
    if (state.view === "graph") draw();
    else if (state.hits.length) jump(1);
    else paint();
  });
  $("search").addEventListener("keydown", (e) => {
    if (e.key === "Enter") jump(e.shiftKey ? -1 : 1);
    if (e.key === "Escape") $("search").blur();
  });
  $("next").addEventListener("click", () => jump(1));
  $("previous").addEventListener("click", () => jump(-1));
  $("lines").addEventListener("scroll", paint);
  addEventListener("resize", paint);
  $("space").addEventListener("click", (e) => {
    const row = e.target.closest("[data-fold]");
    if (row) { state.open.add(Number(row.dataset.fold)); fold(); }
  });
  $("svg").addEventListener("click", (e) => {
    const box = e.target.closest("[data-group], [data-line]");
    if (!box) return;
    if (box.dataset.line !== undefined) {
      const row = state.rows.findIndex((r) => r.right && r.right.index === Number(box.dataset.line));
      state.view = "diff";
      show();
      reveal(row);
    } else if (box.dataset.group && !box.classList.contains("rest")) {
      const id = box.dataset.group;
      if (state.groups.has(id)) state.groups.delete(id);
      else state.groups.add(id);
      draw();
    }
  });
  $("expand").addEventListener("click", () => { expandLevel(state.tree); draw(); });
  $("collapse").addEventListener("click", () => { state.groups.clear(); draw(); });
  $("larger").addEventListener("click", () => { state.zoom = Math.min(3, state.zoom * 1.25); zoom(); });
  $("smaller").addEventListener("click", () => { state.zoom = Math.max(0.1, state.zoom / 1.25); zoom(); });
  document.addEventListener("mousemove", (e) => {
    const line = e.target.closest ? lineUnder(e.target) : null;
    if (line) tell(line, e.clientX, e.clientY);
    else $("tip").hidden = true;
  });
  document.addEventListener("keydown", (e) => {
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey) return;
    const actions = {j: () => choose(1), k: () => choose(-1), n: () => jump(1), N: () => jump(-1), d: () => view("diff"),
      t: () => view("text"), g: () => view("graph"), "/": () => $("search").focus()};
    if (actions[e.key]) { e.preventDefault(); actions[e.key](); }
  });
}

unpack($("data").textContent).then((data) => {
  MODEL = new Model(data);
  listGraphs();
  state.stage = Math.max(0, stages().findIndex((s, i) => before(i) >= 0 && !s.skipped && changesGraph(i)));
  listen();
  show();
  document.body.dataset.ready = "yes";
});
