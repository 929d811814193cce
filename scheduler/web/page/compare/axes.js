// axes.js - the axes of parallel coordinates, and which jobs are within the bounds
// that a reader has set on them.
//
// An axis is {key, title, values, lo, hi, isLog, texts}: values has a number for
// each job, or null; texts are the categories if the values are their indices,
// else null. A bound is [from, to] of numbers, or of the names of categories.

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const DECADES = 2;

const isNone = (v) => v === null || v === undefined || v === '';

// undefined: it is text.
function asNumber(v) {
  if (typeof v === 'number') return Number.isFinite(v) ? v : null;
  return typeof v === 'string' && NUMBER.test(v.trim()) ? Number(v) : undefined;
}

// The axis of one value for each job: of numbers if all values are, also as text.
export function axisOf(key, title, raw) {
  const numbers = raw.map((v) => (isNone(v) ? null : asNumber(v)));
  if (!numbers.includes(undefined)) {
    const known = numbers.filter((v) => v !== null);
    const lo = known.reduce((a, b) => Math.min(a, b), Infinity), hi = known.reduce((a, b) => Math.max(a, b), -Infinity);
    return {key, title, values: numbers, lo, hi, isLog: lo > 0 && hi / lo > 10 ** DECADES, texts: null};
  }
  const texts = [...new Set(raw.filter((v) => !isNone(v)).map(String))]
    .sort((a, b) => a.localeCompare(b, 'en', {numeric: true}) || (a < b ? -1 : 1));
  const index = new Map(texts.map((t, i) => [t, i]));
  return {key, title, values: raw.map((v) => (isNone(v) ? null : index.get(String(v)))), lo: 0, hi: texts.length - 1, isLog: false, texts};
}

// Where a value is, 0 at the lower end and 1 at the upper one.
export function placeOf(axis, v) {
  if (!(axis.hi > axis.lo)) return 0.5;
  const f = axis.isLog ? Math.log(v / axis.lo) / Math.log(axis.hi / axis.lo) : (v - axis.lo) / (axis.hi - axis.lo);
  return Math.min(1, Math.max(0, f));
}

// The value at a place; of categories the nearest one.
export function valueAt(axis, place) {
  if (!(axis.hi > axis.lo)) return axis.lo;
  const f = Math.min(1, Math.max(0, place));
  if (axis.texts) return Math.round(f * axis.hi);
  if (f === 0 || f === 1) return f === 0 ? axis.lo : axis.hi; // not a rounded one beside it
  return axis.isLog ? axis.lo * (axis.hi / axis.lo) ** f : axis.lo + f * (axis.hi - axis.lo);
}

// The values that jobs have, ascending.
export function stepsOf(axis) {
  return [...new Set(axis.values.filter((v) => v !== null))].sort((a, b) => a - b);
}

// The bound as numbers of the axis; null: it says nothing of this axis.
export function rangeOf(axis, bound) {
  if (!bound) return null;
  if (!axis.texts) return bound.every(Number.isFinite) ? bound : null;
  const ends = bound.map((t) => axis.texts.indexOf(t));
  return ends.includes(-1) ? null : ends;
}

export function boundOf(axis, range) {
  const [from, to] = range[0] <= range[1] ? range : [range[1], range[0]];
  return axis.texts ? [axis.texts[from], axis.texts[to]] : [from, to];
}

// Which jobs are within all bounds. A job without the value is in no bound.
export function withinOf(axes, bounds, n) {
  const ranges = axes.map((a) => rangeOf(a, bounds.get(a.key)));
  return Array.from({length: n}, (_, i) => axes.every((a, k) => {
    const v = a.values[i], r = ranges[k];
    return !r || (v !== null && v >= r[0] && v <= r[1]);
  }));
}

// ---- the link -----------------------------------------------------------------

export function boundsText(bounds) {
  return bounds.size === 0 ? '' : JSON.stringify([...bounds].map(([key, [from, to]]) => [key, from, to]));
}

// What is no bound in the text is left out.
export function boundsOf(text) {
  const isEnd = (v) => typeof v === 'string' || Number.isFinite(v);
  try {
    const list = JSON.parse(text || '[]');
    return new Map(list.filter((b) => Array.isArray(b) && b.length === 3 && typeof b[0] === 'string' && isEnd(b[1]) && isEnd(b[2]))
      .map(([key, from, to]) => [key, [from, to]]));
  } catch {
    return new Map();
  }
}
