// sweep.js - the part of the comparison with parallel coordinates: which axes there
// are, the bounds on them, and the metrics that are read for them.
import {axisOf, boundsOf, boundsText, withinOf} from './axes.js';
import {Parallel} from './parallel.js';
import {Feed, figuresOf} from '../curves.js';
import {el, setText} from '../dom.js';

const SETTINGS_MOST = 14, METRICS_MOST = 6, LINK_PAUSE_MS = 250;
const HELP = 'A drag along an axis sets bounds. With the focus on an axis, the arrow keys move its lower bound, with Shift its upper bound, and Escape clears both.';

// "a, b": names of metrics, each once.
const namesOf = (text) => [...new Set((text || '').split(',').map((n) => n.trim()).filter(Boolean))].slice(0, METRICS_MOST);

export class Sweep {
  // view: {api, of, jobs, nameOf(), link(), update(), fade(ids)} of the comparison.
  constructor(view, params) {
    this.view = view;
    this.axes = [];
    this.bounds = boundsOf(params.brush);
    this.metrics = namesOf(params.axes);
    this.parallel = new Parallel(this.bounds, () => this.onBounds());
    this.input = el('input', {list: 'metric-names', value: this.metrics.join(', '), placeholder: 'eval_loss, lr', 'data-field': 'axes'});
    this.input.addEventListener('change', () => this.setMetrics(namesOf(this.input.value)));
    this.status = el('p', {class: 'quiet', role: 'status'});
    this.clear = el('button', {type: 'button', hidden: true, on: {click: () => this.clearAll()}}, 'Clear all bounds');
    this.el = el('section', {'aria-label': 'Settings and results of each job', class: 'sweep', hidden: true},
      el('h2', null, 'Settings and results of each job'),
      el('div', {class: 'fields'}, el('label', null, 'More metrics, with commas', this.input), this.clear), this.parallel.el, this.status);
  }

  end() {
    clearTimeout(this.timer);
    this.parallel.end();
  }

  // Of the link.
  query() {
    const brush = boundsText(this.bounds);
    return {...(this.metrics.length > 0 ? {axes: this.metrics.join(',')} : {}), ...(brush ? {brush} : {})};
  }

  // ---- metrics --------------------------------------------------------------------

  setMetrics(names) {
    this.metrics = names;
    this.view.link();
    this.view.update(false).then(() => this.view.show()).catch(() => {}); // it was left
  }

  feedOf(j, metric) {
    if (metric === this.view.of) return j.feed;
    j.more = j.more || new Map();
    if (!j.more.has(metric)) j.more.set(metric, new Feed(this.view.api, j.id, metric));
    return j.more.get(metric);
  }

  // Reads the further metrics of a job. Returns whether anything is new.
  async update(j, signal) {
    let isNew = false;
    for (const metric of this.metrics)
      if (metric !== this.view.of) isNew = await this.feedOf(j, metric).update(signal) || isNew;
    return isNew;
  }

  // ---- what is shown ----------------------------------------------------------------

  // keys: the settings that differ; of each job flats: its settings, figures: those
  // of the metric of the curves; sideOf(metric): 'lowest' or 'highest', its best.
  show(keys, flats, figuresOfCurves, sideOf) {
    const {jobs, of} = this.view, axes = keys.slice(0, SETTINGS_MOST).map((k) => axisOf(`set:${k}`, k, flats.map((f) => f[k])));
    for (const metric of new Set([of, ...this.metrics])) {
      const figures = metric === of ? figuresOfCurves : jobs.map((j) => figuresOf(this.feedOf(j, metric).rows)), side = sideOf(metric);
      axes.push(axisOf(`last:${metric}`, `${metric}, last`, figures.map((f) => (f && typeof f.last === 'number' ? f.last : null))));
      axes.push(axisOf(`best:${metric}`, `${metric}, ${side}`, figures.map((f) => (f ? f[side] : null))));
    }
    this.axes = axes;
    this.parallel.set(jobs.map((j) => ({name: this.view.nameOf(j), style: j.style})), axes);
    this.fade();
  }

  fade() {
    const {jobs} = this.view, within = withinOf(this.axes, this.bounds, jobs.length), n = within.filter(Boolean).length;
    this.clear.hidden = this.bounds.size === 0;
    setText(this.status, this.bounds.size === 0 ? HELP : `${n} of ${jobs.length} jobs are within all bounds.`);
    this.view.fade(new Set(jobs.filter((_, i) => !within[i]).map((j) => String(j.id))));
  }

  // A browser takes some changes of the link a second.
  onBounds() {
    this.fade();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.view.link(), LINK_PAUSE_MS);
  }

  clearAll() {
    this.bounds.clear();
    this.parallel.update();
    this.input.focus(); // the button goes
    this.onBounds();
  }
}
