// curves.js - the curves of jobs: read thinned, kept up to date, and put on the
// axis that is asked for.
//
// A feed has the rows of GET /v1/jobs/:id/curve as they are. An update asks from
// the cursor of the last reply on, so that it costs what is new; if rows before
// that have changed, the daemon sends the whole curve. `version` counts changes:
// what is made of the rows is made once for each.
import {ODD} from './chart.js';

export const AXES = [['iteration', 'iteration'], ['time', 'time since the start'], ['epoch', 'epoch'], ['samples', 'samples']];
// The curve whose rows have the samples of all ranks; those of another have the
// samples of one.
export const SAMPLES_OF = 'samples_per_s';
const POINTS = 1000;
const [ATTEMPT, FIRST, LAST, TIME, EPOCH, SAMPLES, MIN, MAX, VALUE, N, NONE, PLUS_INF, MINUS_INF] = Array.from({length: 13}, (_, i) => i);

const least = (a, b) => (a === null ? b : b === null ? a : Math.min(a, b));
const most = (a, b) => (a === null ? b : b === null ? a : Math.max(a, b));

// Makes b, the later row, a part of a.
function join(a, b) {
  const row = a.slice();
  row[LAST] = b[LAST];
  row[TIME] = b[TIME] ?? a[TIME];
  row[EPOCH] = b[EPOCH] ?? a[EPOCH];
  row[MIN] = least(a[MIN], b[MIN]);
  row[MAX] = most(a[MAX], b[MAX]);
  row[VALUE] = b[VALUE];
  for (const i of [SAMPLES, N, NONE, PLUS_INF, MINUS_INF]) row[i] += b[i];
  return row;
}

// The rows with one for each `width` iterations of an attempt.
export function widen(rows, width) {
  const out = [];
  for (const row of rows) {
    const before = out[out.length - 1];
    if (before && before[ATTEMPT] === row[ATTEMPT] && Math.floor(before[FIRST] / width) === Math.floor(row[FIRST] / width))
      out[out.length - 1] = join(before, row);
    else out.push(row);
  }
  return out;
}

// The rows of `old` with those of a reply from `cursor` on.
export function merge(old, cursor, reply) {
  const [attempt, from] = (cursor || '0.0').split('.').map(Number);
  const kept = old.filter((r) => r[ATTEMPT] < attempt || (r[ATTEMPT] === attempt && r[FIRST] < from));
  return [...widen(kept, reply.width), ...reply.rows];
}

// The iteration of a cursor rounded down to a row of that width: with the rows
// joined on the page, the last one may go on.
export function alignCursor(cursor, width) {
  const [attempt, from] = String(cursor).split('.').map(Number);
  return Number.isFinite(from) ? `${attempt}.${Math.floor(from / width) * width}` : cursor;
}

// The daemon has a limit of requests: a few at once are enough for all charts.
const gate = {free: 3, waiting: []};

async function inTurn(f) {
  if (gate.free > 0) gate.free--;
  else await new Promise((resolve) => { gate.waiting.push(resolve); });
  try {
    return await f();
  } finally {
    if (gate.waiting.length > 0) gate.waiting.shift()();
    else gate.free++;
  }
}

// One curve of one job.
export class Feed {
  constructor(api, job, of, own) {
    Object.assign(this, {api, job, of, own, rows: [], width: 1, cursor: null, before: null, version: 0, x: 'iteration', error: null, range: null});
  }

  path(more) {
    const query = new URLSearchParams({of: this.of, points: POINTS, ...(this.own ? {own: 1} : {}), ...more});
    return `${this.api.jobPath(this.job, 'curve')}?${query}`;
  }

  // Reads what is new. Returns whether anything is; `error` has why not.
  async update(signal) {
    let isNew = false;
    for (;;) {
      let reply;
      const cursor = this.cursor, range = this.range;
      const from = cursor ? {cursor, width: this.width, ...(this.before === null ? {} : {before: this.before})} : {};
      try {
        const path = this.path({...from, ...(range ? {from: range[0], to: range[1]} : {})});
        reply = await inTurn(() => this.api.get(path, signal));
      } catch (error) {
        if (error.name === 'AbortError') throw error;
        this.error = error;
        return isNew;
      }
      if (range !== this.range) continue;
      const old = this.rows, end = -Math.max(1, reply.rows.length);
      this.error = null;
      this.rows = reply.whole ? reply.rows : merge(this.rows, cursor, reply);
      this.width = reply.width;
      while (this.rows.length > 2 * POINTS) this.rows = widen(this.rows, this.width *= 2);
      const isKept = Number.isInteger(reply.before), isWidened = this.width > reply.width;
      this.before = isKept && !isWidened ? reply.before : null;
      this.cursor = !isWidened ? reply.cursor : isKept ? null : alignCursor(reply.cursor, this.width); // null: from the start
      this.x = reply.x;
      if (reply.whole || old.length !== this.rows.length || String(old.slice(end)) !== String(this.rows.slice(end))) isNew = true;
      if (isNew) this.version++;
      if (reply.complete || this.cursor === cursor) return isNew;
    }
  }

  // Whether its rows were read, even if there are none.
  get isRead() { return this.rows.length > 0 || this.cursor !== null; }

  // Only iterations from range[0] to range[1], finer; null: all.
  setRange(range) {
    Object.assign(this, {range, rows: [], cursor: null, before: null, width: 1, version: this.version + 1});
  }
}

// Of attempts that did an iteration again, the last one counts.
function current(rows) {
  const out = [];
  let from = Infinity, first = Infinity, attempt = 0;
  for (let i = rows.length - 1; i >= 0; i--) {
    if (rows[i][ATTEMPT] !== attempt) {
      attempt = rows[i][ATTEMPT];
      from = first;
    }
    if (rows[i][FIRST] >= from) continue;
    first = Math.min(first, rows[i][FIRST]);
    out.push(rows[i]);
  }
  return out.reverse();
}

// How many samples the job has read by an iteration: `sums` at `it`, straight
// between them. Of a row whose last iterations a later attempt does again, the
// part before those counts.
function samplesBy(all) {
  const rows = current(all), by = {it: [], sums: []};
  let sum = 0;
  const put = (it) => { by.it.push(it); by.sums.push(sum); };
  rows.forEach((r, i) => {
    const begin = r[FIRST] - 1, next = i + 1 < rows.length ? rows[i + 1][FIRST] - 1 : Infinity, end = Math.min(r[LAST], next);
    if (i === 0 || begin > by.it[by.it.length - 1]) put(begin);
    sum += r[SAMPLES] * (end - begin) / (r[LAST] - begin);
    put(end);
  });
  return by;
}

// What the iterations of a job are on another axis: the rows of a feed whose x is
// the iteration. `counted` are those of SAMPLES_OF, with the samples of all ranks;
// they may be thinned in another way.
export class Scale {
  constructor(rows, counted = []) {
    const all = current(rows);
    this.rows = all;
    this.it = all.map((r) => r[LAST]);
    const start = all.find((r) => r[TIME] !== null);
    this.t0 = start ? start[TIME] : null;
    this.samples = samplesBy(counted);
    this.epochs(all);
  }

  // Where each epoch begins and how many iterations it has; of the last one, as
  // many as the one before.
  epochs(all) {
    this.begins = new Map();
    this.ends = new Map();
    for (const r of all) {
      if (r[EPOCH] === null) continue;
      if (!this.begins.has(r[EPOCH])) this.begins.set(r[EPOCH], this.begins.size === 0 ? r[FIRST] - 1 : this.lastOf(r[EPOCH] - 1, r[FIRST] - 1));
      this.ends.set(r[EPOCH], r[LAST]);
    }
  }

  lastOf(epoch, otherwise) { return this.ends.get(epoch) ?? otherwise; }

  epochAt(it, epoch) {
    const begin = this.begins.get(epoch);
    if (begin === undefined) return NaN;
    const own = this.ends.get(epoch) - begin, before = this.ends.get(epoch - 1) - this.begins.get(epoch - 1);
    const isLast = !this.begins.has(epoch + 1);
    const length = isLast && before > own ? before : own;
    return epoch - 1 + Math.min(1, (it - begin) / Math.max(1, length));
  }

  // Between two rows the axis is straight.
  between(it, of, xs = this.it) {
    if (xs.length === 0) return NaN;
    let lo = 0, hi = xs.length - 1;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (xs[mid] < it) lo = mid + 1;
      else hi = mid;
    }
    if (lo === 0 || xs[lo] <= it) return of(lo);
    const a = of(lo - 1), b = of(lo);
    return a + (b - a) * (it - xs[lo - 1]) / (xs[lo] - xs[lo - 1]);
  }

  // The x of an iteration on an axis; NaN: not known.
  at(axis, it) {
    if (axis === 'iteration') return it;
    if (axis === 'time') return this.t0 === null ? NaN : this.between(it, (i) => (this.rows[i][TIME] ?? NaN) - this.t0);
    if (axis === 'samples') return this.hasSamples ? Math.round(this.between(it, (i) => this.samples.sums[i], this.samples.it)) : NaN;
    return this.between(it, (i) => this.epochAt(this.rows[i][LAST], this.rows[i][EPOCH]));
  }

  get hasSamples() { return this.samples.sums.length > 0 && this.samples.sums[this.samples.sums.length - 1] > 0; }

  // Whether the ends of epochs are known.
  get hasEpochs() { return this.ends.size > 0; }

  // The x of the end of an epoch. Rows that stand for many iterations may have
  // no end of an epoch; it is then between those that are known.
  atEpoch(axis, epoch) {
    if (axis === 'epoch') return epoch;
    let [before, from] = [0, this.rows.length > 0 ? this.rows[0][FIRST] - 1 : NaN];
    for (const [known, it] of this.ends) {
      if (known >= epoch) return this.at(axis, from + (it - from) * (epoch - before) / (known - before));
      [before, from] = [known, it];
    }
    return NaN;
  }

  // The iteration nearest to an x of an axis.
  iterationAt(axis, x) {
    if (axis === 'iteration' || this.it.length === 0) return x;
    let best = this.it[0], away = Infinity;
    for (const it of this.it) {
      const d = Math.abs(this.at(axis, it) - x);
      if (d < away) [best, away] = [it, d];
    }
    return best;
  }
}

// Whether rows without a number are gaps. If most are, and they take turns with
// numbers, the job reports the curve now and then.
function hasGaps(rows) {
  let n = 0, none = 0, run = 0, longest = 0;
  for (const r of rows) {
    n += r[N];
    none += r[NONE];
    run = r[NONE] === r[N] ? run + r[N] : 0;
    longest = Math.max(longest, run);
  }
  return none < n && (2 * none <= n || 2 * longest >= none);
}

// Whether a feed can be drawn on the axis of epochs alone: the iteration of no
// epoch's end is known.
export function isEpochOnly(feed, scale) {
  return feed.x === 'epoch' && feed.rows.length > 0 && !scale.hasEpochs;
}

// The last value of a row; if that is not finite, the middle of those that are.
function valueOf(r) {
  if (typeof r[VALUE] === 'number') return r[VALUE];
  return r[MIN] !== null ? (r[MIN] + r[MAX]) / 2 : NaN;
}

// The data of a series of chart.js.
export function dataOf(feed, axis, scale) {
  const rows = current(feed.rows), isGap = hasGaps(rows), d = {odd: new Uint8Array(rows.length)};
  for (const key of ['x', 'y', 'lo', 'hi', 'n']) d[key] = new Float64Array(rows.length);
  let n = 0;
  for (const r of rows) {
    const x = feed.x === 'epoch' ? scale.atEpoch(axis, r[LAST]) : scale.at(axis, r[LAST]);
    if (!Number.isFinite(x) || (n > 0 && x < d.x[n - 1]) || (!isGap && r[NONE] === r[N])) continue;
    d.x[n] = x;
    d.y[n] = valueOf(r);
    d.lo[n] = r[MIN] ?? NaN;
    d.hi[n] = r[MAX] ?? NaN;
    d.odd[n] = (r[PLUS_INF] ? ODD.PLUS_INF : 0) | (r[MINUS_INF] ? ODD.MINUS_INF : 0) | (isGap && r[NONE] ? ODD.NONE : 0);
    d.n[n++] = r[N];
  }
  for (const key of Object.keys(d)) d[key] = d[key].subarray(0, n);
  return d;
}

// What the last value of a row is if it is no number; null: it is one.
function oddText(row) {
  if (typeof row[VALUE] === 'number') return null;
  return row[VALUE] === null ? 'not a number' : row[VALUE] === 'Infinity' ? 'infinite' : '-infinite';
}

// {first, lowest, highest, n} of the finite values, and `last`, which is a text
// if the last value is not finite; null: there are no finite ones.
export function figuresOf(all) {
  let f = null;
  const rows = current(all), isGap = hasGaps(rows);
  for (const r of rows) {
    const odd = r[VALUE] === null && !isGap ? null : oddText(r); // it may have been left out
    if (f && odd) f.last = odd;
    if (r[MIN] === null) continue;
    if (!f) f = {first: valueOf(r), lowest: r[MIN], highest: r[MAX], n: 0};
    f.last = odd ?? valueOf(r);
    f.lowest = Math.min(f.lowest, r[MIN]);
    f.highest = Math.max(f.highest, r[MAX]);
    f.n += r[N];
  }
  return f;
}

// Where attempts begin, but the first: [{x, text}].
export function marksOf(scale, axis, attempts) {
  const seen = new Set(), marks = [];
  for (const r of scale.rows) {
    if (seen.has(r[ATTEMPT])) continue;
    seen.add(r[ATTEMPT]);
    if (seen.size === 1) continue;
    const a = (attempts || []).find((one) => one.attempt === r[ATTEMPT]);
    const text = a && a.resized_from ? `${a.resized_from} to ${a.gpus} GPUs` : `attempt ${r[ATTEMPT]}`;
    marks.push({x: scale.at(axis, r[FIRST]), text});
  }
  return marks.filter((m) => Number.isFinite(m.x));
}
