// chart.js - curves on a canvas.
//
// A chart has two canvases: the lower one has the axes and the curves, the
// upper one what follows the pointer, so that a move of the pointer draws no
// curve again. Both are drawn at most once a frame; many points are drawn in
// several frames, on a third canvas that is copied in the end. A series is
//   {key, name, color, data: {x, y, lo, hi, odd, n}}
// of arrays in the order of x: y is NaN where the curve has a gap, lo and hi are
// the least and the greatest value that a point stands for, odd has the bits of
// ODD. Keys: arrows move the crosshair, + and - zoom, Escape shows all.
import {el, fill, perFrame, setText, table} from './dom.js';
import {count, duration, linearTicks, logTicks, number, tickText} from './format.js';

export const ODD = {PLUS_INF: 1, MINUS_INF: 2, NONE: 4};
const oddTexts = (odd) => [[ODD.PLUS_INF, 'infinite'], [ODD.MINUS_INF, '-infinite'], [ODD.NONE, 'not a number']].filter(([bit]) => odd & bit).map(([, text]) => text);

const PAD = {left: 62, right: 14, top: 12, bottom: 34};
const FONT = '12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const TIP_MOST = 12, TABLE_MOST = 200, BANDS_MOST = 8, DRAG_PX = 5, AT_ONCE = 4000, SLICE_MS = 12;
// A contrast of 3:1 and more on white, and on the dark background.
const LIGHT = ['#1553c4', '#b8560a', '#1f7a3d', '#8a3fb0', '#b3141d', '#0d7a80', '#8a6d00', '#c2337f', '#4f5d75', '#6b4226'];
const DARK = ['#8ab4ff', '#ffab5e', '#6fd08c', '#cf9cf0', '#ff8f92', '#5cd0d2', '#e8c84a', '#ff93c6', '#b4c0d4', '#d3a782'];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

const darkQuery = matchMedia('(prefers-color-scheme: dark)');

// The colour and the dash of the i-th curve.
export function lineStyle(i) {
  const colors = darkQuery.matches ? DARK : LIGHT;
  return {color: colors[i % colors.length], dash: DASHES[Math.floor(i / colors.length) % DASHES.length]};
}

// The index of the value nearest to x among ascending ones; -1: there are none.
export function nearestIndex(xs, x) {
  let lo = 0, hi = xs.length - 1;
  while (hi - lo > 1) {
    const mid = (lo + hi) >> 1;
    if (xs[mid] <= x) lo = mid;
    else hi = mid;
  }
  return hi < 0 ? -1 : Math.abs(xs[hi] - x) < Math.abs(xs[lo] - x) ? hi : lo;
}

// Exponential smoothing: each value is `weight` of the one before and the rest
// of the new one, without the pull to 0 at the beginning. Gaps stay.
export function smoothed(y, weight) {
  const out = new Float64Array(y.length);
  let sum = 0, share = 1;
  for (let i = 0; i < y.length; i++) {
    if (Number.isNaN(y[i])) { out[i] = NaN; continue; }
    sum = weight * sum + (1 - weight) * y[i];
    share *= weight;
    out[i] = sum / (1 - share);
  }
  return out;
}

export class Chart {
  // options: {title, xName, isTime, onZoom(range or null)}
  constructor(options) {
    this.options = options;
    this.series = [];
    this.marks = [];
    this.hidden = new Set();
    this.faded = new Set(); // keys of curves that are pale
    this.zoom = null;    // [from, to] of x; null: all
    this.isLog = false;
    this.smooth = 0;
    this.cross = null;   // {x, y} in pixels, or {x: value, isKey: true}
    this.drag = null;    // [from, to] in pixels
    this.base = el('canvas', {class: 'chart-base', 'aria-hidden': 'true'});
    this.back = el('canvas');
    this.over = el('canvas', {class: 'chart-over', tabindex: '0', role: 'img', 'aria-label': options.title});
    this.tip = el('div', {class: 'chart-tip', hidden: true});
    this.place = el('div', {class: 'chart-place'}, this.base, this.over, this.tip);
    this.legend = el('div', {class: 'chart-legend'});
    this.said = el('p', {class: 'chart-said', 'aria-live': 'polite'});
    this.values = el('details', {class: 'chart-values'}, el('summary', null, 'Values as a table'), el('div'));
    this.head = el('h3', null, options.title);
    this.el = el('figure', {class: 'chart', 'data-chart': options.title}, this.head, this.place, this.legend, this.said, this.values);
    this.draw = perFrame(() => this.paint());
    this.drawOver = perFrame(() => this.paintOver());
    this.listen();
  }

  // ---- what is shown ----------------------------------------------------------

  setSeries(series, marks) {
    this.series = series;
    this.marks = marks || [];
    for (const s of series) s.soft = null;
    this.fillLegend();
    this.draw();
  }

  // {xName, isTime, isLog, smooth, zoom}; what is left out stays.
  set(changes) {
    if ('xName' in changes) this.options.xName = changes.xName;
    if ('isTime' in changes) this.options.isTime = changes.isTime;
    if ('isLog' in changes) this.isLog = changes.isLog;
    if ('smooth' in changes) {
      this.smooth = changes.smooth;
      for (const s of this.series) s.soft = null;
    }
    if ('zoom' in changes) this.zoom = changes.zoom;
    this.draw();
  }

  end() {
    this.ended = true;
    this.draw.cancel();
    this.drawOver.cancel();
    cancelAnimationFrame(this.slice);
    this.resizes.disconnect();
    darkQuery.removeEventListener('change', this.onScheme);
  }

  shown() {
    return this.series.filter((s) => !this.hidden.has(s.key) && s.data.x.length > 0);
  }

  lineOf(s) {
    return s.smoothOff || !(this.smooth > 0) ? s.data.y : s.soft || (s.soft = smoothed(s.data.y, this.smooth));
  }

  fillLegend() {
    const key = this.series.map((s) => `${s.key}\n${s.name}`).join('\n') + darkQuery.matches + [...this.hidden].join();
    if (key === this.legendKey) return;
    this.legendKey = key;
    fill(this.legend, this.series.length < 2 ? null : this.series.map((s, i) => el('button', {
      class: 'small', type: 'button', 'aria-pressed': String(!this.hidden.has(s.key)),
      on: {click: () => {
        if (!this.hidden.delete(s.key)) this.hidden.add(s.key);
        this.fillLegend();
        this.legend.children[i].focus();
        this.draw();
      }},
    }, el('span', {class: 'swatch', style: {background: lineStyle(s.style ?? i).color}}), s.name)));
  }

  // ---- scales -----------------------------------------------------------------

  fit() {
    const shown = this.shown();
    let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity, least = Infinity;
    for (const s of shown) {
      x0 = Math.min(x0, s.data.x[0]);
      x1 = Math.max(x1, s.data.x[s.data.x.length - 1]);
    }
    if (this.zoom) [x0, x1] = this.zoom;
    for (const {data} of shown)
      for (let i = 0; i < data.x.length; i++) {
        if (data.x[i] < x0 || data.x[i] > x1 || Number.isNaN(data.lo[i])) continue;
        y0 = Math.min(y0, data.lo[i]);
        y1 = Math.max(y1, data.hi[i]);
        if (data.lo[i] > 0) least = Math.min(least, data.lo[i]);
        else if (data.hi[i] > 0) least = Math.min(least, data.hi[i]);
      }
    if (!(x1 >= x0)) [x0, x1] = [0, 1];
    if (x1 === x0) [x0, x1] = [x0 - 0.5, x1 + 0.5];
    this.usesLog = this.isLog && y1 > 0 && least < Infinity;
    if (this.usesLog) {
      const a = Math.log10(least), b = Math.log10(y1), pad = (b - a) * 0.04 || 0.3;
      [y0, y1] = [10 ** (a - pad), 10 ** (b + pad)];
    } else if (y1 >= y0) {
      const pad = (y1 - y0) * 0.05 || Math.abs(y0) * 0.1 || 1;
      [y0, y1] = [y0 >= 0 && y0 < pad ? 0 : y0 - pad, y1 + pad];
    } else {
      [y0, y1] = [0, 1];
    }
    Object.assign(this, {x0, x1, y0, y1, log0: Math.log10(y0), log1: Math.log10(y1)});
    this.w = this.width - PAD.left - PAD.right;
    this.h = this.height - PAD.top - PAD.bottom;
  }

  px(x) { return PAD.left + (x - this.x0) / (this.x1 - this.x0) * this.w; }

  py(y) {
    const f = this.usesLog ? (Math.log10(y) - this.log0) / (this.log1 - this.log0) : (y - this.y0) / (this.y1 - this.y0);
    return PAD.top + (1 - f) * this.h;
  }

  xAt(px) { return this.x0 + (px - PAD.left) / this.w * (this.x1 - this.x0); }

  isDrawn(y) { return !Number.isNaN(y) && (!this.usesLog || y > 0); }

  xText(x) {
    if (this.options.isTime) return duration(x);
    return Number.isInteger(x) ? count(x) : number(x);
  }

  // ---- drawing ----------------------------------------------------------------

  size() {
    const ratio = window.devicePixelRatio || 1, width = this.place.clientWidth, height = this.place.clientHeight;
    if (width < 60 || height < 60) return null;
    for (const c of [this.base, this.back, this.over])
      if (c.width !== Math.round(width * ratio) || c.height !== Math.round(height * ratio)) {
        c.width = Math.round(width * ratio);
        c.height = Math.round(height * ratio);
      }
    this.width = width;
    this.height = height;
    return ratio;
  }

  paint() {
    this.isLate = this.slice > 0; // then it is drawn once more
    const ratio = this.ended || this.isLate ? null : this.size();
    if (!ratio) return;
    const css = getComputedStyle(document.documentElement), color = (name) => css.getPropertyValue(name).trim();
    this.colors = {text: color('--text'), quiet: color('--quiet'), line: color('--line'), bg: color('--bg'), bad: color('--bad')};
    this.fit();
    const shown = this.shown(), isMuch = shown.reduce((n, s) => n + s.data.x.length, 0) > AT_ONCE;
    const g = isMuch ? this.back.getContext('2d', {willReadFrequently: true}) : this.base.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    g.font = FONT;
    this.paintAxes(g);
    this.paintCurves(g, shown, 0);
  }

  // From the i-th curve on: as many as a frame has time for; the others in the next.
  paintCurves(g, shown, i) {
    g.save();
    g.beginPath();
    g.rect(PAD.left, PAD.top, this.w, this.h);
    g.clip();
    if (i === 0) this.paintMarks(g);
    const until = g.canvas === this.base ? Infinity : performance.now() + SLICE_MS;
    while (i < shown.length && performance.now() < until) {
      this.paintCurve(g, shown[i++], shown.length);
      if (until < Infinity) g.getImageData(0, 0, 1, 1); // else the browser draws all of them with the last one
    }
    g.restore();
    this.slice = 0;
    if (i < shown.length) {
      this.slice = requestAnimationFrame(() => this.paintCurves(g, shown, i));
      return;
    }
    shown.forEach((s) => this.paintOdd(g, s));
    if (shown.length === 0) {
      g.fillStyle = this.colors.quiet;
      g.textAlign = 'center';
      g.fillText('No values yet', PAD.left + this.w / 2, PAD.top + this.h / 2);
    }
    if (g.canvas === this.back) {
      const to = this.base.getContext('2d');
      to.setTransform(1, 0, 0, 1, 0, 0);
      to.clearRect(0, 0, this.base.width, this.base.height);
      to.drawImage(this.back, 0, 0);
    }
    this.summarize();
    this.paintOver();
    if (this.isLate) this.draw();
    if (this.values.open) this.fillTable();
  }

  paintAxes(g) {
    const c = this.colors, nx = Math.max(2, Math.floor(this.w / 90)), ny = Math.max(2, Math.floor(this.h / 40));
    const xs = linearTicks(this.x0, this.x1, nx, this.options.isTime);
    const ys = this.usesLog ? logTicks(this.y0, this.y1, ny) : linearTicks(this.y0, this.y1, ny, false);
    g.lineWidth = 1;
    g.strokeStyle = c.line;
    g.fillStyle = c.quiet;
    g.textBaseline = 'middle';
    g.textAlign = 'right';
    for (const y of ys.ticks) {
      const p = Math.round(this.py(y)) + 0.5;
      g.beginPath();
      g.moveTo(PAD.left, p);
      g.lineTo(PAD.left + this.w, p);
      g.stroke();
      g.fillText(tickText(y, ys.step), PAD.left - 6, p);
    }
    g.textBaseline = 'top';
    g.textAlign = 'center';
    for (const x of xs.ticks) {
      const text = this.options.isTime ? duration(x) : tickText(x, xs.step), half = g.measureText(text).width / 2;
      g.fillText(text, Math.min(this.px(x), this.width - half - 2), PAD.top + this.h + 5);
    }
    g.textAlign = 'right';
    g.fillText(this.options.xName || '', this.width - PAD.right, PAD.top + this.h + 19);
    g.strokeStyle = c.quiet;
    g.strokeRect(PAD.left + 0.5, PAD.top + 0.5, this.w - 1, this.h - 1);
  }

  paintMarks(g) {
    g.save();
    g.setLineDash([3, 3]);
    g.strokeStyle = this.colors.quiet;
    g.fillStyle = this.colors.quiet;
    g.textAlign = 'left';
    g.textBaseline = 'top';
    let right = -Infinity;
    for (const m of this.marks) {
      if (m.x < this.x0 || m.x > this.x1) continue;
      const p = Math.round(this.px(m.x)) + 0.5;
      g.beginPath();
      g.moveTo(p, PAD.top);
      g.lineTo(p, PAD.top + this.h);
      g.stroke();
      if (p < right) continue;
      g.fillText(m.text, p + 4, PAD.top + 3);
      right = p + 8 + g.measureText(m.text).width;
    }
    g.restore();
  }

  // The part of the curve that is in view, and a point on each side.
  part(data) {
    let from = 0, to = data.x.length;
    while (from + 1 < to && data.x[from + 1] < this.x0) from++;
    while (to - 1 > from && data.x[to - 2] > this.x1) to--;
    return [from, to];
  }

  paintCurve(g, s, n) {
    const {data} = s, [from, to] = this.part(data), style = lineStyle(s.style ?? this.series.indexOf(s));
    const line = this.lineOf(s), isSoft = line !== data.y;
    g.strokeStyle = g.fillStyle = style.color;
    g.lineJoin = 'round';
    const isFaded = this.faded.has(s.key);
    if (n <= BANDS_MOST && !isFaded) this.paintBand(g, data, from, to, isSoft ? 0.1 : 0.2);
    if (isSoft && n <= 2 * BANDS_MOST && !isFaded) {
      g.globalAlpha = 0.3;
      g.lineWidth = 1;
      this.paintLine(g, data.x, data.y, from, to);
    }
    g.globalAlpha = isFaded ? 0.1 : 1;
    g.lineWidth = n > 12 ? 1.2 : 1.7;
    // A line that turns at each pixel shows no dashes, which take most of the time.
    g.setLineDash(isSoft || (to - from) * 4 < this.w ? style.dash : []);
    this.paintLine(g, data.x, line, from, to);
    g.setLineDash([]);
    g.globalAlpha = 1;
  }

  paintBand(g, data, from, to, alpha) {
    g.globalAlpha = alpha;
    const bottom = PAD.top + this.h;
    for (let i = from; i < to;) {
      while (i < to && !this.isDrawn(data.hi[i])) i++;
      let end = i;
      while (end < to && this.isDrawn(data.hi[end])) end++;
      if (end - i > 1) {
        g.beginPath();
        for (let k = i; k < end; k++) g.lineTo(this.px(data.x[k]), this.py(data.hi[k]));
        for (let k = end - 1; k >= i; k--) g.lineTo(this.px(data.x[k]), this.isDrawn(data.lo[k]) ? this.py(data.lo[k]) : bottom);
        g.fill();
      }
      i = end;
    }
    g.globalAlpha = 1;
  }

  paintLine(g, x, y, from, to) {
    const dots = [];
    g.beginPath();
    for (let i = from, isDown = false; i < to; i++) {
      if (!this.isDrawn(y[i])) { isDown = false; continue; }
      const px = this.px(x[i]), py = this.py(y[i]);
      if (isDown) g.lineTo(px, py);
      else g.moveTo(px, py);
      if (!isDown && (i + 1 >= to || !this.isDrawn(y[i + 1]))) dots.push([px, py]);
      isDown = true;
    }
    g.stroke();
    for (const [px, py] of dots) {
      g.beginPath();
      g.arc(px, py, 2.2, 0, 7);
      g.fill();
    }
    if (to - from <= 40) this.paintDots(g, x, y, from, to);
  }

  paintDots(g, x, y, from, to) {
    for (let i = from; i < to; i++) {
      if (!this.isDrawn(y[i])) continue;
      g.beginPath();
      g.arc(this.px(x[i]), this.py(y[i]), 2.2, 0, 7);
      g.fill();
    }
  }

  // Triangles at the end of the axis for infinities, crosses for no number.
  paintOdd(g, s) {
    const {data} = s, bottom = PAD.top + this.h;
    g.strokeStyle = g.fillStyle = lineStyle(s.style ?? this.series.indexOf(s)).color;
    g.lineWidth = 1.4;
    const triangle = (px, tip, base) => {
      g.beginPath();
      g.moveTo(px, tip);
      g.lineTo(px - 4.5, base);
      g.lineTo(px + 4.5, base);
      g.fill();
    };
    for (let i = 0; i < data.x.length; i++) {
      if (!data.odd[i] || data.x[i] < this.x0 || data.x[i] > this.x1) continue;
      const px = this.px(data.x[i]);
      if (data.odd[i] & ODD.PLUS_INF) triangle(px, PAD.top, PAD.top + 8);
      if (data.odd[i] & ODD.MINUS_INF) triangle(px, bottom, bottom - 8);
      if (data.odd[i] & ODD.NONE) {
        g.beginPath();
        for (const d of [-3, 3]) {
          g.moveTo(px - 3, bottom - 6 + d);
          g.lineTo(px + 3, bottom - 6 - d);
        }
        g.stroke();
      }
    }
  }

  // ---- what follows the pointer -------------------------------------------------

  // The points at the crosshair, and which of them is the nearest.
  pointsAt() {
    if (!this.cross) return [];
    const at = this.cross.isKey ? this.cross.x : this.xAt(this.cross.x), points = [];
    for (const s of this.shown()) {
      const i = nearestIndex(s.data.x, at);
      if (i < 0 || s.data.x[i] < this.x0 || s.data.x[i] > this.x1) continue;
      const y = this.lineOf(s)[i], px = this.px(s.data.x[i]);
      const py = this.isDrawn(y) ? this.py(y) : PAD.top + this.h;
      points.push({s, i, px, py, y, away: Math.hypot(px - (this.cross.isKey ? this.px(at) : this.cross.x), this.cross.isKey ? 0 : py - this.cross.y)});
    }
    return points.sort((a, b) => a.away - b.away);
  }

  valueText(p) {
    const d = p.s.data, odd = oddTexts(d.odd[p.i]);
    if (Number.isNaN(d.y[p.i])) return odd[0] || 'not a number';
    const isSoft = this.lineOf(p.s) !== d.y;
    const range = d.n[p.i] > 1 && d.lo[p.i] < d.hi[p.i] ? ` (${number(d.lo[p.i])} to ${number(d.hi[p.i])})` : '';
    return `${number(d.y[p.i])}${isSoft ? `, smoothed ${number(p.y)}` : ''}${range}${odd.length > 0 ? `, some ${odd.join(', ')}` : ''}`;
  }

  paintOver() {
    if (this.ended || !this.colors) return;
    const g = this.over.getContext('2d'), ratio = window.devicePixelRatio || 1;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    if (this.drag && Math.abs(this.drag[1] - this.drag[0]) > DRAG_PX) {
      g.fillStyle = this.colors.text;
      g.globalAlpha = 0.12;
      g.fillRect(Math.min(...this.drag), PAD.top, Math.abs(this.drag[1] - this.drag[0]), this.h);
      g.globalAlpha = 1;
    }
    const points = this.pointsAt(), first = points[0];
    this.tip.hidden = !first;
    if (!first) return;
    g.strokeStyle = this.colors.text;
    g.lineWidth = 1;
    g.setLineDash([4, 3]);
    g.beginPath();
    g.moveTo(first.px, PAD.top);
    g.lineTo(first.px, PAD.top + this.h);
    g.moveTo(PAD.left, first.py);
    g.lineTo(PAD.left + this.w, first.py);
    g.stroke();
    g.setLineDash([]);
    for (const p of points) {
      if (!this.isDrawn(p.y)) continue;
      g.fillStyle = lineStyle(p.s.style ?? this.series.indexOf(p.s)).color;
      g.beginPath();
      g.arc(p.px, p.py, p === first ? 4.5 : 3, 0, 7);
      g.fill();
    }
    this.fillTip(points);
  }

  fillTip(points) {
    const first = points[0], x = first.s.data.x[first.i];
    fill(this.tip, el('div', {class: 'quiet'}, `${this.options.xName || 'x'} ${this.xText(x)}`),
      points.slice(0, TIP_MOST).map((p) => el('div', {class: p === first ? 'chart-first' : null},
        el('span', {class: 'swatch', style: {background: lineStyle(p.s.style ?? this.series.indexOf(p.s)).color}}),
        this.series.length > 1 ? `${p.s.name}: ` : '', this.valueText(p))),
      points.length > TIP_MOST ? el('div', {class: 'quiet'}, `and ${points.length - TIP_MOST} more`) : null);
    const wide = this.tip.offsetWidth, left = first.px + 14 + wide > this.width ? first.px - 14 - wide : first.px + 14;
    this.tip.style.left = `${Math.max(0, Math.min(left, this.width - wide))}px`;
    this.tip.style.top = `${PAD.top + 4}px`;
    if (this.cross.isKey) setText(this.said, `${this.options.xName || ''} ${this.xText(x)}: ${first.s.name} ${this.valueText(first)}`);
  }

  // ---- for those who do not see it ----------------------------------------------

  summarize() {
    const parts = this.shown().slice(0, 5).map((s) => {
      const y = s.data.y.filter((v) => !Number.isNaN(v)), lo = s.data.lo.filter((v) => !Number.isNaN(v));
      if (y.length === 0) return `${s.name}: no numbers`;
      const d = s.data, end = d.y.length - 1, last = Number.isNaN(d.y[end]) ? this.valueText({s, i: end}) : number(d.y[end]);
      return `${s.name}: first ${number(y[0])}, last ${last}, lowest ${number(lo.reduce((a, b) => Math.min(a, b), Infinity))}`;
    });
    const n = this.shown().length;
    const text = `${this.options.title}, ${n} ${n === 1 ? 'curve' : 'curves'}${this.zoom ? `, ${this.xText(this.x0)} to ${this.xText(this.x1)}` : ''}. ${parts.join('; ')}`;
    if (this.over.getAttribute('aria-label') !== text) this.over.setAttribute('aria-label', text);
  }

  fillTable() {
    const rows = [];
    for (const s of this.shown()) {
      const [from, to] = this.part(s.data), every = Math.max(1, Math.ceil((to - from) / (TABLE_MOST / this.shown().length)));
      for (let i = from; i < to; i += every) rows.push({s, i, y: this.lineOf(s)[i]});
    }
    fill(this.values.lastChild, table([
      {title: 'Curve', of: (r) => r.s.name},
      {title: this.options.xName || 'x', right: true, of: (r) => this.xText(r.s.data.x[r.i])},
      {title: 'Value', right: true, of: (r) => this.valueText(r)},
    ], rows, {'aria-label': `Values of ${this.options.title}`}));
  }

  // ---- pointer and keys -----------------------------------------------------------

  zoomTo(range) {
    this.zoom = range;
    this.draw();
    if (this.options.onZoom) this.options.onZoom(range);
  }

  listen() {
    const at = (e) => {
      const box = this.over.getBoundingClientRect();
      return {x: Math.min(Math.max(e.clientX - box.left, PAD.left), PAD.left + (this.w || 0)), y: e.clientY - box.top};
    };
    this.over.addEventListener('pointermove', (e) => {
      this.cross = at(e);
      if (this.drag) this.drag[1] = this.cross.x;
      this.drawOver();
    });
    this.over.addEventListener('pointerleave', () => { if (!this.drag) this.leave(); });
    this.over.addEventListener('blur', () => this.leave());
    this.over.addEventListener('pointerdown', (e) => {
      if (e.button !== 0 || e.pointerType === 'touch') return;
      this.over.setPointerCapture(e.pointerId);
      this.drag = [at(e).x, at(e).x];
    });
    this.over.addEventListener('pointerup', () => {
      const drag = this.drag;
      this.drag = null;
      if (drag && Math.abs(drag[1] - drag[0]) > DRAG_PX) this.zoomTo(drag.map((p) => this.xAt(p)).sort((a, b) => a - b));
      else this.drawOver();
    });
    this.over.addEventListener('pointercancel', () => { this.drag = null; this.leave(); });
    this.over.addEventListener('dblclick', () => this.zoomTo(null));
    this.over.addEventListener('keydown', (e) => { if (this.onKey(e)) { e.preventDefault(); e.stopPropagation(); } });
    this.values.addEventListener('toggle', () => { if (this.values.open && this.colors) this.fillTable(); });
    this.resizes = new ResizeObserver(() => this.draw());
    this.resizes.observe(this.place);
    this.onScheme = () => { this.fillLegend(); this.draw(); };
    darkQuery.addEventListener('change', this.onScheme);
  }

  leave() {
    this.cross = null;
    this.drawOver();
  }

  onKey(e) {
    const xs = (this.shown()[0] || {data: {x: []}}).data.x;
    if (e.ctrlKey || e.altKey || e.metaKey || xs.length === 0 || !this.colors) return false;
    const now = this.cross ? (this.cross.isKey ? this.cross.x : this.xAt(this.cross.x)) : this.x1;
    let i = nearestIndex(xs, now);
    const step = e.shiftKey ? Math.max(1, Math.floor(xs.length / 20)) : 1, span = this.x1 - this.x0;
    if (e.key === 'ArrowLeft') i -= this.cross ? step : 0;
    else if (e.key === 'ArrowRight') i += this.cross ? step : 0;
    else if (e.key === 'Home') i = nearestIndex(xs, this.x0);
    else if (e.key === 'End') i = nearestIndex(xs, this.x1);
    else if (e.key === '+' || e.key === '=') return this.zoomTo([now - span / 4, now + span / 4]), true;
    else if (e.key === '-') return this.zoomOut(now, span), true;
    else if (e.key === 'Escape' && (this.zoom || this.cross)) return this.leave(), this.zoom && this.zoomTo(null), true;
    else return false;
    i = Math.min(xs.length - 1, Math.max(0, i));
    this.cross = {x: Math.min(this.x1, Math.max(this.x0, xs[i])), isKey: true};
    this.drawOver();
    return true;
  }

  zoomOut(now, span) {
    if (!this.zoom) return;
    const all = this.shown().map((s) => s.data.x), lo = Math.min(...all.map((x) => x[0])), hi = Math.max(...all.map((x) => x[x.length - 1]));
    this.zoomTo(2 * span >= hi - lo ? null : [Math.max(lo, now - span), Math.min(hi, now + span)]);
  }
}
