// parallel.js - parallel coordinates: a line for each job through its value on
// each axis. A drag along an axis sets bounds, a click clears them. With the focus
// on an axis the arrow keys move its lower bound, with Shift its upper one, and
// Escape clears both.
//
// The lines are on a canvas, all text is of elements. What is wider than the page
// scrolls in a box of its own.
import {boundOf, placeOf, rangeOf, stepsOf, valueAt, withinOf} from './axes.js';
import {lineStyle} from '../chart.js';
import {el, fill, perFrame, setText} from '../dom.js';
import {linearTicks, logTicks, number, tickText} from '../format.js';

const GAP = 128, SIDE = 60, TOP = 46, HEIGHT = 240, NONE = 24, BOTTOM = 22; // px
const DRAG_PX = 4, NEAR_PX = 7, TICKS = 5, TEXTS_SHOWN = 12, KEY_STEPS = 50, DASHES_MOST = 200;

export class Parallel {
  // bounds: a map of bounds by the axis' key. onBounds(): the reader changed it.
  constructor(bounds, onBounds) {
    Object.assign(this, {bounds, onBounds, jobs: [], axes: [], within: [], parts: [], near: -1});
    this.canvas = el('canvas', {'aria-hidden': 'true'});
    this.marks = el('div');
    this.field = el('div', {class: 'parallel-field', style: {height: `${TOP + HEIGHT + NONE + BOTTOM}px`}}, this.canvas, this.marks);
    this.box = el('div', {class: 'scroll parallel', tabindex: '0', role: 'region', 'aria-label': 'Parallel coordinates'}, this.field);
    this.tip = el('p', {class: 'parallel-tip quiet'});
    this.el = el('div', null, this.box, this.tip);
    this.draw = perFrame(() => this.paint());
    this.resizes = new ResizeObserver(() => this.draw());
    this.resizes.observe(this.box);
    this.query = matchMedia('(prefers-color-scheme: dark)');
    this.query.addEventListener('change', this.draw);
    this.field.addEventListener('pointermove', (e) => this.pointAt(e));
    this.field.addEventListener('pointerleave', () => this.setNear(-1));
  }

  end() {
    this.draw.cancel();
    this.resizes.disconnect();
    this.query.removeEventListener('change', this.draw);
  }

  // jobs: [{name, style}]; the axes have a value for each of them.
  set(jobs, axes) {
    const key = JSON.stringify(axes.map((a) => [a.key, a.title, a.lo, a.hi, a.isLog, a.texts, a.values.includes(null)]));
    this.jobs = jobs;
    this.axes = axes;
    if (key !== this.key) {
      const focused = this.parts.find((p) => p.el === document.activeElement);
      this.key = key;
      this.parts = axes.map((axis) => this.partOf(axis));
      fill(this.marks, this.parts.map((p) => p.el));
      const again = focused && this.parts.find((p) => p.axis.key === focused.axis.key);
      if (again) again.el.focus({preventScroll: true});
    }
    this.parts.forEach((p, k) => { p.axis = axes[k]; });
    this.update();
  }

  // After a change of bounds.
  update() {
    this.within = withinOf(this.axes, this.bounds, this.jobs.length);
    for (const p of this.parts) this.showBound(p);
    this.draw();
  }

  // ---- axes ---------------------------------------------------------------------

  partOf(axis) {
    const brush = el('div', {class: 'parallel-brush', hidden: true}), part = {axis, brush, drag: null};
    part.el = el('div', {class: 'parallel-axis', tabindex: '0', role: 'slider', 'aria-orientation': 'vertical', 'aria-label': axis.title, 'data-axis': axis.key},
      el('div', {class: 'parallel-title', title: axis.title}, axis.title),
      el('div', {class: 'parallel-line', style: {top: `${TOP}px`, height: `${HEIGHT}px`}}, brush, this.ticksOf(axis)),
      axis.values.includes(null) ? el('div', {class: 'parallel-none', style: {top: `${TOP + HEIGHT + NONE}px`}}, 'none') : null);
    part.el.addEventListener('keydown', (e) => { if (this.onKey(part, e)) { e.preventDefault(); e.stopPropagation(); } });
    part.el.addEventListener('pointerdown', (e) => this.onDown(part, e));
    part.el.addEventListener('pointermove', (e) => this.onMove(part, e));
    part.el.addEventListener('pointerup', () => this.onUp(part));
    part.el.addEventListener('pointercancel', () => { part.drag = null; });
    return part;
  }

  ticksOf(axis) {
    const tick = (v, text) => el('span', {class: 'parallel-tick', title: text, style: {top: `${(1 - placeOf(axis, v)) * HEIGHT}px`}}, text);
    if (axis.texts) {
      const every = Math.ceil(axis.texts.length / TEXTS_SHOWN);
      return axis.texts.map((t, i) => (i % every === 0 ? tick(i, t) : null));
    }
    if (!(axis.hi >= axis.lo)) return null; // no job has a value
    if (axis.hi === axis.lo) return tick(axis.lo, number(axis.lo));
    const {ticks, step} = axis.isLog ? logTicks(axis.lo, axis.hi, TICKS) : linearTicks(axis.lo, axis.hi, TICKS, false);
    return ticks.map((v) => tick(v, tickText(v, step)));
  }

  valueText(axis, v) { return axis.texts ? axis.texts[v] : number(v); }

  showBound(part) {
    const {axis} = part, range = rangeOf(axis, this.bounds.get(axis.key)), n = this.within.filter(Boolean).length;
    part.brush.hidden = !range;
    if (range) {
      const [low, high] = range.map((v) => placeOf(axis, v) * HEIGHT);
      part.brush.style.bottom = `${low - 3}px`;
      part.brush.style.height = `${high - low + 6}px`;
    }
    const text = range ? `${this.valueText(axis, range[0])} to ${this.valueText(axis, range[1])}, ${n} of ${this.jobs.length} jobs are within all bounds` : 'all';
    const attrs = {'aria-valuetext': text, 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuenow': Math.round(100 * (range ? placeOf(axis, range[0]) : 0))};
    for (const [name, v] of Object.entries(attrs)) if (part.el.getAttribute(name) !== String(v)) part.el.setAttribute(name, v);
  }

  bind(part, range) {
    if (range) this.bounds.set(part.axis.key, boundOf(part.axis, range));
    else this.bounds.delete(part.axis.key);
    this.update();
    this.onBounds();
  }

  // ---- keys and pointer -----------------------------------------------------------

  onKey(part, e) {
    const {axis} = part, range = rangeOf(axis, this.bounds.get(axis.key));
    if (e.ctrlKey || e.altKey || e.metaKey) return false;
    if (e.key === 'Escape' && range) return this.bind(part, null), true;
    const by = e.key === 'ArrowUp' ? 1 : e.key === 'ArrowDown' ? -1 : 0, steps = by === 0 ? [] : stepsOf(axis);
    if (steps.length === 0) return false;
    const most = steps.length - 1, jump = by * Math.max(1, Math.round(steps.length / KEY_STEPS));
    let [low, high] = [0, most];
    if (range) {
      low = steps.findIndex((s) => s >= range[0]);
      high = steps.findLastIndex((s) => s <= range[1]);
      if (low < 0) low = most;
    }
    if (e.shiftKey) high = Math.min(most, Math.max(low, high + jump));
    else low = Math.max(0, Math.min(high, low + jump));
    this.bind(part, low === 0 && high === most ? null : [steps[low], steps[Math.max(low, high)]]);
    return true;
  }

  placeAt(part, e) { return 1 - (e.clientY - part.el.getBoundingClientRect().top - TOP) / HEIGHT; }

  onDown(part, e) {
    if (e.button !== 0) return;
    part.el.setPointerCapture(e.pointerId);
    part.drag = {y: e.clientY, from: this.placeAt(part, e), isMoved: false};
  }

  onMove(part, e) {
    const {drag, axis} = part;
    if (!drag || (!drag.isMoved && Math.abs(e.clientY - drag.y) < DRAG_PX) || !(axis.hi >= axis.lo)) return;
    drag.isMoved = true;
    this.bind(part, [valueAt(axis, drag.from), valueAt(axis, this.placeAt(part, e))]);
  }

  onUp(part) {
    const {drag} = part;
    part.drag = null;
    if (drag && !drag.isMoved && this.bounds.has(part.axis.key)) this.bind(part, null);
  }

  // ---- lines ----------------------------------------------------------------------

  y(axis, i) {
    const v = axis.values[i];
    return v === null ? TOP + HEIGHT + NONE : TOP + (1 - placeOf(axis, v)) * HEIGHT;
  }

  size() {
    const ratio = window.devicePixelRatio || 1, n = Math.max(2, this.axes.length), height = TOP + HEIGHT + NONE + BOTTOM;
    this.gap = Math.max(GAP, (this.box.clientWidth - 2 * SIDE) / (n - 1));
    const width = Math.floor(2 * SIDE + this.gap * (n - 1));
    this.field.style.width = `${width}px`;
    this.parts.forEach((p, k) => { p.el.style.left = `${SIDE + k * this.gap}px`; });
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    return {ratio, width, height};
  }

  paint() {
    if (this.box.clientWidth === 0) return;
    const {ratio, width, height} = this.size();
    const g = this.canvas.getContext('2d'), inside = this.within.filter(Boolean).length;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.lineJoin = 'round';
    this.paintLines(g, false, 0.08, 1);
    this.paintLines(g, true, inside > 200 ? 0.35 : inside > 50 ? 0.6 : 0.9, inside > 50 ? 1 : 1.5);
    g.globalAlpha = 1;
    if (this.jobs[this.near]) this.paintLine(g, this.near, 3.5);
    this.el.dataset.drawn = `${inside} of ${this.jobs.length}`;
  }

  paintLines(g, isWithin, alpha, width) {
    g.globalAlpha = alpha;
    for (let i = 0; i < this.jobs.length; i++) if (this.within[i] === isWithin) this.paintLine(g, i, width);
  }

  paintLine(g, i, width) {
    const style = lineStyle(this.jobs[i].style);
    g.strokeStyle = style.color;
    g.lineWidth = width;
    g.setLineDash(this.jobs.length > DASHES_MOST ? [] : style.dash); // they take long
    g.beginPath();
    this.axes.forEach((a, k) => g.lineTo(SIDE + k * this.gap, this.y(a, i)));
    g.stroke();
    g.setLineDash([]);
  }

  // ---- the line at the pointer ------------------------------------------------------

  pointAt(e) {
    const box = this.field.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
    const at = (x - SIDE) / (this.gap || 1), k = Math.floor(at), [a, b] = [this.axes[k], this.axes[k + 1]];
    let near = -1, away = NEAR_PX;
    for (let i = 0; a && b && i < this.jobs.length; i++) {
      const from = this.y(a, i), d = Math.abs(from + (this.y(b, i) - from) * (at - k) - y);
      if (this.within[i] && d < away) [near, away] = [i, d];
    }
    this.setNear(near);
  }

  setNear(near) {
    if (near === this.near) return;
    this.near = near;
    setText(this.tip, this.jobs[near] ? `${this.jobs[near].name}: ${this.axes.map((a) =>
      `${a.title} ${a.values[near] === null ? 'none' : this.valueText(a, a.values[near])}`).join(', ')}` : '');
    this.draw();
  }
}
