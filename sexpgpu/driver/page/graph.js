"use strict";
// The graph of one function, grouped by model path: boxes in layers, a box opens to show what is inside.

const CROWD = 150, WIDE = 1500, GAP = 26, PAD = 14, TITLE = 22;

// The tree of groups. What no result but gradients needs is the backward part, a group of its own.
function groupTree(fn) {
  const root = {id: "", name: fn.name, children: new Map(), lines: []};
  const forward = forwardLines(fn);
  for (const line of fn.lines) {
    if (!line.operation && !line.argument) continue;
    if (line.operation === "" && !/tensor</.test(line.template)) continue;
    const path = MODEL.place(line.code).path;
    const parts = line.argument ? ["arguments"] : forward.has(line.index) ? [] : ["backward"];
    if (path) parts.push(...path.split("."));
    let at = root;
    for (const part of parts) {
      const id = at.id ? at.id + "." + part : part;
      if (!at.children.has(part)) at.children.set(part, {id, name: part, children: new Map(), lines: [], parent: at});
      at = at.children.get(part);
    }
    at.lines.push(line);
  }
  measure(root);
  return root;
}

function measure(group) {
  group.count = group.lines.length;
  group.bytes = group.lines.reduce((n, line) => n + bytesOf(line), 0);
  group.first = group.lines.length ? group.lines[0].index : Infinity;
  for (const child of group.children.values()) {
    measure(child);
    group.count += child.count;
    group.bytes += child.bytes;
    group.first = Math.min(group.first, child.first);
  }
}

// Lines that a result other than a gradient needs; all of them where there is no gradient.
function forwardLines(fn) {
  const head = fn.lines.filter((line) => line.argument).map((line) => line.template).join(" ");
  const results = head.slice(head.lastIndexOf(" -> ") + 4);
  const roles = [...results.matchAll(/sx\.(loss|metric|grad|state|param|value|counter|buffer|step_term|sample)\b/g)].map((m) => m[1]);
  const every = new Set(fn.lines.map((line) => line.index));
  const last = fn.lines.findLast((line) => line.operation === "return");
  if (!roles.includes("grad") || !last || roles.length !== last.reads.length) return every;
  const needed = new Set([last.index]);
  const waiting = last.reads.filter((_, i) => roles[i] !== "grad");
  while (waiting.length) {
    const index = waiting.pop();
    if (needed.has(index)) continue;
    needed.add(index);
    waiting.push(...fn.lines[index].reads);
  }
  return needed;
}

// What is drawn inside an open group: its groups, and its own operations up to a bound.
function contents(group) {
  const items = [...group.children.values()].map((child) => ({id: child.id, first: child.first, group: child}));
  for (const line of group.lines.slice(0, CROWD)) items.push({id: group.id + "#" + line.index, first: line.index, line});
  if (group.lines.length > CROWD) {
    const rest = group.lines.slice(CROWD);
    items.push({id: group.id + "#rest", first: rest[0].index, rest});
  }
  return items.sort((a, b) => a.first - b.first);
}

// Sizes and places, from the inside out. `owner` maps a line to its innermost drawn box.
function layOut(item, open, fn, owner) {
  const {group} = item;
  if (!group || !open.has(group.id)) {
    const text = item.line ? shortName(item.line) : item.rest ? `${item.rest.length} more operations` : group.name;
    item.w = Math.max(96, Math.min(240, 22 + Math.max(7 * text.length, 5.6 * noteOf(item).length)));
    item.h = 34;
    item.label = text;
    for (const line of linesIn(item)) owner.set(line.index, item);
    return;
  }
  item.items = contents(group);
  const box = new Map();
  for (const inner of item.items) {
    layOut(inner, open, fn, owner);
    for (const line of linesIn(inner)) box.set(line.index, inner);
  }
  const layers = [];
  for (const inner of item.items) {
    let layer = 0;
    for (const line of linesIn(inner)) {
      for (const read of line.reads) {
        const from = box.get(read);
        if (from && from !== inner && from.first < inner.first) layer = Math.max(layer, (from.layer || 0) + 1);
      }
    }
    inner.layer = layer;
    (layers[layer] ||= []).push(inner);
  }
  let y = TITLE + PAD, widest = 120;
  const rows = layers.flatMap((layer) => wrapped(layer));
  for (const row of rows) {
    row.width = row.reduce((w, inner) => w + inner.w, GAP * (row.length - 1));
    widest = Math.max(widest, row.width);
  }
  for (const row of rows) {
    let x = PAD + (widest - row.width) / 2;
    for (const inner of row) { inner.x = x; inner.y = y; x += inner.w + GAP; }
    y += Math.max(...row.map((inner) => inner.h)) + GAP;
  }
  item.w = widest + 2 * PAD;
  item.h = y - GAP + PAD;
  item.label = group.name;
}

function wrapped(layer) {
  const rows = [[]];
  let width = 0;
  for (const inner of layer) {
    if (width && width + inner.w > WIDE) { rows.push([]); width = 0; }
    rows[rows.length - 1].push(inner);
    width += inner.w + GAP;
  }
  return rows;
}

function linesIn(item) {
  if (item.line) return [item.line];
  if (item.rest) return item.rest;
  if (!item.every) {
    const all = [...item.group.lines];
    for (const child of item.group.children.values()) all.push(...linesIn({group: child}));
    item.every = all.sort((a, b) => a.index - b.index);
  }
  return item.every;
}

function shortName(line) {
  if (!line.argument) return line.operation.replace(/^sx\./, "");
  const named = /sx\.(\w+) = "([^"]*)"/.exec(line.template);
  return named ? named[2] : "argument";
}

function place(item, x, y, into) {
  item.left = x;
  item.top = y;
  into.push(item);
  for (const inner of item.items || []) place(inner, x + inner.x, y + inner.y, into);
}

// Edges between drawn boxes, several values in one: bytes and how many.
function edges(fn, owner) {
  const found = new Map();
  for (const line of fn.lines) {
    const to = owner.get(line.index);
    for (const read of to ? line.reads : []) {
      const from = owner.get(read);
      if (!from || from === to) continue;
      const key = from.id + "\n" + to.id;
      const edge = found.get(key) || {from, to, values: new Set()};
      edge.values.add(read);
      found.set(key, edge);
    }
  }
  return [...found.values()];
}

function drawGraph(svg, fn, tree, open, marks) {
  const top = {id: "", first: 0, group: tree};
  const owner = new Map();
  open.add("");
  layOut(top, open, fn, owner);
  const items = [];
  place(top, 8, 8, items);
  const opened = items.filter((item) => item.items), closed = items.filter((item) => !item.items);
  svg.innerHTML = [...opened.map((item) => boxText(item, marks)), ...edges(fn, owner).map((edge) => edgeText(edge, fn)),
    ...closed.map((item) => boxText(item, marks))].join("");
  svg.setAttribute("viewBox", `0 0 ${top.w + 16} ${top.h + 16}`);
  svg.dataset.width = top.w + 16;
  svg.dataset.height = top.h + 16;
  return items;
}

function noteOf(item) {
  if (item.group) return `${item.group.count} operations, ${sizeText(item.group.bytes)}`;
  return item.line ? typesOf(item.line).map((t) => t.dtype + t.shape).join(" ") : "";
}

function boxText(item, marks) {
  const inside = linesIn(item);
  const news = inside.some((line) => marks.news.has(line.index));
  const hit = inside.some((line) => marks.hits.has(line.index)) && !item.items;
  const kind = item.group ? "group" : item.line ? "op" : "op rest";
  const states = `${kind}${news ? " news" : ""}${hit ? " hit" : ""}`;
  const sign = item.group && item.id ? (item.items ? "\u25be " : "\u25b8 ") : "";
  const note = noteOf(item);
  const small = item.items && item.w < 7 * (item.label.length + note.length) ? "" : note;
  const at = item.items ? {x: item.left + 10, y: item.top + 16, x2: item.left + item.w - 10, y2: item.top + 16, anchor: "end"}
    : {x: item.left + 10, y: item.top + 15, x2: item.left + 10, y2: item.top + 28, anchor: "start"};
  const data = item.line ? ` data-line="${item.line.index}"` : ` data-group="${escapeText(item.id)}"`;
  return `<g class="${states}"${data}><rect x="${item.left}" y="${item.top}" width="${item.w}" height="${item.h}" rx="6"/>`
    + `<text x="${at.x}" y="${at.y}">${escapeText(sign + item.label)}</text>`
    + `<text class="small" x="${at.x2}" y="${at.y2}" text-anchor="${at.anchor}">${escapeText(small.slice(0, 40))}</text></g>`;
}

function edgeText({from, to, values}, fn) {
  const bytes = [...values].reduce((n, v) => n + bytesOf(fn.lines[v]), 0);
  const x1 = from.left + from.w / 2, y1 = from.top + from.h, x2 = to.left + to.w / 2, y2 = to.top;
  const bend = Math.max(14, Math.abs(y2 - y1) / 2);
  const width = (0.6 + Math.log10(1 + bytes) / 5).toFixed(1);
  const many = `${values.size} value${values.size > 1 ? "s" : ""}, ${sizeText(bytes)}`;
  const kind = y2 < y1 ? ' class="back"' : from.id === "arguments" ? ' class="given"' : "";
  return `<path${kind} d="M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}" stroke-width="${width}">`
    + `<title>${escapeText(from.label + " \u2192 " + to.label + ": " + many)}</title></path>`;
}

function escapeText(text) {
  return String(text).replace(/[&<>"]/g, (c) => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}[c]));
}
