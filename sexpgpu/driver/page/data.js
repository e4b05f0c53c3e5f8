"use strict";
// What the page is told, and what can be read off a line of a module: names, types, places, who defines what.

const VALUE = "\u0001";
const BYTES = {f64: 8, i64: 8, f32: 4, i32: 4, bf16: 2, i16: 2, i8: 1, i1: 1};

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).json();
}

class Model {
  constructor(data) {
    Object.assign(this, data);
    this.parsed = new Map();
  }

  valueName(number) {
    if (number >= this.other) return this.names[number - this.other];
    return number < 0 ? "arg" + (-1 - number) : String(number);
  }

  // `%87#1` is a part of what defines `%87`.
  wholeValue(number) {
    const named = number >= this.other ? /^(\d+)#\d+$/.exec(this.names[number - this.other]) : null;
    return named ? Number(named[1]) : number;
  }

  text(code) {
    let next = 2;
    return this.templates[code[0]].replaceAll(VALUE, () => "%" + this.valueName(code[next++]));
  }

  place(code) {
    const [file, line, source, path, via] = this.places[code[1]];
    return {file, line, source, path, via};
  }

  // The function of a graph at a stage, or null where that stage has none.
  at(stage, name) {
    const index = (stage.functions || []).find((f) => this.functions[f].name === name);
    return index === undefined ? null : this.function(index);
  }

  function(index) {
    let found = this.parsed.get(index);
    if (!found) this.parsed.set(index, found = this.parse(this.functions[index]));
    return found;
  }

  // Lines with what they define and read. A line's key is what a diff compares: the text without numbers of values,
  // the place, and how the values it reads were made; so numbering that has moved is no difference.
  parse(raw) {
    const defined = new Map();
    const lines = raw.code.map((code, index) => {
      const template = this.templates[code[0]];
      const results = resultCount(template);
      const operation = operationOf(template);
      const line = {index, code, template, operation, argument: isArgument(template), reads: [], key: ""};
      const mine = line.argument ? 1 : results;
      for (let i = 2; i < code.length; i++) {
        if (i - 2 < mine) defined.set(code[i], index);
        else {
          const from = defined.get(this.wholeValue(code[i]));
          if (from !== undefined) line.reads.push(from);
        }
      }
      return line;
    });
    for (const line of lines) {
      line.key = line.code[0] + ":" + line.code[1] + ":" + line.reads.map((r) => lines[r].code[0]).join(",");
    }
    return {symbol: raw.symbol, name: raw.name, lines};
  }
}

function resultCount(template) {
  const named = /^\s*([\u0001, ]+)(?::(\d+))? = /.exec(template);
  return named ? named[1].split(VALUE).length - 1 : 0;
}

function operationOf(template) {
  const named = /^\s*(?:[\u0001, ]+(?::\d+)? = )?"?([a-z]\w*(?:\.\w+)+|return)"?/.exec(template);
  return named && named[1] !== "func.func" ? named[1] : "";
}

function isArgument(template) {
  return /^(func\.func @|    \u0001: )/.test(template);
}

// The types a line makes: shape, dtype and bytes of each.
function typesOf(line) {
  const text = line.argument ? line.template.replace(/ -> .*$/, "") : line.template;
  const arrow = text.lastIndexOf(" -> ");
  if (!line.argument && (arrow < 0 || !line.operation)) return [];
  const found = [];
  for (const [, body] of text.slice(line.argument ? 0 : arrow).matchAll(/tensor<([^>]*)>/g)) {
    const parts = body.split("x");
    const dtype = parts.pop();
    const elements = parts.reduce((n, d) => n * Number(d), 1);
    found.push({shape: "[" + parts.join(", ") + "]", dtype, bytes: elements * (BYTES[dtype] || 0)});
  }
  return found;
}

function bytesOf(line) {
  return typesOf(line).reduce((n, t) => n + t.bytes, 0);
}

// Where the memory plan puts what a line makes: an offset in the arena for each value, -1 for what has none.
function slotOf(line) {
  const found = /sx\.at = array<i64: ([^>]*)>/.exec(line.template);
  if (!found) return "";
  return found[1].split(", ").map((at) => at === "-1" ? "no slot: a view, a constant or a result" : `at byte ${at}`).join(", ");
}

function sizeText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit++; }
  return (unit ? bytes.toFixed(1) : String(bytes)) + " " + units[unit];
}
