// rows.js - the rows of the queue: a list of jobs that is updated in place.
//
// A row is made once for a job, and only the cells whose text has changed are
// written again. Nothing here reads the layout.
import {el, setText} from './dom.js';
import {about, count, duration, isLive, isOpenToMe, isPending, number, stateClass} from './format.js';

// "4", "2..8", "2>4" while it is resized.
export function gpusText(job) {
  if (job.to_gpus > 0 && job.from_gpus > 0) return `${job.from_gpus}>${job.to_gpus}`;
  if (job.to_gpus > 0) return String(job.to_gpus);
  if (job.gpus > 0) return String(job.gpus);
  return job.gpus_min === job.gpus_max ? String(job.gpus_min) : `${job.gpus_min}..${job.gpus_max}`;
}

// What it has of what it asked for, in words.
function gpusTitle(job) {
  const asked = job.gpus_min === job.gpus_max ? job.gpus_min : `${job.gpus_min}..${job.gpus_max}`;
  return `${job.gpus || 0} allocated, ${asked} requested`;
}

function etaText(job) {
  if (Number.isFinite(job.start_in_s) && job.start_in_s >= 0 && job.start_in_s < 1e9) return `starts in ${about(job.start_in_s)}`;
  return Number.isFinite(job.eta_s) && isLive(job.state) ? `${duration(job.eta_s)} left` : '';
}

function progress(job) {
  const n = job.iteration, of = job.iterations_total;
  if (!(n > 0)) {
    const share = job.tokenised > 0 && isLive(job.state) ? job.tokenised : 0;
    return {share, text: share ? `tokenising ${Math.floor(100 * share)} %` : '-'};
  }
  return {share: of > 0 ? Math.min(1, n / of) : 0, text: of > 0 ? `${count(n)}/${count(of)}` : count(n)};
}

// It has run so long now; `at` is when the daemon said it, in ms.
function elapsed(job, at) {
  if (!Number.isFinite(job.elapsed_s)) return NaN;
  return job.elapsed_s + (isLive(job.state) && job.started ? (Date.now() - at) / 1000 : 0);
}

// Where it runs, or why it does not.
function whereText(job) {
  const isSuspended = job.reason === 'Slurm(Suspended)';
  if (job.place && (!job.reason || (isLive(job.state) && !isSuspended))) return job.place;
  return job.reason || '-';
}

const order = (v) => (v === null || v === undefined || v === '' ? null : v);
// Jobs with GPUs, then the queue in its order, then those that are held.
function stateKey(job) {
  const group = isLive(job.state) ? 0 : job.state === 'HELD' ? 2 : isPending(job.state) ? 1 : 3;
  return `${group}${group === 1 ? '' : job.state}${String(job.position || 0).padStart(9)}`;
}

// The columns: `sort` gives a number or a text, null is last in any order.
export const COLUMNS = [
  {name: 'state', title: 'State', sort: stateKey},
  {name: 'id', title: 'Job', sort: (j) => j.id, right: true},
  {name: 'name', title: 'Name', sort: (j) => order(j.name)},
  {name: 'user', title: 'User', sort: (j) => order(j.user)},
  {name: 'gpus', title: 'GPUs', sort: (j) => j.gpus || j.gpus_min, right: true},
  {name: 'progress', title: 'Progress', sort: (j) => (j.iteration > 0 && j.iterations_total > 0 ? j.iteration / j.iterations_total : order(j.iteration))},
  {name: 'loss', title: 'Loss', sort: (j) => order(j.loss), right: true},
  {name: 'time', title: 'Time', sort: (j) => order(j.elapsed_s), right: true},
  {name: 'where', title: 'Place or reason', sort: (j) => order(whereText(j))},
];

const template = el('div', {class: 'job', role: 'row', tabindex: '-1', 'data-row': true},
  el('div', {role: 'gridcell', class: 'c-state'}, el('span', {class: 'badge'})),
  el('div', {role: 'gridcell', class: 'c-id right'}),
  el('div', {role: 'gridcell', class: 'c-name'}, el('a', {tabindex: '-1'}), el('span', {class: 'labels quiet'})),
  el('div', {role: 'gridcell', class: 'c-user'}),
  el('div', {role: 'gridcell', class: 'c-gpus right'}),
  el('div', {role: 'gridcell', class: 'c-progress'},
    el('div', {class: 'meter'}, el('div', {class: 'meter-fill'})), el('span'), el('span', {class: 'quiet eta'})),
  el('div', {role: 'gridcell', class: 'c-loss right'}),
  el('div', {role: 'gridcell', class: 'c-time right'}),
  el('div', {role: 'gridcell', class: 'c-where'}, el('button', {class: 'link', type: 'button', tabindex: '-1', 'data-act': 'why'})),
  el('div', {role: 'gridcell', class: 'c-act'}, el('button', {class: 'small', type: 'button', tabindex: '-1', 'data-act': 'why'}, '\u22ef')));

// The row of one job.
class Row {
  constructor(job) {
    const e = this.el = template.cloneNode(true);
    const [state, id, name, user, gpus, prog, loss, time, where, act] = e.children;
    Object.assign(this, {id, user, gpus, loss, time, badge: state.firstChild, link: name.firstChild, labels: name.lastChild,
      fill: prog.firstChild.firstChild, meter: prog.firstChild, step: prog.children[1], eta: prog.children[2],
      where: where.firstChild, act: act.firstChild});
    e.dataset.id = job.id;
    this.lead = this; // the row that it stands below, when it is a task's
    const isSweep = Boolean(job.sweepTexts);
    if (isOpenToMe(job)) { // the daemon refuses what the link of another's job asks for
      this.link.href = isSweep ? `#/compare?jobs=${job.display_id}` : `#/job/${encodeURIComponent(job.display_id)}`;
      if (!isSweep) e.dataset.href = this.link.href;
    }
    e.classList.toggle('sweep', isSweep);
    this.act.setAttribute('aria-label', `Why and actions of ${isSweep ? 'sweep' : 'job'} ${job.display_id}`);
  }

  show(job, at) {
    const s = job.sweepTexts || {};
    this.job = job;
    this.at = at;
    if (this.state !== job.state) {
      this.state = job.state;
      this.badge.textContent = job.state;
      this.badge.className = `badge ${stateClass(job.state)}`;
    }
    setText(this.id, s.id || job.display_id);
    setText(this.link, job.name || '(no name)');
    if (this.link.title !== job.name) this.link.title = job.name || '';
    setText(this.labels, s.labels || [...Object.entries(job.vary || {}), ...Object.entries(job.labels || {})]
      .map(([k, v]) => (v ? `${k}=${v}` : k)).join(', '));
    if (this.labels.title !== this.labels.textContent) this.labels.title = this.labels.textContent;
    setText(this.user, job.user);
    setText(this.gpus, s.gpus || gpusText(job));
    this.gpus.title = s.gpus ? 'allocated to its tasks' : gpusTitle(job);
    const p = progress(job);
    setText(this.step, s.step || p.text);
    setText(this.eta, etaText(job));
    const width = `${(100 * p.share).toFixed(1)}%`;
    if (this.width !== width) {
      this.width = this.fill.style.width = width;
      this.meter.hidden = p.share === 0;
    }
    setText(this.loss, number(job.loss));
    setText(this.where, s.where || whereText(job));
    if (this.where.title !== this.where.textContent) this.where.title = this.where.textContent;
    this.tick();
  }

  tick() {
    setText(this.time, duration(elapsed(this.job, this.at)));
  }
}

// Of a frame: so many rows move however late it is, and no more than so many. The
// browser lays out those near the window, which takes longer than to move them; it
// skips those further down (content-visibility), and a list begins with NEAR rows.
const MOVES_LEAST = 16, MOVES_MOST = 24, FAR_MOST = 96, NEAR = 100;

// A list of jobs: put(), remove(), then commit() until it says that all is done. The
// row of a sweep leads those of its tasks.
export class Rows {
  // onSort(name): a title was chosen.
  constructor(label, onSort) {
    this.byId = new Map();
    this.order = [];
    this.isDirty = false;
    this.titles = COLUMNS.map((c) => el('div', {role: 'columnheader', class: `c-${c.name}${c.right ? ' right' : ''}`},
      el('button', {class: 'title', type: 'button', on: {click: () => onSort(c.name)}}, c.title)));
    this.body = el('div', {role: 'rowgroup', class: 'jobs-body'});
    this.el = el('div', {role: 'grid', class: 'jobs', 'aria-label': label},
      el('div', {role: 'rowgroup', class: 'jobs-head'},
        el('div', {role: 'row', class: 'job'}, this.titles, el('div', {role: 'columnheader', class: 'c-act', 'aria-label': 'Actions'}))),
      this.body);
    // One row is in the tab order: the one that had the focus last.
    this.body.addEventListener('focusin', (e) => this.markCurrent(e.target.closest('[data-row]')));
  }

  markCurrent(rowEl) {
    if (!rowEl || rowEl === this.current) return;
    if (this.current) this.current.tabIndex = -1;
    this.current = rowEl;
    rowEl.tabIndex = 0;
  }

  get size() { return this.byId.size; }

  has(id) { return this.byId.has(id); }

  focus(id) {
    const row = this.byId.get(id);
    if (row) row.el.focus();
  }

  // by: a column's name, after '-' the other way round.
  sortBy(by) {
    this.isBack = by.startsWith('-');
    const name = by.replace(/^-/, '');
    this.column = COLUMNS.find((c) => c.name === name) || COLUMNS[1];
    this.titles.forEach((t, i) => {
      const is = COLUMNS[i] === this.column;
      t.setAttribute('aria-sort', is ? (this.isBack ? 'descending' : 'ascending') : 'none');
    });
    for (const row of this.byId.values()) row.key = this.column.sort(row.job);
    this.isDirty = true;
  }

  // leadId: of the row that it stands below, or null. isOpen: of a sweep.
  put(job, at, leadId, isOpen) {
    let row = this.byId.get(job.id);
    if (!row) {
      row = new Row(job);
      this.byId.set(job.id, row);
      this.order.push(row);
      this.isDirty = true;
    }
    row.show(job, at);
    const lead = (leadId && this.byId.get(leadId)) || row;
    if (row.lead !== lead) {
      row.lead = lead;
      row.el.classList.toggle('task', lead !== row);
      this.isDirty = true;
    }
    if (isOpen !== undefined) row.el.setAttribute('aria-expanded', isOpen);
    const key = this.column.sort(job);
    if (key !== row.key) this.isDirty = true;
    row.key = key;
  }

  remove(id) {
    const row = this.byId.get(id);
    if (!row) return;
    this.byId.delete(id);
    row.el.remove();
    this.isDirty = true;
    this.order = this.order.filter((r) => r !== row);
    if (this.current === row.el) this.current = null;
  }

  // Shows whether the job is chosen.
  mark(id, is) {
    const row = this.byId.get(id);
    if (row) row.el.setAttribute('aria-selected', is);
  }

  compare(a, b) {
    if (a.lead === b.lead) return a === a.lead ? -1 : b === b.lead ? 1 : this.compareKeys(a, b);
    return this.compareKeys(a.lead, b.lead);
  }

  compareKeys(a, b) {
    const x = a.key, y = b.key;
    if (x === null || y === null) {
      if (x !== y) return x === null ? 1 : -1;
    } else if (x !== y) {
      return (x < y ? -1 : 1) * (this.isBack ? -1 : 1);
    }
    return a.job.id - b.job.id;
  }

  // Brings the rows in order; moves only those that are not where they belong, and
  // only until a time of performance.now(). Returns whether all are in order.
  commit(until) {
    if (!this.isDirty) return true;
    this.isDirty = false;
    const away = []; // they have gone further down
    let moves = 0, seen = 0;
    this.order.sort((a, b) => this.compare(a, b));
    const focus = document.activeElement;
    let at = this.body.firstChild;
    for (const row of this.order) {
      if (moves > (seen++ < NEAR ? MOVES_MOST : FAR_MOST) || (moves > MOVES_LEAST && performance.now() > until)) {
        this.isDirty = true;
        break;
      }
      if (at && at !== row.el && at.nextSibling === row.el) {
        away.push(at);
        at = row.el;
        at.previousSibling.remove();
        moves++;
      }
      if (at === row.el) {
        at = at.nextSibling;
        continue;
      }
      this.body.insertBefore(row.el, at);
      moves++;
    }
    if (this.isDirty) this.body.append(...away.filter((e) => !e.parentNode));
    if (focus && focus !== document.activeElement && this.body.contains(focus)) focus.focus({preventScroll: true});
    if (!this.current && this.order.length > 0) this.markCurrent(this.order[0].el);
    return !this.isDirty;
  }

  // Brings the times of jobs that run up to date.
  tick() {
    for (const row of this.order) if (isLive(row.job.state)) row.tick();
  }
}
