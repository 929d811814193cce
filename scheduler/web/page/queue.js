// queue.js - the queue as it changes: jobs that have not ended, and below them
// those that have. One stream (api.watch()) says what changes; the filters
// work on what it has said, and are in the link.
import {confirmAction, mayChange, showWhy} from './actions.js';
import {el, errorLine, fill, perFrame, setText} from './dom.js';
import {STATES, isFinal, isLive, isOpenToMe} from './format.js';
import {Sweeps, confirmSweep, showSweep, sweepActions} from './queue/sweeps.js';
import {COLUMNS, Rows} from './rows.js';

const PERIODS = {'1h': ['the last hour', 3600], '1d': ['the last day', 86400], '7d': ['the last week', 604800], '30d': ['the last 30 days', 2592000]};
const ENDED_MOST = 500, HEAD_PAUSE_MS = 2000, HEAD_EVERY_MS = 15000, FLUSH_MS = 8, PRUNE_MS = 60000;
const COMPARED_MOST = 50;
const DEFAULT_SORT = 'state';

// ---- filters ----------------------------------------------------------------

// A pattern with * and ? matches the whole name, other text a part of it.
function nameTest(text) {
  if (!/[*?]/.test(text)) {
    const low = text.toLowerCase();
    return (name) => (name || '').toLowerCase().includes(low);
  }
  const source = text.replace(/[.+^${}()|[\]\\]/g, '\\$&').replace(/\*/g, '.*').replace(/\?/g, '.');
  const re = new RegExp(`^${source}$`);
  return (name) => re.test(name || '');
}

function statesTest(text) {
  if (text === 'all') return () => true;
  if (text === 'active') return (s) => !isFinal(s);
  if (text === 'ended') return (s) => isFinal(s);
  const set = new Set(text.toUpperCase().split(','));
  return (s) => set.has(s);
}

function labelsTest(text) {
  const wanted = text.split(',').filter(Boolean).map((one) => one.split('='));
  return (labels) => wanted.every(([k, ...v]) => Object.hasOwn(labels || {}, k) && (v.length === 0 || labels[k] === v.join('=')));
}

// job => whether it is shown.
function filterOf(params, config) {
  const user = params.user === 'me' ? config.user : params.user;
  const tests = [];
  if (params.name) { const t = nameTest(params.name); tests.push((j) => t(j.name)); }
  if (params.state) { const t = statesTest(params.state); tests.push((j) => t(j.state)); }
  if (user && user !== 'all') tests.push((j) => j.user === user);
  if (params.account) tests.push((j) => j.account === params.account);
  if (params.partition) tests.push((j) => j.partition === params.partition);
  if (params.label) { const t = labelsTest(params.label); tests.push((j) => t(j.labels)); }
  return (job) => tests.every((t) => t(job));
}

// ---- the fields -------------------------------------------------------------

function option(value, text, chosen) {
  return el('option', {value, selected: value === chosen}, text);
}

function stateField(params) {
  const known = ['', 'active', 'ended', ...STATES];
  const chosen = params.state || '';
  return el('select', {'data-key': 'state', 'aria-label': 'State'},
    option('', 'any state', chosen), option('active', 'not ended', chosen), option('ended', 'ended', chosen),
    STATES.map((s) => option(s, s, chosen)), known.includes(chosen) ? null : option(chosen, chosen, chosen));
}

function textField(key, params, placeholder, lists) {
  const list = el('datalist', {id: `list-${key}`});
  lists[key] = {list, seen: new Set()};
  return [el('input', {type: 'search', 'data-key': key, value: params[key] || '', placeholder, list: list.id,
    autocomplete: 'off', spellcheck: 'false', maxlength: 128}), list];
}

function fields(params, lists, onChange) {
  const sort = params.sort || DEFAULT_SORT;
  const isMore = ['account', 'partition', 'label'].some((k) => params[k]);
  const form = el('form', {class: 'fields', role: 'search', on: {submit: (e) => e.preventDefault()}},
    el('label', null, 'Name', el('input', {type: 'search', 'data-key': 'name', 'data-filter': true, value: params.name || '',
      placeholder: 'part of it, or mnist*', autocomplete: 'off', spellcheck: 'false', maxlength: 128})),
    el('label', null, 'State', stateField(params)),
    el('label', null, 'User', textField('user', params, 'all, or me', lists)),
    el('label', null, 'Ended within', el('select', {'data-key': 'since'},
      Object.entries(PERIODS).map(([k, [text]]) => option(k, text, params.since || '1d')))),
    el('label', {class: 'narrow-only'}, 'Sort by', el('select', {'data-key': 'sort'},
      COLUMNS.map((c) => [option(c.name, c.title, sort), option(`-${c.name}`, `${c.title}, reversed`, sort)]))),
    el('details', {class: 'more', open: isMore}, el('summary', null, 'More filters'),
      el('div', {class: 'fields'},
        el('label', null, 'Account', textField('account', params, 'all', lists)),
        el('label', null, 'Partition', textField('partition', params, 'all', lists)),
        el('label', null, 'Label', el('input', {type: 'search', 'data-key': 'label', value: params.label || '',
          placeholder: 'key=value, or key', autocomplete: 'off', spellcheck: 'false', maxlength: 512})))));
  const change = (e) => {
    const key = e.target.dataset.key;
    if (key) onChange(key, e.target.value.trim());
  };
  form.addEventListener('input', change);
  return form;
}

// Offers what jobs have: their users, accounts and partitions.
function offer(lists, job) {
  for (const [key, l] of Object.entries(lists)) {
    const value = job[key];
    if (!value || l.seen.has(value) || l.seen.size > 200) continue;
    l.seen.add(value);
    l.list.append(el('option', {value}));
  }
}

// ---- the view ---------------------------------------------------------------

class Queue {
  constructor(root, params, ctx) {
    this.ctx = ctx;
    this.params = {...params};
    this.jobs = new Map(); // id: {job, at}
    this.dirty = new Set();
    this.sweeps = new Sweeps();
    this.dirtySweeps = new Set();
    this.chosen = new Set(); // ids, to compare
    this.lists = {};
    this.end = new AbortController();
    this.flushSoon = perFrame(() => this.flush());
    const sort = (name) => this.change('sort', this.sort === name ? `-${name}` : name);
    this.active = new Rows('Jobs that have not ended', sort);
    this.ended = new Rows('Jobs that have ended', sort);
    this.build(root);
    this.apply();
  }

  get sort() { return this.params.sort || DEFAULT_SORT; }

  build(root) {
    this.head = el('p', {class: 'quiet head-line', 'aria-live': 'off'});
    this.notices = el('div');
    this.form = fields(this.params, this.lists, (k, v) => this.change(k, v));
    this.compare = el('a', {class: 'compare'});
    this.activeNone = el('p', {class: 'quiet none'});
    this.endedNone = el('p', {class: 'quiet none'});
    this.endedTitle = el('h2', null, 'Ended');
    fill(root, el('div', {class: 'head'}, el('h1', null, 'Queue'), this.head, this.compare), this.notices, this.form,
      this.active.el, this.activeNone, this.endedTitle, this.ended.el, this.endedNone);
    for (const rows of [this.active, this.ended]) {
      rows.body.addEventListener('click', (e) => this.onClick(e));
      rows.body.addEventListener('keydown', (e) => this.onKey(e));
    }
  }

  // Of a setting of the view, which the link keeps.
  change(key, value) {
    if (value && !(key === 'sort' && value === DEFAULT_SORT)) this.params[key] = value;
    else delete this.params[key];
    const query = new URLSearchParams();
    for (const [k, v] of Object.entries(this.params)) if (v && k !== 'id') query.set(k, v);
    const text = query.toString();
    this.ctx.replace(text ? `#/queue?${text}` : '#/queue');
    if (key === 'since' || key === 'state') this.readEnded();
    this.apply();
  }

  apply() {
    this.test = filterOf(this.params, this.ctx.config);
    this.setSince();
    this.active.sortBy(this.sort);
    this.ended.sortBy(this.params.sort || '-id');
    const select = this.form.querySelector('[data-key=sort]');
    if (select.value !== this.sort) select.value = this.sort;
    for (const id of this.jobs.keys()) this.dirty.add(id);
    this.flushSoon();
  }

  setSince() {
    const [, ago] = PERIODS[this.params.since] || PERIODS['1d'];
    this.sinceMs = Date.now() - 1000 * ago;
  }

  // A page that stays open for days forgets jobs that ended before its period,
  // and keeps the newest ENDED_MOST of them. A sweep counts all of its tasks until
  // the last one has ended.
  prune() {
    this.setSince();
    const all = [...this.jobs.values()], goOn = new Set(all.filter(({job}) => job.sweep && !isFinal(job.state)).map(({job}) => job.sweep));
    const ended = all.filter(({job}) => isFinal(job.state) && job.ended && !goOn.has(job.sweep))
      .map(({job}) => ({id: job.id, ms: Date.parse(job.ended)})).sort((a, b) => b.ms - a.ms);
    const gone = ended.filter(({id, ms}, i) => (i >= ENDED_MOST || ms < this.sinceMs) && !this.chosen.has(id));
    if (ended.length - gone.length >= ENDED_MOST) this.isCut = true;
    for (const {id} of gone) this.forget(id);
    if (gone.length > 0) this.flushSoon();
  }

  forget(id) {
    const known = this.jobs.get(id), sweep = known ? this.sweeps.forget(known.job) : null;
    if (sweep) this.dirtySweeps.add(sweep);
    this.jobs.delete(id);
    this.dirty.delete(id);
    this.chosen.delete(id);
    this.ended.remove(id);
    this.active.remove(id);
  }

  put(job) {
    this.jobs.set(job.id, {job, at: Date.now()});
    this.dirty.add(job.id);
    this.flushSoon();
  }

  // Shows what has changed, for as long as a frame may take; the rest is shown
  // in the next frame.
  flush() {
    const until = performance.now() + FLUSH_MS;
    for (const id of this.dirty) {
      if (performance.now() > until) break;
      this.dirty.delete(id);
      this.place(id);
    }
    for (const sweep of this.dirtySweeps) {
      if (this.sweeps.show(sweep, this.active, this.ended, (id) => this.jobs.get(id))) this.placeTasks(sweep);
      else if (sweep.rows) sweep.rows.mark(sweep.rowId, [...sweep.matching].every((id) => this.chosen.has(id)));
    }
    this.dirtySweeps.clear();
    const isPlaced = [this.active, this.ended].map((rows) => rows.commit(performance.now() + FLUSH_MS)).every(Boolean);
    if (this.dirty.size > 0 || !isPlaced) this.flushSoon();
    this.showCounts();
  }

  // Puts the row of a job where it belongs, or removes it. The tasks of a sweep
  // have rows while it is open, in the list that has the sweep.
  place(id) {
    const {job, at} = this.jobs.get(id);
    const isEnded = isFinal(job.state);
    offer(this.lists, job);
    const is = this.test(job) && !(isEnded && job.ended && Date.parse(job.ended) < this.sinceMs);
    const sweep = this.sweeps.of(job, true);
    if (sweep) {
      sweep.ids.add(id);
      if (is) sweep.matching.add(id);
      else sweep.matching.delete(id);
      this.dirtySweeps.add(sweep);
    }
    const rows = !is ? null : sweep ? (sweep.isOpen ? sweep.rows : null) : isEnded ? this.ended : this.active;
    for (const other of [this.active, this.ended]) if (other !== rows) other.remove(id);
    if (!rows) return;
    rows.put(job, at, sweep ? sweep.rowId : null);
    if (this.chosen.has(id)) rows.mark(id, true);
  }

  placeTasks(sweep) {
    for (const id of sweep.ids) this.dirty.add(id);
    this.flushSoon();
  }

  openSweep(sweep, isOpen) {
    sweep.isOpen = isOpen;
    this.dirtySweeps.add(sweep);
    this.placeTasks(sweep);
  }

  tasksOf(sweep) {
    return [...sweep.ids].sort((a, b) => a - b).map((id) => this.jobs.get(id).job);
  }

  showCounts() {
    let running = 0, queued = 0, held = 0;
    for (const {job} of this.jobs.values()) {
      running += isLive(job.state) && job.state !== 'DISPATCHING';
      queued += job.state === 'QUEUED' || job.state === 'NEW' || job.state === 'DISPATCHING';
      held += job.state === 'HELD';
    }
    const s = this.status;
    const gpus = s ? `${s.slots_total} GPUs or slots: ${s.slots_total - s.slots_free} allocated, ${s.slots_free} idle | ` : '';
    setText(this.head, `${gpus}${running} running, ${queued} queued, ${held} held`);
    const isAny = Object.keys(this.params).some((k) => !['sort', 'id', 'since'].includes(k));
    this.offerCompare(isAny);
    const isLoaded = this.isLoaded;
    const none = (el_, rows, what, isWanted) => {
      rows.el.hidden = rows.size === 0;
      el_.hidden = rows.size > 0 || !isWanted;
      setText(el_, !isLoaded ? 'Asking the daemon ...' : isAny ? `No ${what} job matches the filter.` : `No ${what} job.`);
    };
    const state = this.params.state ? statesTest(this.params.state) : () => true;
    const wantsEnded = STATES.some((x) => isFinal(x) && state(x)), wantsActive = STATES.some((x) => !isFinal(x) && state(x));
    none(this.activeNone, this.active, 'active', wantsActive);
    none(this.endedNone, this.ended, 'ended', wantsEnded);
    setText(this.endedTitle, `Ended in ${(PERIODS[this.params.since] || PERIODS['1d'])[0]}`
      + (this.isCut ? `, the newest ${ENDED_MOST}` : ''));
    this.endedTitle.hidden = !wantsEnded;
  }

  // A link to the curves of the jobs that were chosen, or of those that a filter
  // leaves.
  offerCompare(isFiltered) {
    const all = [...this.jobs.values()].map((known) => known.job).filter((job) => {
      const sweep = this.sweeps.of(job);
      return sweep ? sweep.matching.has(job.id) : this.active.has(job.id) || this.ended.has(job.id);
    });
    const chosen = [...this.chosen].map((id) => this.jobs.get(id).job);
    const jobs = (chosen.length > 0 ? chosen : isFiltered ? all.filter((j) => j.iteration > 0) : []).filter(isOpenToMe);
    this.compare.hidden = jobs.length < (this.chosen.size > 0 ? 1 : 2) || jobs.length > COMPARED_MOST;
    if (this.compare.hidden) return;
    const href = `#/compare?jobs=${jobs.map((j) => encodeURIComponent(j.display_id))}`;
    if (this.compare.getAttribute('href') !== href) this.compare.setAttribute('href', href);
    setText(this.compare, `Compare ${jobs.length === 1 ? '1 job' : `${jobs.length} jobs`}`);
  }

  choose(job) {
    if (!this.chosen.delete(job.id)) this.chosen.add(job.id);
    for (const rows of [this.active, this.ended]) rows.mark(job.id, this.chosen.has(job.id));
    this.flushSoon();
  }

  // ---- what a user does ----

  // {job} or {sweep} of the row; null: there is none.
  rowOf(target) {
    const row = target.closest('[data-row]');
    if (!row) return null;
    const sweep = this.sweeps.ofRow(Number(row.dataset.id));
    return sweep ? {sweep} : {job: this.jobs.get(Number(row.dataset.id)).job};
  }

  chooseSweep(sweep) {
    const isAll = [...sweep.matching].every((id) => this.chosen.has(id));
    for (const id of sweep.matching) if (this.chosen.has(id) === isAll) this.choose(this.jobs.get(id).job);
    this.dirtySweeps.add(sweep);
  }

  onSweepClick(sweep, e) {
    if (e.ctrlKey || e.metaKey || e.shiftKey) {
      if (!e.target.closest('a')) this.chooseSweep(sweep);
    } else if (e.target.closest('[data-act]')) this.whySweep(sweep);
    else if (!e.target.closest('a') && !String(getSelection())) this.openSweep(sweep, !sweep.isOpen);
  }

  whySweep(sweep) {
    showSweep(sweep, () => this.tasksOf(sweep), (job) => mayChange(job, this.ctx.config), this.ctx, (job) => showWhy(job, this.ctx));
  }

  onSweepKey(sweep, e) {
    const tasks = () => this.tasksOf(sweep);
    const may = sweepActions(tasks(), (job) => mayChange(job, this.ctx.config));
    const act = (name) => { if (may.includes(name)) confirmSweep(name, sweep, tasks, this.ctx); };
    if (e.key === 'Enter' && e.target.matches('[data-row]')) this.openSweep(sweep, !sweep.isOpen);
    else if (e.key === 'ArrowRight' || e.key === 'ArrowLeft') this.openSweep(sweep, e.key === 'ArrowRight');
    else if (e.key === 'w') this.whySweep(sweep);
    else if (e.key === 'c') act('cancel');
    else if (e.key === 'h') act(may.includes('hold') ? 'hold' : 'release');
    else if (e.key === 'x') this.chooseSweep(sweep);
    else return;
    e.preventDefault();
  }

  onClick(e) {
    const {job, sweep} = this.rowOf(e.target) || {};
    if (sweep) this.onSweepClick(sweep, e);
    if (!job) return;
    if (e.ctrlKey || e.metaKey || e.shiftKey) {
      if (e.target.closest('a')) return;
      this.choose(job);
    } else if (e.target.closest('[data-act]') || !isOpenToMe(job)) showWhy(job, this.ctx);
    else if (!e.target.closest('a') && !String(getSelection())) this.ctx.navigate(`#/job/${encodeURIComponent(job.display_id)}`);
  }

  onKey(e) {
    const {job, sweep} = this.rowOf(e.target) || {};
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    if (sweep) this.onSweepKey(sweep, e);
    if (!job) return;
    // From a task to the row of its sweep.
    const own = e.key === 'ArrowLeft' && this.sweeps.of(job);
    if (own && own.rows) {
      own.rows.focus(own.rowId);
      e.preventDefault();
      return;
    }
    const isEnter = e.key === 'Enter' && e.target.matches('[data-row]') && !isOpenToMe(job);
    if (e.key === 'w' || isEnter) showWhy(job, this.ctx);
    else if (e.key === 'c') confirmAction('cancel', job, this.ctx);
    else if (e.key === 'h') confirmAction(job.state === 'HELD' ? 'release' : 'hold', job, this.ctx);
    else if (e.key === 'r') confirmAction('resize', job, this.ctx);
    else if (e.key === 'x') this.choose(job);
    else return;
    e.preventDefault();
  }

  // ---- what the daemon says ----

  fail(error) {
    if (!this.end.signal.aborted) fill(this.notices, errorLine(error));
  }

  // Whoever was away for long, or comes back to a daemon that was restored, may
  // show jobs that are gone. ids: of the jobs that the daemon has in memory.
  async onSynced(ids) {
    const isFirst = !this.isSynced;
    this.isSynced = this.isLoaded = true;
    this.flushSoon();
    if (isFirst || !ids) return;
    const knownBefore = [...this.jobs.keys()].filter((id) => !ids.has(id));
    const listed = await this.readEnded();
    if (this.end.signal.aborted) return;
    for (const id of knownBefore) {
      const known = this.jobs.get(id);
      if (known && (listed ? !listed.has(id) : !isFinal(known.job.state))) this.forget(id);
    }
    this.flushSoon();
  }

  // Returns the ids of the jobs in the list; null when it could not be read.
  async readEnded() {
    const test = this.params.state ? statesTest(this.params.state) : () => true;
    const states = STATES.filter((s) => isFinal(s) && test(s));
    if (states.length === 0) return new Set();
    const [, ago] = PERIODS[this.params.since] || PERIODS['1d'];
    const askedAt = Date.now(), since = Math.floor(askedAt / 1000 - ago);
    try {
      const list = await this.ctx.api.get(`/v1/jobs?state=${states}&since=${since}&limit=${ENDED_MOST}`, this.end.signal);
      for (const job of list.jobs) {
        const known = this.jobs.get(job.id); // the stream may know better: it was requeued
        if (!known || isFinal(known.job.state) || known.at < askedAt) this.put(job);
      }
      this.isCut = list.jobs.length === ENDED_MOST;
      this.isLoaded = true;
      this.flushSoon();
      return new Set(list.jobs.map((job) => job.id));
    } catch (error) {
      this.fail(error);
      return null;
    }
  }

  async readStatus() {
    clearTimeout(this.statusTimer);
    try {
      // The list has the numbers, too; the status is for users.
      const path = this.ctx.config.is_cluster ? '/v1/jobs?limit=1&fields=id' : '/v1/status';
      const s = await this.ctx.api.get(path, this.end.signal);
      this.status = s;
      const a = s.allocator_state;
      fill(this.notices,
        s.paused ? el('p', {class: 'notice'}, 'An administrator has paused starts: no job starts.') : null,
        a && !a.is_ok ? el('p', {class: 'notice bad'}, `${a.name} does not answer${a.why ? `: ${a.why}` : '.'}`) : null);
    } catch (error) {
      if (error.status >= 400) this.fail(error);
    }
    if (this.end.signal.aborted) return;
    this.flushSoon();
    this.statusAt = Date.now();
    this.statusTimer = setTimeout(() => this.readStatus(), HEAD_EVERY_MS);
  }

  onJob(job) {
    this.isLoaded = true;
    this.put(job);
    // The counts of GPUs change with jobs, and are asked for now and then.
    if (Date.now() - (this.statusAt || 0) > HEAD_PAUSE_MS) {
      this.statusAt = Date.now();
      clearTimeout(this.statusTimer);
      this.statusTimer = setTimeout(() => this.readStatus(), HEAD_PAUSE_MS / 4);
    }
  }

  start() {
    this.ticker = setInterval(() => this.active.tick(), 1000);
    this.pruner = setInterval(() => this.prune(), PRUNE_MS);
    this.readStatus();
    // The stream begins with what the daemon has in memory; what ended before is
    // in a list.
    this.readEnded();
    this.ctx.api.watch((job) => this.onJob(job), this.end.signal, (ids) => this.onSynced(ids)).catch((error) => this.fail(error));
    return () => {
      this.end.abort();
      clearInterval(this.ticker);
      clearInterval(this.pruner);
      clearTimeout(this.statusTimer);
      this.flushSoon.cancel();
    };
  }
}

export function show(root, params, ctx) {
  return new Queue(root, params, ctx).start();
}
