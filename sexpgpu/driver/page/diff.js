"use strict";
// The difference of two functions: lines that stay, go and come, by anchors that occur once on either side.

const CONTEXT = 3;
const SMALL = 250000;

// Rows {left, right, same}: a line, or null, on each side.
function difference(before, after) {
  const rows = [];
  const a = before ? before.lines : [];
  const b = after ? after.lines : [];
  const keep = (i, j) => rows.push({left: a[i], right: b[j], same: true});
  const replace = (a0, a1, b0, b1) => {
    for (let k = 0; k < Math.max(a1 - a0, b1 - b0); k++) {
      rows.push({left: a0 + k < a1 ? a[a0 + k] : null, right: b0 + k < b1 ? b[b0 + k] : null, same: false});
    }
  };
  const between = (a0, a1, b0, b1) => {
    while (a0 < a1 && b0 < b1 && a[a0].key === b[b0].key) keep(a0++, b0++);
    let tail = 0;
    while (a0 < a1 - tail && b0 < b1 - tail && a[a1 - 1 - tail].key === b[b1 - 1 - tail].key) tail++;
    const a2 = a1 - tail, b2 = b1 - tail;
    if (a0 === a2 || b0 === b2) replace(a0, a2, b0, b2);
    else {
      const anchors = uniqueAnchors(a, a0, a2, b, b0, b2);
      const pairs = anchors.length || (a2 - a0) * (b2 - b0) > SMALL ? anchors : longest(a, a0, a2, b, b0, b2);
      if (!pairs.length) replace(a0, a2, b0, b2);
      else {
        let x = a0, y = b0;
        for (const [i, j] of pairs) {
          if (anchors.length) between(x, i, y, j);
          else replace(x, i, y, j);
          keep(i, j);
          x = i + 1; y = j + 1;
        }
        if (anchors.length) between(x, a2, y, b2);
        else replace(x, a2, y, b2);
      }
    }
    for (let k = 0; k < tail; k++) keep(a2 + k, b2 + k);
  };
  between(0, a.length, 0, b.length);
  return rows;
}

// Lines that occur once in either range, in an order that both share: the longest such chain.
function uniqueAnchors(a, a0, a1, b, b0, b1) {
  const seen = new Map();
  const note = (lines, from, to, side) => {
    for (let i = from; i < to; i++) {
      const found = seen.get(lines[i].key) || [0, 0, -1, -1];
      found[side]++;
      found[2 + side] = i;
      seen.set(lines[i].key, found);
    }
  };
  note(a, a0, a1, 0);
  note(b, b0, b1, 1);
  const pairs = [...seen.values()].filter((s) => s[0] === 1 && s[1] === 1).map((s) => [s[2], s[3]]);
  pairs.sort((p, q) => p[0] - q[0]);
  const ends = [], before = new Array(pairs.length).fill(-1);
  pairs.forEach((pair, n) => {
    let low = 0, high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[ends[middle]][1] < pair[1]) low = middle + 1;
      else high = middle;
    }
    if (low) before[n] = ends[low - 1];
    ends[low] = n;
  });
  const chain = [];
  for (let n = ends.length ? ends[ends.length - 1] : -1; n >= 0; n = before[n]) chain.push(pairs[n]);
  return chain.reverse();
}

// The longest common subsequence of two short ranges, by the table of its lengths.
function longest(a, a0, a1, b, b0, b1) {
  const n = a1 - a0, m = b1 - b0, width = m + 1;
  const length = new Uint16Array((n + 1) * width);
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      length[i * width + j] = a[a0 + i].key === b[b0 + j].key
        ? length[(i + 1) * width + j + 1] + 1
        : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < n && j < m;) {
    if (a[a0 + i].key === b[b0 + j].key) pairs.push([a0 + i++, b0 + j++]);
    else if (length[(i + 1) * width + j] >= length[i * width + j + 1]) i++;
    else j++;
  }
  return pairs;
}

// Rows with long unchanged runs folded: {fold: [from, to]} stands for rows that are not `open`.
function folded(rows, open) {
  const shown = [];
  for (let i = 0; i < rows.length;) {
    if (!rows[i].same) { shown.push(i++); continue; }
    let end = i;
    while (end < rows.length && rows[end].same) end++;
    const from = i === 0 ? 0 : i + CONTEXT, to = end === rows.length ? end : end - CONTEXT;
    if (to - from > 4 && !open.has(from)) {
      for (let k = i; k < from; k++) shown.push(k);
      shown.push({fold: [from, to]});
      for (let k = to; k < end; k++) shown.push(k);
    } else {
      for (let k = i; k < end; k++) shown.push(k);
    }
    i = end;
  }
  return shown;
}
