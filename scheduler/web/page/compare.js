// compare.js - any number of jobs: one metric of all of them on one chart, the
// settings that differ with what each job has reached as parallel coordinates and
// as a table. The link has the jobs, the metrics, the axis and the bounds.
import {Chart, lineStyle} from './chart.js';
import {AXES, Feed, SAMPLES_OF, Scale, dataOf, figuresOf, isEpochOnly} from './curves.js';
import {add, el, errorLine, fill, refresh, table} from './dom.js';
import {isFinal, number, stateClass} from './format.js';
import {axisFields, axisQuery, axisState, offerSamples} from './job_curves.js';
import {Sweep} from './compare/sweep.js';

const JOBS_MOST = 1000, AT_ONCE = 4, UPDATE_MS = 3000, PACE_MS = 250, LATE_MS = 5000, OWN_OF = 8, SETTINGS_MOST = 12, RECENT = 15;
const METRICS = ['loss', 'eval_loss', 'eval_accuracy', 'train_loss', 'lr', 'samples_per_s', 'tokens_per_s', 't_iter', 't_data', 't_comm', 'gpu_mem_bytes'];
const LOW_IS_BEST = /loss|error|ppl|perplexity|^t_|seconds|bytes/, HIGH_IS_BEST = /acc|per_s|score|f1|bleu|auc/;

// Of the least and the greatest value, the one that is the best.
const sideOf = (metric) => (!LOW_IS_BEST.test(metric) && HIGH_IS_BEST.test(metric) ? 'highest' : 'lowest');

// "a.b": value of every setting, lists as text.
export function flat(value, prefix = '', out = {}) {
  for (const [k, v] of Object.entries(value || {})) {
    const key = prefix ? `${prefix}.${k}` : k;
    if (v !== null && typeof v === 'object' && !Array.isArray(v)) flat(v, key, out);
    else out[key] = Array.isArray(v) ? JSON.stringify(v) : v;
  }
  return out;
}

// The settings in which the specifications differ, by name. Environment and name
// say nothing of how a job trains.
export function differing(specs) {
  const all = specs.map((s) => flat(s)), keys = new Set(all.flatMap((s) => Object.keys(s)));
  return [...keys].filter((k) => !/^(name|env|env_passthrough|workdir|notify|secrets)(\.|$)/.test(k) && new Set(all.map((s) => String(s[k] ?? null))).size > 1).sort();
}

// f(item) for all items, AT_ONCE at a time.
async function forAll(items, f) {
  const rest = [...items];
  await Promise.all(Array.from({length: AT_ONCE}, async () => {
    while (rest.length > 0) await f(rest.shift());
  }));
}

// The jobs that a text names: numbers, tasks, and the tasks of sweeps. An
// error has the `id` that it is of.
async function resolve(api, text, signal) {
  const ids = [...new Set(text.split(/[\s,]+/).filter(Boolean))], jobs = [], errors = [];
  const replies = new Map();
  await forAll(ids.slice(0, JOBS_MOST), async (id) => {
    try {
      const reply = await api.get(api.jobPath(id), signal);
      replies.set(id, reply.sweep && String(reply.sweep.id) === id ? await tasksOf(api, id, signal) : [reply]);
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      errors.push(Object.assign(error, {id}));
    }
  });
  for (const id of ids) jobs.push(...(replies.get(id) || []));
  return {jobs: [...new Map(jobs.map((r) => [r.job.id, r])).values()].slice(0, JOBS_MOST), errors};
}

async function tasksOf(api, sweep, signal) {
  const list = await api.get(`/v1/jobs?sweep=${encodeURIComponent(sweep)}&fields=id,display_id`, signal);
  const replies = [];
  await forAll(list.jobs.slice(0, JOBS_MOST), async (j) => replies.push(await api.get(api.jobPath(j.display_id || j.id), signal)));
  return replies.sort((a, b) => a.job.id - b.job.id);
}

// "job 3", "jobs 3, 4 and 9 more".
function listOf(jobs) {
  const few = jobs.slice(0, 10).map((j) => j.id).join(', ');
  return `${jobs.length === 1 ? 'job' : 'jobs'} ${few}${jobs.length > 10 ? ` and ${jobs.length - 10} more` : ''}`;
}

// A metric that a job has not is no failure.
const hasFailed = (feed) => feed.error !== null && feed.error.status !== 404;

class Compare {
  constructor(root, params, ctx) {
    Object.assign(this, {root, ctx, api: ctx.api, state: axisState(params), of: params.of || 'loss', jobs: [], late: new Set(), names: new Set(METRICS)});
    this.abort = new AbortController();
    this.chart = new Chart({title: this.of});
    this.chart.el.classList.add('wide');
    this.notes = el('div');
    this.metricNotes = el('div');
    this.axisNotes = el('div');
    this.rows = el('div', {class: 'differs'});
    this.faded = new Set();
    this.sweep = new Sweep(this, params);
    this.count = el('span', {class: 'quiet'});
    this.input = el('input', {name: 'jobs', placeholder: '12, 13, 20_3', 'aria-label': 'Jobs to add', 'data-filter': true});
    this.list = el('datalist', {id: 'metric-names'});
    this.metric = el('input', {list: 'metric-names', value: this.of, 'data-field': 'of'});
    this.metric.addEventListener('change', () => this.setMetric(this.metric.value.trim()));
    const form = el('form', {class: 'fields'},
      el('label', null, 'Add jobs, or a sweep', this.input), el('button', {class: 'main'}, 'Add'),
      el('label', null, 'Metric', this.metric), this.list,
      axisFields(this.state, (state) => this.setAxis(state)));
    form.addEventListener('submit', (e) => { e.preventDefault(); this.addTyped(); });
    fill(root, el('div', {class: 'head'}, el('h1', null, 'Compare'), this.count), form, this.notes, this.metricNotes, this.axisNotes, this.chart.el, this.sweep.el,
      el('section', {'aria-label': 'Settings and results'}, this.rows));
  }

  setAxis(state) {
    this.state = state;
    this.link();
    this.show();
  }

  link() {
    if (this.ended) return;
    const query = new URLSearchParams({jobs: [...this.jobs.map((j) => j.id), ...this.late].join(','), of: this.of, ...axisQuery(this.state), ...this.sweep.query()});
    this.ctx.replace(`#/compare?${query.toString().replace(/%2C/g, ',')}`);
  }

  // ---- which jobs ---------------------------------------------------------------

  async addJobs(text) {
    if (!text.trim()) return;
    const {jobs, errors} = await resolve(this.api, text, this.abort.signal);
    fill(this.notes, errors.map((e) => errorLine(e)));
    // Only a job that there is not leaves the link; others are asked for again.
    this.late = new Set([...this.late].filter((id) => !text.split(/[\s,]+/).includes(id)));
    for (const e of errors) if (e.status !== 404) this.late.add(e.id);
    for (const reply of jobs) {
      if (this.jobs.some((j) => j.reply.job.id === reply.job.id)) continue;
      const id = reply.job.display_id, style = this.nextStyle = (this.nextStyle ?? -1) + 1;
      this.jobs.push({id, reply, style, base: new Feed(this.api, id, 'loss'), counted: new Feed(this.api, id, SAMPLES_OF), feed: this.feedOf(id)});
    }
    this.link();
    this.showTable();
    await this.findNames();
    await this.update(false);
  }

  // Of the list of the newest jobs, which then goes.
  addNewest(job) {
    this.input.focus();
    this.addJobs(String(job.display_id)).catch((error) => { if (error.name !== 'AbortError') add(this.notes, errorLine(error)); });
  }

  async addTyped() {
    const text = this.input.value;
    await this.addJobs(text).catch((error) => { if (error.name !== 'AbortError') add(this.notes, errorLine(error)); });
    if (!this.notes.firstChild && this.input.value === text) this.input.value = '';
  }

  remove(job) {
    const at = this.jobs.indexOf(job);
    this.jobs = this.jobs.filter((j) => j !== job);
    this.link();
    document.activeElement.blur(); // the button goes with its row
    this.show();
    const buttons = this.rows.querySelectorAll('button');
    (this.jobs.length > 0 && buttons[Math.min(at, buttons.length - 1)] || this.input).focus();
    if (this.jobs.length === 0) this.showRecent();
  }

  feedOf(id) { return new Feed(this.api, id, this.of); }

  setMetric(of) {
    if (!of || of === this.of) return;
    this.of = of;
    for (const j of this.jobs) j.feed = this.feedOf(j.id);
    this.link();
    this.update(false);
  }

  // The metrics of the jobs' own, for the list of names.
  async findNames() {
    await forAll(this.jobs.slice(0, OWN_OF), async (j) => {
      if (j.hasNames) return;
      j.hasNames = true;
      const reply = await this.api.get(`${this.api.jobPath(j.id, 'values')}?latest=1`, this.abort.signal).catch(() => null);
      for (const r of reply ? reply.rows : []) this.names.add(r[reply.columns.indexOf('name')]);
    });
    fill(this.list, [...this.names].map((n) => el('option', {value: n})));
  }

  // ---- curves ---------------------------------------------------------------------

  // Whether it may have more than was read.
  isOpen(j) { return !isFinal(j.reply.job.state) || this.failureOf(j) !== null; }

  failureOf(j) {
    const feed = [j.feed, j.base, ...(this.isOnSamples ? [j.counted] : [])].find(hasFailed);
    return feed ? feed.error : null;
  }

  // The first time all jobs are read, later those that have not ended, or whose
  // curve could not be read.
  async update(isLiveOnly) {
    const of = this.of;
    let shown = performance.now(), isNew = !isLiveOnly;
    await forAll(this.jobs.filter((j) => !isLiveOnly || this.isOpen(j)), async (j) => {
      if (isLiveOnly && !isFinal(j.reply.job.state)) {
        const {job} = await this.api.get(this.api.jobPath(j.id), this.abort.signal);
        isNew = isNew || job.state !== j.reply.job.state;
        j.reply.job = {...j.reply.job, ...job};
      }
      isNew = await j.feed.update(this.abort.signal) || isNew;
      if (this.needsBase(j)) await j.base.update(this.abort.signal);
      if (this.isOnSamples) isNew = await j.counted.update(this.abort.signal) || isNew;
      isNew = await this.sweep.update(j, this.abort.signal) || isNew;
      if (of === this.of && performance.now() - shown > 250) { // some curves are better than none
        shown = performance.now();
        this.showChart();
      }
    });
    if (of === this.of && isNew) this.show();
  }

  isBase(j) { return this.of === 'loss' || !j.feed.rows.some((r) => r[3] === null); }

  needsBase(j) { return j.feed.x === 'epoch' || (this.state.x !== 'iteration' && !this.isBase(j)); }

  get isOnSamples() { return this.state.x === 'samples'; }

  // Whether it is known that a job has no samples. They are read if they are asked for.
  hasNoSamples(j) { return j.counted.isRead && !this.scaleOf(j).hasSamples && (this.isOnSamples || isFinal(j.reply.job.state)); }

  // What is made of a job's rows is made once: `make` of `what`, for this key.
  once(j, what, key, make) {
    const text = `${this.of} ${j.feed.version} ${j.base.version} ${j.counted.version} ${key}`, made = j[what];
    return made && made.text === text ? made.value : (j[what] = {text, value: make()}).value;
  }

  scaleOf(j) {
    const isBase = this.needsBase(j);
    return this.once(j, 'scale', isBase, () => new Scale(isBase ? j.base.rows : j.feed.rows, j.counted.rows));
  }

  dataOf(j, axis) { return this.once(j, 'data', axis, () => dataOf(j.feed, axis, this.scaleOf(j))); }

  nameOf(j) { return `${j.id} ${j.reply.job.name || ''}`.trim(); }

  async show() {
    const isLate = (j, feed) => !feed.isRead && !feed.error && j.feed.isRead;
    const late = this.jobs.flatMap((j) => [this.needsBase(j) ? j.base : null, this.isOnSamples ? j.counted : null].filter((f) => f && isLate(j, f)));
    if (late.length > 0) await forAll(late, (feed) => feed.update(this.abort.signal)).catch(() => {});
    this.showChart();
    this.showTable();
  }

  // The axis: that of epochs if a curve has no other, and without samples that of
  // iterations.
  axisOf(without) {
    if (this.jobs.some((j) => isEpochOnly(j.feed, this.scaleOf(j)))) return 'epoch';
    return this.isOnSamples && without.length > 0 && without.length === this.jobs.length ? 'iteration' : this.state.x;
  }

  showChart() {
    const without = this.jobs.filter((j) => this.hasNoSamples(j)), axis = this.axisOf(without);
    if (axis !== this.axis) this.chart.set({zoom: null}); // it is in the unit of the axis
    this.axis = axis;
    offerSamples(this.root, without.length < this.jobs.length || without.length === 0);
    const text = axis === 'samples' && without.length > 0 ? `No samples in ${listOf(without)}: not on this axis.` : null;
    refresh(this.axisNotes, text, () => (text ? el('p', {class: 'notice'}, text) : null));
    this.chart.options.title = this.of;
    this.chart.head.textContent = this.of;
    this.chart.set({xName: AXES.find(([name]) => name === axis)[1], isTime: axis === 'time', isLog: this.state.log, smooth: this.state.smooth});
    this.chart.setSeries(this.jobs.map((j) => ({key: String(j.id), name: this.nameOf(j), style: j.style, data: this.dataOf(j, axis)})));
    this.showMissing(this.jobs.filter((j) => j.feed.error && !hasFailed(j.feed) && j.feed.rows.length === 0), this.jobs.map((j) => this.failureOf(j)).find(Boolean));
    this.count.textContent = `${this.jobs.length} ${this.jobs.length === 1 ? 'job' : 'jobs'}`;
  }

  // Which jobs have not the metric, and why a curve could not be read.
  showMissing(without, failed) {
    const near = without.find((j) => j.feed.error.message.includes('did you mean'));
    const text = without.length === 0 ? null : near ? near.feed.error.message
      : `No "${this.of}" in ${listOf(without)}.`;
    refresh(this.metricNotes, [text, failed ? failed.message : null], () => [
      text ? el('p', {class: 'notice'}, text) : null, failed ? errorLine(failed) : null]);
  }

  // ---- the table --------------------------------------------------------------------

  showTable() {
    this.sweep.el.hidden = this.jobs.length < 2;
    if (this.jobs.length === 0) return;
    const specs = this.jobs.map((j) => j.reply.job.spec || {}), flats = specs.map((s) => flat(s));
    const keys = this.jobs.length > 1 ? differing(specs) : [], shown = keys.slice(0, SETTINGS_MOST);
    const figures = this.jobs.map((j) => this.once(j, 'figures', '', () => figuresOf(j.feed.rows)));
    const side = sideOf(this.of), isHigh = side === 'highest', isLow = LOW_IS_BEST.test(this.of);
    this.sweep.show(keys, flats, figures, sideOf);
    const bests = figures.map((f) => (f ? f[side] : NaN)).filter(Number.isFinite), best = isHigh ? Math.max(...bests) : Math.min(...bests);
    const rows = this.jobs.map((j, i) => ({j, job: j.reply.job, flat: flats[i], f: figures[i]}));
    const value = (v) => (typeof v === 'string' ? v : number(v));
    const data = [this.of, this.jobs.map((j) => [j.id, j.style, j.reply.job]), figures];
    refresh(this.rows, data, () => [queueMicrotask(() => this.fadeRows()), table([
      {title: 'Job', of: (r) => [el('span', {class: 'swatch', style: {background: lineStyle(r.j.style).color}}), el('a', {href: `#/job/${encodeURIComponent(r.j.id)}`, 'data-job': r.j.id}, this.nameOf(r.j))]},
      {title: 'State', of: (r) => el('span', {class: `badge ${stateClass(r.job.state)}`}, r.job.state)},
      ...shown.map((k) => ({title: k, of: (r) => (r.flat[k] === null || r.flat[k] === undefined ? '-' : String(r.flat[k]))})),
      {title: `${this.of}, last`, right: true, of: (r) => value(r.f ? r.f.last : NaN)},
      {title: `${this.of}, ${side}`, right: true, of: (r) => el('span', {class: (isLow || isHigh) && r.f && r.f[side] === best ? 'best good' : null}, value(r.f ? r.f[side] : NaN))},
      ...(this.of === 'loss' ? [] : [{title: 'Loss', right: true, of: (r) => value(r.job.loss)}]),
      {title: 'Evaluation loss', right: true, of: (r) => value(r.job.eval_loss)},
      {title: 'Accuracy', right: true, of: (r) => value(r.job.eval_accuracy)},
      {title: '', of: (r) => el('button', {class: 'small', type: 'button', 'aria-label': `Remove job ${r.j.id}`, on: {click: () => this.remove(r.j)}}, '\u00d7')},
    ], rows, {'aria-label': 'Settings that differ, and results'}),
    keys.length > shown.length ? el('p', {class: 'quiet'}, `${keys.length - shown.length} more settings differ: ${keys.slice(SETTINGS_MOST, SETTINGS_MOST + 20).join(', ')}`) : null,
    this.jobs.length > 1 && keys.length === 0 ? el('p', {class: 'quiet'}, 'All settings are the same.') : null]);
  }

  // ids: the jobs that are not within the bounds on axes.
  fade(ids) {
    this.faded = ids;
    this.fadeRows();
    this.chart.faded = ids;
    this.chart.draw();
  }

  fadeRows() {
    for (const a of this.rows.querySelectorAll('[data-job]')) a.closest('tr').classList.toggle('faded', this.faded.has(a.dataset.job));
  }

  // Without jobs: which there are.
  async showRecent() {
    this.showChart();
    const {jobs} = await this.api.get(`/v1/jobs?limit=${RECENT}&fields=id,display_id,name,state,loss,user`, this.abort.signal);
    if (this.jobs.length > 0) return; // one was added meanwhile
    refresh(this.rows, jobs, () => [el('h2', null, 'The newest jobs'), jobs.length === 0 ? el('p', {class: 'quiet'}, 'There are no jobs.') : table([
      {title: '', of: (j) => el('button', {class: 'small', type: 'button', 'aria-label': `Add job ${j.display_id}`, on: {click: () => this.addNewest(j)}}, 'Add')},
      {title: 'Job', right: true, of: (j) => j.display_id}, {title: 'Name', of: (j) => j.name}, {title: 'User', of: (j) => j.user},
      {title: 'State', of: (j) => el('span', {class: `badge ${stateClass(j.state)}`}, j.state)},
      {title: 'Loss', right: true, of: (j) => (Number.isFinite(j.loss) ? number(j.loss) : '-')},
    ], [...jobs].reverse(), {'aria-label': 'The newest jobs'})]);
  }

  async start(params) {
    const text = [params.sweep, params.jobs].filter(Boolean).join(',');
    if (text) await this.addJobs(text);
    else await this.showRecent();
    this.root.setAttribute('data-curves', 'ready');
    this.timer = setInterval(async () => {
      // However many jobs there are, the daemon gets some requests a second.
      const open = this.jobs.filter((j) => this.isOpen(j)).length, isSoon = Date.now() - (this.updated || 0) < PACE_MS * open;
      if (document.hidden || this.isBusy || isSoon || open + this.late.size === 0) return;
      this.isBusy = true;
      if (this.late.size > 0 && Date.now() - (this.lateAt || 0) > LATE_MS) {
        this.lateAt = Date.now();
        await this.addJobs([...this.late].join()).catch(() => {});
      }
      await this.update(true).catch(() => {});
      this.updated = Date.now();
      this.isBusy = false;
    }, UPDATE_MS);
    if (this.ended) clearInterval(this.timer);
  }

  end() {
    this.ended = true;
    clearInterval(this.timer);
    this.abort.abort();
    this.chart.end();
    this.sweep.end();
    this.root.removeAttribute('data-curves');
  }
}

export function show(root, params, ctx) {
  const view = new Compare(root, params, ctx);
  view.start(params).catch((error) => { if (error.name !== 'AbortError') add(view.notes, errorLine(error)); });
  return () => view.end();
}
