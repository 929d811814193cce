// gantt.js - a canvas with a line for each GPU and a bar for each time in which
// a job had it.
import {el, setText} from './dom.js';
import {duration, jobColor, moment, percent} from './format.js';

// A canvas may have 32,767 pixels, of which a screen can take two for one.
const HIGHEST = 15000, LINE = 16, LABELLED = 11, AXIS = 22, NODE_GAP = 6, FONT = '12px system-ui, "DejaVu Sans", sans-serif';
const STEPS_S = [60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

export class Gantt {
  // onOpen(hold): a bar was chosen.
  constructor(onOpen) {
    this.canvas = el('canvas', {class: 'gantt', role: 'img', 'aria-label': 'Who had which GPU; the table below says the same'});
    this.tip = el('p', {class: 'quiet gantt-tip', 'aria-live': 'off'}, 'Point at a bar to see its job.');
    this.el = el('div', null, this.canvas, this.tip);
    this.lines = [];
    this.canvas.addEventListener('pointermove', (e) => this.point(e));
    this.canvas.addEventListener('pointerleave', () => setText(this.tip, 'Point at a bar to see its job.'));
    this.canvas.addEventListener('click', (e) => {
      const hold = this.at(e);
      if (hold) onOpen(hold);
    });
  }

  // gpus: the reply of /v1/gpus.
  show(gpus) {
    this.fromMs = Date.parse(gpus.since);
    this.toMs = Math.max(Date.parse(gpus.until), this.fromMs + 1000);
    const byGpu = new Map();
    for (const h of gpus.holds)
      for (const g of h.gpus) {
        const key = `${h.node}\n${g}`;
        if (!byGpu.has(key)) byGpu.set(key, []);
        byGpu.get(key).push({hold: h, from: Math.max(Date.parse(h.from), this.fromMs), to: h.to === null ? this.toMs : Math.min(Date.parse(h.to), this.toMs)});
      }
    this.lines = [];
    const room = HIGHEST / Math.max(1, gpus.nodes.reduce((sum, n) => sum + n.gpus_total, 0));
    this.line = Math.max(1, Math.min(LINE, Math.floor(room) - 2));
    const isLabelled = this.line >= LABELLED, gap = isLabelled ? 3 : this.line > 2 ? 1 : 0;
    let y = 0;
    for (const n of gpus.nodes) {
      for (let i = 0; i < n.gpus_total; i++) {
        const g = n.gpus_from + i;
        this.lines.push({label: `${n.name}:${g}`, text: isLabelled ? `${n.name}:${g}` : i === 0 ? n.name : '', y,
          isOff: n.state !== 'up' || n.drained.includes(g), spans: byGpu.get(`${n.name}\n${g}`) || []});
        y += this.line + gap;
      }
      y += isLabelled ? NODE_GAP : 0;
    }
    this.height = y + AXIS;
    this.draw();
  }

  x(ms) {
    return this.left + (ms - this.fromMs) / (this.toMs - this.fromMs) * (this.width - this.left);
  }

  draw() {
    if (!this.lines.length) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2 * HIGHEST / this.height), css = getComputedStyle(document.documentElement);
    const color = (name) => css.getPropertyValue(name).trim();
    this.width = this.canvas.clientWidth;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    const c = this.canvas.getContext('2d');
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.font = FONT;
    c.textBaseline = 'middle';
    const longest = Math.max(...this.lines.map((l) => c.measureText(l.text).width));
    this.left = Math.min(longest + 8, this.width / 3);
    this.drawAxis(c, color);
    this.labelledY = -LINE;
    const colors = {quiet: color('--quiet'), idle: color('--idle'), ground: color('--bg')};
    for (const line of this.lines) this.drawLine(c, colors, line);
  }

  drawAxis(c, color) {
    const wide = (this.width - this.left) / 70, span = (this.toMs - this.fromMs) / 1000;
    const step = 1000 * (STEPS_S.find((s) => span / s <= wide) || 86400);
    const zone = new Date(this.toMs).getTimezoneOffset() * 60000;
    c.textAlign = 'center';
    for (let t = Math.ceil((this.fromMs - zone) / step) * step + zone; t <= this.toMs; t += step) {
      const x = Math.round(this.x(t)) + 0.5, at = new Date(t);
      c.strokeStyle = color('--line');
      c.beginPath();
      c.moveTo(x, 0);
      c.lineTo(x, this.height - AXIS + 4);
      c.stroke();
      const two = (n) => String(n).padStart(2, '0');
      const text = step >= 86400000 ? `${two(at.getMonth() + 1)}-${two(at.getDate())}` : `${two(at.getHours())}:${two(at.getMinutes())}`;
      const half = c.measureText(text).width / 2;
      c.fillStyle = color('--quiet');
      if (x - half > this.left && x + half < this.width) c.fillText(text, x, this.height - AXIS / 2 + 2);
    }
  }

  drawLine(c, colors, line) {
    const high = this.line, mid = line.y + high / 2;
    c.textAlign = 'left';
    if (line.text && line.y - this.labelledY >= LINE - 2) {
      this.labelledY = line.y;
      c.fillStyle = colors.quiet;
      c.fillText(line.text, 0, Math.max(mid, 6), this.left - 8);
    }
    c.fillStyle = colors.idle;
    c.fillRect(this.left, line.isOff ? mid - high / 16 : line.y, this.width - this.left, line.isOff ? high / 8 : high);
    for (const s of line.spans) {
      const x = Math.min(this.x(s.from), this.width - 2), w = Math.max(2, this.x(s.to) - x);
      c.fillStyle = jobColor(s.hold.job);
      c.fillRect(x, line.y, w, high);
      if (w > 3 && high >= LABELLED) {
        c.strokeStyle = colors.ground;
        c.lineWidth = 1;
        c.strokeRect(x + 0.5, line.y + 0.5, w - 1, high - 1);
      }
      const id = s.hold.display_id;
      if (high >= LABELLED && w > c.measureText(id).width + 6) {
        c.fillStyle = '#111';
        c.fillText(id, x + 4, mid + 0.5);
      }
    }
  }

  // The hold below the pointer.
  at(e) {
    const box = this.canvas.getBoundingClientRect();
    const px = e.clientX - box.left, py = e.clientY - box.top;
    const line = this.lines.find((l) => py >= l.y && py < l.y + this.line);
    if (!line || px < this.left) return null;
    const found = line.spans.filter((s) => px >= this.x(s.from) - 1 && px <= this.x(s.to) + 1).pop();
    this.pointed = line.label;
    return found ? found.hold : null;
  }

  point(e) {
    const h = this.at(e);
    this.canvas.style.cursor = h ? 'pointer' : '';
    if (!h) return setText(this.tip, 'Point at a bar to see its job.');
    const to = h.to === null ? this.toMs : Date.parse(h.to);
    const computing = Number.isFinite(h.computing) ? `, computing ${percent(h.computing)}` : '';
    return setText(this.tip, `${this.pointed}: job ${h.display_id} ${h.name} of ${h.user}, ${moment(h.from)} to ${h.to === null ? 'now' : moment(h.to)}`
      + ` (${duration((to - Date.parse(h.from)) / 1000)})${computing}`);
  }
}
