// job_curves.js - the charts of one job: which curves it has, on one axis, with
// one zoom, and kept up to date while it runs.
import {Chart} from './chart.js';
import {AXES, Feed, SAMPLES_OF, Scale, dataOf, isEpochOnly, marksOf} from './curves.js';
import {add, el, errorLine, fill, setText} from './dom.js';

const OWN_MOST = 24, ZOOM_PAUSE_MS = 250, RARELY = 5;
// Charts of what every job may report: a title, and the curves in it.
const CHARTS = [
  ['Loss', ['loss', 'train_loss']],
  ['Evaluation loss', ['eval_loss']],
  ['Evaluation accuracy', ['eval_accuracy']],
  ['Learning rate', ['lr']],
  ['Samples a second', [SAMPLES_OF]],
  ['Tokens a second', ['tokens_per_s']],
  ['Seconds of an iteration', ['t_iter']],
  ['GPU memory in use, bytes', ['gpu_mem_bytes']],
];
const NAMES = {loss: 'loss of rank 0', train_loss: 'training loss of the epoch'};

// The fields above charts: axis, log, smoothing. onChange({x, log, smooth}).
export function axisFields(state, onChange) {
  const x = el('select', {'data-field': 'x'}, AXES.map(([value, text]) => el('option', {value, selected: value === state.x}, text)));
  const log = el('input', {type: 'checkbox', checked: state.log, 'data-field': 'log'});
  const smooth = el('input', {type: 'range', min: 0, max: 0.99, step: 0.01, value: state.smooth, 'data-field': 'smooth'});
  const say = () => onChange({x: x.value, log: log.checked, smooth: Number(smooth.value)});
  x.addEventListener('change', say);
  log.addEventListener('change', say);
  smooth.addEventListener('input', say);
  return el('div', {class: 'fields chart-fields'}, el('label', null, 'Horizontal axis', x),
    el('label', null, 'Smoothing', smooth), el('label', {class: 'inline'}, log, 'Logarithmic'));
}

// Whether the axis of samples is offered by the fields in `node`; if not, it says why.
export function offerSamples(node, isOffered) {
  const option = node.querySelector('[data-field=x] option[value=samples]');
  option.disabled = !isOffered;
  setText(option, isOffered ? 'samples' : 'samples (none reported)');
}

// {x, log, smooth} of a link, and back.
export function axisState(params) {
  const smooth = Number(params.smooth);
  return {x: AXES.some(([name]) => name === params.x) ? params.x : 'iteration', log: params.log === '1',
    smooth: smooth > 0 && smooth < 1 ? smooth : 0};
}

export function axisQuery(state) {
  const query = {};
  if (state.x !== 'iteration') query.x = state.x;
  if (state.log) query.log = '1';
  if (state.smooth > 0) query.smooth = String(state.smooth);
  return query;
}

// A chart with its feeds; `detail` are finer ones of what is zoomed. It is aside
// if it can be drawn on the axis of epochs alone: its zoom is its own.
class Panel {
  constructor(api, job, title, names, isOwn, onZoom) {
    Object.assign(this, {api, job});
    this.feeds = names.map((of) => new Feed(api, job, of, isOwn));
    this.detail = null;
    this.chart = new Chart({title, onZoom});
    this.chart.el.hidden = true;
  }

  async update(signal) {
    let isNew = false;
    for (const feed of [...this.feeds, ...(this.detail || [])]) isNew = await feed.update(signal) || isNew;
    return isNew;
  }

  // Reads the iterations of range finer; null: no more.
  async zoom(range, signal) {
    const detail = this.detail = range && this.feeds.filter((f) => f.x === 'iteration').map((f) => {
      const fine = new Feed(this.api, this.job, f.of, f.own);
      fine.setRange(range);
      return fine;
    });
    for (const f of detail || []) await f.update(signal);
  }

  feedShown(feed) {
    const fine = (this.detail || []).find((f) => f.of === feed.of);
    return fine && fine.rows.length > 0 ? fine : feed;
  }

  show(state, scale, marks, zoom) {
    const known = this.feeds.filter((feed) => feed.rows.length > 0);
    this.isAside = state.x !== 'epoch' && known.length > 0 && known.every((feed) => isEpochOnly(feed, scale));
    const axis = this.isAside ? 'epoch' : state.x;
    const series = this.feeds.map((feed, i) => ({key: feed.of, name: NAMES[feed.of] || feed.of, style: i,
      smoothOff: feed.x === 'epoch', data: dataOf(this.feedShown(feed), axis, scale)}))
      .filter((s) => s.data.x.length > 0);
    if (series.length > 0) this.chart.el.hidden = false;
    this.chart.set({xName: AXES.find(([name]) => name === axis)[1], isTime: axis === 'time', isLog: state.log, smooth: state.smooth, ...(this.isAside ? {} : {zoom})});
    this.chart.setSeries(series, this.isAside ? [] : marks);
  }

  // Why a curve could not be read. A metric that the job has not is no failure.
  get failure() {
    const feed = this.feeds.find((f) => f.error && f.error.status !== 404);
    return feed ? feed.error : null;
  }
}

export class JobCurves {
  // onState(state): the axis fields have changed.
  constructor(api, job, params, onState) {
    Object.assign(this, {api, job, state: axisState(params), attempts: [], panels: [], zoom: null});
    this.abort = new AbortController();
    this.charts = el('div', {class: 'charts'});
    this.note = el('p', {class: 'quiet', hidden: true});
    this.problem = el('div');
    this.turn = 0;
    this.el = el('section', {'aria-label': 'Curves', class: 'curves'},
      axisFields(this.state, (state) => {
        this.state = state;
        this.show();
        onState(axisQuery(state));
      }), this.problem, this.note, this.charts);
    this.ownCount = 0;
    for (const [title, names] of CHARTS) this.addPanel(title, names, false);
    this.base = this.panels[0].feeds[0];
    this.samples = this.panels.find((p) => p.feeds[0].of === SAMPLES_OF);
  }

  addPanel(title, names, isOwn) {
    const panel = new Panel(this.api, this.job, title, names, isOwn, (range) => { if (!panel.isAside) this.setZoom(range); });
    this.panels.push(panel);
    add(this.charts, panel.chart.el);
  }

  // The metrics that the job named itself.
  async addOwn() {
    const reply = await this.api.get(`${this.api.jobPath(this.job, 'values')}?latest=1`, this.abort.signal);
    const at = reply.columns.indexOf('name'), iteration = reply.columns.indexOf('iteration');
    const known = new Set(this.panels.flatMap((p) => (p.isOwn ? p.feeds.map((f) => f.of) : [])));
    const names = reply.rows.filter((r) => r[iteration] !== null).map((r) => r[at]).filter((n) => !known.has(n));
    for (const name of names) {
      if (this.ownCount === OWN_MOST) break;
      this.ownCount++;
      this.addPanel(name, [name], true);
      this.panels[this.panels.length - 1].isOwn = true;
    }
    const left = names.length + known.size - this.ownCount;
    this.note.hidden = left <= 0;
    fill(this.note, `${left} more metrics of its own are not shown; the comparison can show each.`);
  }

  get counted() { return this.samples.feeds[0]; }

  get isOnSamples() { return this.state.x === 'samples'; }

  get scale() {
    const version = `${this.base.version} ${this.counted.version}`;
    if (!this.made || this.made.version !== version) this.made = {version, scale: new Scale(this.base.rows, this.counted.rows)};
    return this.made.scale;
  }

  // The axis: without samples that of iterations.
  get x() { return this.isOnSamples && !this.scale.hasSamples ? 'iteration' : this.state.x; }

  // Reads what is new, and shows it. The daemon has a limit of requests: metrics
  // that the job has not reported, and those of its own, take turns, unless all
  // are asked for, or the axis is made of them.
  async update(isAll) {
    const turn = this.turn++;
    const isTurn = (i) => isAll || turn % RARELY === i % RARELY;
    const isNeeded = (panel) => panel === this.panels[0] || (panel === this.samples && this.isOnSamples);
    const before = this.counted.version;
    try {
      if (this.isOnSamples && !this.counted.isRead) await this.counted.update(this.abort.signal);
      for (const [i, panel] of this.panels.entries())
        if (isTurn(i) || isNeeded(panel) || panel.failure || !(panel.isOwn || panel.chart.el.hidden)) await this.updateOne(panel);
      if (isTurn(0)) {
        const n = this.panels.length;
        await this.addOwn();
        for (const panel of this.panels.slice(n)) await this.updateOne(panel);
      }
    } catch (error) {
      if (error.name !== 'AbortError') throw error;
    }
    this.offer();
    if (this.isOnSamples && this.counted.version !== before) this.show();
    const failure = this.failure, text = failure ? failure.message : '';
    if (text !== this.failureText) fill(this.problem, failure ? errorLine(failure) : null);
    this.failureText = text;
  }

  offer() { offerSamples(this.el, this.scale.hasSamples || !this.counted.isRead); }

  get failure() {
    const panel = this.panels.find((p) => p.failure);
    return panel ? panel.failure : null;
  }

  async updateOne(panel) {
    const isNew = await panel.update(this.abort.signal);
    if (isNew || !panel.isShown) this.showOne(panel);
    panel.isShown = true;
  }

  setAttempts(attempts) { this.attempts = attempts || []; }

  showOne(panel) {
    const x = this.x;
    if (this.zoom && this.zoomX !== x) this.setZoom(null); // it is in the unit of the axis
    panel.show({...this.state, x}, this.scale, marksOf(this.scale, x, this.attempts), this.zoom);
  }

  show() { for (const panel of this.panels) this.showOne(panel); }

  setZoom(range) {
    this.zoom = range;
    this.zoomX = this.x;
    for (const p of this.panels) if (!p.isAside) p.chart.set({zoom: range});
    clearTimeout(this.zoomTimer);
    this.zoomTimer = setTimeout(() => this.readFine(range), ZOOM_PAUSE_MS);
  }

  async readFine(range) {
    const its = range && range.map((x) => Math.max(0, Math.round(this.scale.iterationAt(this.zoomX, x))));
    const margin = its ? Math.ceil((its[1] - its[0]) * 0.05) : 0;
    for (const p of this.panels) {
      if (this.zoom !== range || this.abort.signal.aborted) return;
      if (p.chart.el.hidden) continue;
      await p.zoom(its && [Math.max(0, its[0] - margin), its[1] + margin], this.abort.signal).catch(() => {});
      if (this.zoom === range) this.showOne(p);
    }
  }

  end() {
    clearTimeout(this.zoomTimer);
    this.abort.abort();
    for (const p of this.panels) p.chart.end();
  }
}
