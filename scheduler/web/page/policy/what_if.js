// what_if.js - two settings of scheduling side by side: mgpu-sim runs the past of
// the cluster with each, and a table has its figures and their differences.
import {add, el, errorLine, fill, table} from '../dom.js';
import {number} from '../format.js';

const PREFIX = 'scheduler.';
const PERIODS = [['', 'all'], ['1d', 'the last day'], ['7d', 'the last 7 days'], ['30d', 'the last 30 days']];
const DAY_MS = 86400000;
const SIDES = ['left', 'right'];

// ---- settings as mgpu-sim's option --policy has them ------------------------------

// {name, keys: ['KEY=VALUE', ...]} of "NAME:KEY=VALUE,...".
export function settingOf(word) {
  const at = word.indexOf(':');
  return at < 0 ? {name: word, keys: []} : {name: word.slice(0, at), keys: word.slice(at + 1).split(',').filter(Boolean)};
}

export function wordOf(name, lines) {
  const keys = lines.split('\n').map((l) => l.trim()).filter(Boolean);
  return `${name.trim()}${keys.length > 0 ? `:${keys.join(',')}` : ''}`;
}

// What the cluster runs, as mgpu-admin policy try has it: the settings of
// scheduling that differ from their defaults. `left` has those that an option cannot
// have, such as lists.
export function runningOf(policy) {
  const keys = policy.keys.filter((k) => k.key.startsWith(PREFIX) && k.key !== 'scheduler.policy' && k.value !== k.default && k.value !== '{}');
  const fits = (k) => !/[,{\n]/.test(k.value);
  return {name: policy.policy, keys: keys.filter(fits).map((k) => `${k.key.slice(PREFIX.length)}=${k.value}`), left: keys.filter((k) => !fits(k)).map((k) => k.key)};
}

// ---- figures ------------------------------------------------------------------------

// As the table of mgpu-sim has it.
export function timeText(s) {
  if (s >= 3600) return `${(s / 3600).toFixed(2)} h`;
  return s >= 120 ? `${(s / 60).toFixed(1)} min` : `${s.toFixed(1)} s`;
}

const share = (v) => `${(100 * v).toFixed(1)} %`, ratio = (v) => v.toFixed(2);
const known = (v) => typeof v === 'number' && Number.isFinite(v);
const over = (a, b) => (known(a) && b > 0 ? a / b : null);
const waitOf = (size) => (r) => ((r.by_size || []).find((s) => s.size === size) || {}).wait_s;

// [title, figure of a run, text, what is better: -1 less, 1 more, 0 neither]
function rowsOf(runs) {
  const sizes = [...new Set(runs.flatMap((r) => (r.by_size || []).map((s) => s.size)))];
  const spread = (name, key, parts) => parts.map((p) => [`${name} ${p === 'avg' ? 'average' : p}`, (r) => (r[key] || {})[p], timeText, -1]);
  return [
    ['jobs', (r) => r.jobs, String, 0], ['completed', (r) => r.completed, String, 1],
    ...spread('JCT', 'jct_s', ['avg', 'p50', 'p90', 'p95', 'p99']), ...spread('wait', 'wait_s', ['avg', 'p99']),
    ...sizes.map((s) => [`wait, ${s}`, waitOf(s), timeText, -1]),
    ['slowdown average', (r) => (r.slowdown || {}).avg, ratio, -1], ['slowdown p99', (r) => (r.slowdown || {}).p99, ratio, -1],
    ['makespan', (r) => r.makespan_s, timeText, -1], ['GPUs in use', (r) => r.utilisation, share, 1],
    ['idle while jobs wait', (r) => over(r.gpu_s.idle_while_queued, r.gpu_s.total), share, -1],
    ['restarting', (r) => over(r.gpu_s.restarting, r.gpu_s.used), share, -1],
    ['GPU hours per job', (r) => r.gpu_hours_per_job, ratio, -1],
    ['restarts per job', (r) => r.restarts_per_job, ratio, -1], ['resizes per job', (r) => r.resizes_per_job, ratio, -1],
    ['fairness, worst', (r) => (r.fairness || {}).worst, ratio, -1], ['fairness, above 1', (r) => (r.fairness || {}).share_above_1, share, -1],
    ['fairness, users', (r) => (r.fairness || {}).jain, ratio, 1],
  ];
}

// "▲ +12.5 %, worse" of the right relative to the left; null: nothing to compare.
export function changeOf(left, right, better) {
  if (!known(left) || !known(right)) return null;
  if (left === right) return {text: 'the same', mood: null};
  const arrow = right > left ? '▲' : '▼', part = left > 0 ? ` ${right > left ? '+' : ''}${(100 * (right / left - 1)).toFixed(1)} %` : ` from ${number(left)}`;
  const isGood = (right > left) === (better > 0);
  return {text: `${arrow}${part}${better === 0 ? '' : isGood ? ', better' : ', worse'}`, mood: better === 0 ? null : isGood ? 'good' : 'bad'};
}

function figuresTable(sim, words) {
  const runs = sim.runs, past = sim.recorded, show = (row, r) => { const v = row[1](r); return known(v) ? row[2](v) : '-'; };
  const rows = rowsOf(runs).filter((row) => runs.some((r) => known(row[1](r))));
  return table([
    {title: 'Figure', of: (row) => row[0]},
    ...(past ? [{title: 'Recorded', right: true, of: (row) => show(row, past)}] : []),
    ...SIDES.map((side, i) => ({title: `${side === 'left' ? 'Left' : 'Right'}: ${words[i]}`, right: true, of: (row) => show(row, runs[i])})),
    {title: 'Right, relative to left', of: (row) => {
      const change = changeOf(row[1](runs[0]), row[1](runs[1]), row[3]);
      return change ? el('span', {class: change.mood, 'data-change': row[0]}, change.text) : '-';
    }},
  ], rows, {'aria-label': 'What the two settings would have done'});
}

// What mgpu-sim answered: its figures, and what it said as it is.
function answerOf(reply, words) {
  const said = reply.said.trim(), sim = reply.figures;
  const notes = sim ? [sim.not_replayed && `Not repeated: ${sim.not_replayed}`, sim.sizes_without_measurement && `Sizes without a measurement: ${sim.sizes_without_measurement}`] : [];
  return [
    reply.status === 0 ? null : el('p', {class: 'notice bad', role: 'alert'},
      sim ? 'A job was not accepted, or did not end:' : `mgpu-sim ended with status ${reply.status}:`),
    said ? el('pre', {class: 'what-if-said'}, said) : null,
    sim ? figuresTable(sim, words) : null,
    notes.filter(Boolean).map((n) => el('p', {class: 'quiet'}, n)),
  ];
}

// ---- the form -----------------------------------------------------------------------

class WhatIf {
  constructor(place, ctx, params, policy) {
    const now = runningOf(policy), names = (policy.keys.find((k) => k.key === 'scheduler.policy') || {}).range || '';
    Object.assign(this, {ctx, answer: el('div', {class: 'what-if-answer'}), fields: {}});
    this.status = el('p', {class: 'quiet', role: 'status'});
    this.since = el('select', {'data-field': 'since'}, PERIODS.map(([value, text]) => el('option', {value, selected: value === (params.since || '')}, text)));
    this.go = el('button', {class: 'main'}, 'Simulate');
    this.stop = el('button', {type: 'button', hidden: true, on: {click: () => this.running.abort()}}, 'Stop');
    this.form = el('form', null,
      el('div', {class: 'what-if'}, SIDES.map((side) => this.side(side, params[side] ? settingOf(params[side]) : now))),
      el('datalist', {id: 'policy-names'}, names.split(/[\s,|]+/).filter(Boolean).map((n) => el('option', {value: n}))),
      el('div', {class: 'fields'}, el('label', null, 'Jobs submitted in', this.since), this.go, this.stop));
    this.form.addEventListener('submit', (e) => { e.preventDefault(); this.run(); });
    add(place, now.left.length > 0 ? el('p', {class: 'quiet'}, `Left out, because mgpu-sim takes no lists: ${now.left.join(', ')}.`) : null,
      this.form, this.status, this.answer);
  }

  side(side, setting) {
    const name = el('input', {value: setting.name, list: 'policy-names', 'data-field': `${side}-policy`, required: true, autocomplete: 'off'});
    const keys = el('textarea', {rows: 4, 'data-field': `${side}-keys`, spellcheck: 'false', placeholder: 'preempt.enabled=true'});
    keys.value = setting.keys.join('\n');
    this.fields[side] = {name, keys};
    return el('fieldset', null, el('legend', null, side === 'left' ? 'Left' : 'Right'),
      el('label', null, 'Policy', name), el('label', null, 'Settings, KEY=VALUE on a line', keys));
  }

  words() { return SIDES.map((side) => wordOf(this.fields[side].name.value, this.fields[side].keys.value)); }

  link(words) {
    const query = new URLSearchParams({left: words[0], right: words[1], ...(this.since.value ? {since: this.since.value} : {})});
    this.ctx.replace(`#/policy?${query}`);
  }

  async run() {
    if (this.running) return; // a held Enter comes again and again
    const words = this.words(), days = parseInt(this.since.value, 10);
    const since = days > 0 ? {since: `${new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 19)}Z`} : {};
    const running = this.running = new AbortController();
    const end = () => running.abort();
    window.addEventListener('pagehide', end); // a browser may keep a page that was left
    this.link(words);
    this.go.disabled = true;
    this.stop.hidden = false;
    this.status.textContent = 'mgpu-sim runs. It ends when you leave this page.';
    fill(this.answer);
    try {
      const reply = await this.ctx.api.post('/web/whatif', {policies: words, ...since}, running.signal);
      fill(this.answer, answerOf(reply, words));
      this.status.textContent = '';
    } catch (error) {
      this.status.textContent = running.signal.aborted ? 'The simulation was stopped.' : '';
      if (!running.signal.aborted) fill(this.answer, errorLine(error));
    }
    window.removeEventListener('pagehide', end);
    this.running = null;
    this.go.disabled = false;
    this.stop.hidden = true;
  }

  end() {
    if (this.running) this.running.abort();
  }
}

// Why there is no what-if, as text; null: there is one.
async function whyNot(ctx, planError, signal) {
  if (ctx.config.read_only) return 'A page that is read-only runs no simulation.';
  if (planError && planError.status === 403) return `Only an administrator of the cluster may simulate its past: ${planError.message}.`;
  return (await ctx.api.get('/web/whatif', signal)).why;
}

// Fills place. policy: GET /v1/policy; planError: why the plan could not be read, or
// null. Returns a function that ends what runs.
export async function showWhatIf(place, params, ctx, policy, planError, signal) {
  const why = await whyNot(ctx, planError, signal);
  if (signal.aborted) return () => {};
  if (why !== null) {
    fill(place, el('p', {class: 'notice'}, why.endsWith('.') ? why : `${why}.`));
    return () => {};
  }
  fill(place, el('p', {class: 'quiet'}, 'mgpu-sim runs the recorded jobs of the cluster with each of two settings. The left one is what the cluster runs now, unless the link has another.'));
  const view = new WhatIf(place, ctx, params, policy);
  return () => view.end();
}
