// sweeps.js - the sweeps of the queue: a row for all tasks, which opens into a row
// for each; and what is done to all of them at once.
import {ask, el} from '../dom.js';
import {STATES, isFinal, isLive, isOpenToMe, isPending} from '../format.js';

// The state that the row of a sweep has: the first of these that a task has.
const FIRST = ['RUNNING', 'CHECKPOINTING', 'STARTING', 'STALLED', 'UNKNOWN', 'DISPATCHING', 'NEW', 'QUEUED', 'HELD',
  'NODE_FAIL', 'FAILED', 'TIMEOUT', 'CANCELLED', 'COMPLETED'];
// Whose reason a user reads first.
const WORST = ['NODE_FAIL', 'FAILED', 'TIMEOUT', 'STALLED', 'UNKNOWN', 'HELD', 'QUEUED', 'NEW', 'CANCELLED'];

const many = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;

// "3 RUNNING, 7 QUEUED".
export function countsText(jobs) {
  const counts = new Map();
  for (const job of jobs) counts.set(job.state, (counts.get(job.state) || 0) + 1);
  return [...counts].sort((a, b) => STATES.indexOf(a[0]) - STATES.indexOf(b[0])).map(([s, n]) => `${n} ${s}`).join(', ');
}

// The task with the reason that matters most, or null.
export function worstOf(jobs) {
  let worst = null, rank = WORST.length;
  for (const job of jobs) {
    const at = WORST.indexOf(job.state);
    if (at < 0 || at >= rank || !job.reason) continue;
    worst = job;
    rank = at;
  }
  return worst;
}

// How long the task that has run the longest has run at a time in ms, and since
// when, null if it has ended. known: {job, at}, at is when the daemon said it.
export function longestOf(known, at) {
  let longest = {elapsed_s: 0, started: null};
  for (const {job, at: saidAt} of known) {
    const runs = isLive(job.state) && job.started, s = job.elapsed_s + (runs ? (at - saidAt) / 1000 : 0);
    if (s > longest.elapsed_s) longest = {elapsed_s: s, started: runs ? job.started : null};
  }
  return longest;
}

// What the row of a sweep shows, with the members of a job. Its number sorts
// before those of its tasks, and is none of a job.
function summaryOf(id, known, at, isOpen) {
  const jobs = known.map((k) => k.job);
  const first = jobs[0], live = jobs.filter((j) => isLive(j.state)), ended = jobs.filter((j) => isFinal(j.state)).length;
  const worst = worstOf(jobs);
  const gpus = live.reduce((sum, j) => sum + (j.gpus || 0), 0);
  const waits = jobs.filter((j) => j.position > 0).map((j) => j.position);
  return {
    ...first, id: id - 0.5, display_id: String(id), vary: null, loss: null, exit_code: null, to_gpus: 0,
    state: FIRST.find((s) => jobs.some((j) => j.state === s)) || first.state,
    gpus, position: waits.length > 0 ? Math.min(...waits) : 0,
    iteration: ended, iterations_total: jobs.length,
    ...longestOf(known, at), eta_s: null, start_in_s: null,
    reason: worst ? worst.reason : null, place: null,
    sweepTexts: {
      id: `${isOpen ? '\u25be' : '\u25b8'} ${id}`, labels: countsText(jobs), step: `${ended}/${jobs.length} ended`,
      gpus: gpus > 0 ? String(gpus) : '-', where: worst ? `${worst.reason} (${worst.display_id})` : '-',
    },
  };
}

// One sweep: its tasks that the page knows, and which of them the filters leave.
class Sweep {
  constructor(id) {
    this.id = id;
    this.rowId = id - 0.5;
    this.ids = new Set();
    this.matching = new Set();
    this.isOpen = false;
    this.rows = null; // the list that has its row
  }
}

export class Sweeps {
  constructor() {
    this.byId = new Map();
  }

  // The sweep of a task; null for a job that is none. make: it may be new.
  of(job, make) {
    if (!job.sweep) return null;
    let sweep = this.byId.get(job.sweep);
    if (!sweep && make) this.byId.set(job.sweep, sweep = new Sweep(job.sweep));
    return sweep || null;
  }

  // The sweep whose row has this number.
  ofRow(rowId) {
    return Number.isInteger(rowId) ? null : this.byId.get(rowId + 0.5) || null;
  }

  forget(job) {
    const sweep = this.of(job);
    if (!sweep) return null;
    sweep.ids.delete(job.id);
    sweep.matching.delete(job.id);
    return sweep;
  }

  // Shows the sweep's row, or removes it. jobsOf(id): {job, at}. Returns whether
  // the rows of its tasks have to be placed anew.
  show(sweep, active, ended, jobsOf) {
    const known = [...sweep.ids].sort((a, b) => a - b).map(jobsOf), jobs = known.map((k) => k.job);
    const rows = sweep.matching.size === 0 ? null : jobs.some((j) => !isFinal(j.state)) ? active : ended;
    const isMoved = rows !== sweep.rows;
    if (isMoved && sweep.rows) {
      for (const id of sweep.ids) sweep.rows.remove(id);
      sweep.rows.remove(sweep.rowId);
    }
    sweep.rows = rows;
    const at = Math.max(...known.map((k) => k.at));
    if (rows) rows.put(summaryOf(sweep.id, known, at, sweep.isOpen), at, null, sweep.isOpen);
    if (sweep.ids.size === 0) this.byId.delete(sweep.id);
    return isMoved && sweep.isOpen && rows !== null;
  }
}

// ---- what is done to all tasks ----------------------------------------------

const VERBS = {
  cancel: {verb: 'Cancel', to: (j) => !isFinal(j.state), says: 'What they have not saved is lost. Tasks that have ended stay as they are.'},
  hold: {verb: 'Hold', to: (j) => isPending(j.state) && j.state !== 'HELD', says: 'They keep their places and do not start until they are released.'},
  release: {verb: 'Release', to: (j) => j.state === 'HELD', says: 'They may start.'},
};

// What may be done to the tasks: names of VERBS.
export function sweepActions(jobs, mayChange) {
  return Object.keys(VERBS).filter((name) => mayChange(jobs[0]) && jobs.some(VERBS[name].to));
}

// Asks once for all tasks. jobsNow(): the tasks as they are; the dialog follows.
export async function confirmSweep(name, sweep, jobsNow, ctx) {
  const {verb, to, says} = VERBS[name];
  const jobs = jobsNow(), n = jobs.filter(to).length;
  if (n === 0) return;
  await ask({
    title: `${verb} sweep ${sweep.id} ${jobs[0].name || ''}`.trim() + '?',
    body: [el('p', null, `This concerns ${many(n, 'task')}: ${countsText(jobs.filter(to))}. ${says}`)],
    actions: [
      {text: 'Back'},
      {text: `${verb} ${many(n, 'task')}`, kind: name === 'cancel' ? 'danger' : 'main',
        run: () => ctx.api.post(ctx.api.jobPath(String(sweep.id), name), {})},
    ],
  });
}

// The dialog of a sweep: its states, the reason that matters most, and what may be
// done. showTask(job): why that task is in its state.
export async function showSweep(sweep, jobsNow, mayChange, ctx, showTask) {
  const jobs = jobsNow(), worst = worstOf(jobs);
  let next = null;
  const answer = await ask({
    title: `Sweep ${sweep.id} ${jobs[0].name || ''}`.trim(),
    body: [el('p', null, `${many(jobs.length, 'task')}: ${countsText(jobs)}.`),
      worst ? el('p', null, `Task ${worst.display_id} is ${worst.state}: ${worst.reason}.`) : null],
    actions: [
      {text: 'Close'},
      !isOpenToMe(jobs[0]) ? null : {text: 'Compare', run: () => { next = 'compare'; }},
      worst ? {text: `Why ${worst.display_id}`, run: () => { next = 'why'; }} : null,
      ...sweepActions(jobs, mayChange).map((name) => ({text: `${VERBS[name].verb} sweep`, run: () => { next = name; }})),
    ].filter(Boolean),
  });
  if (answer === null || answer === 'Close') return;
  if (next === 'compare') ctx.navigate(`#/compare?jobs=${sweep.id}`);
  else if (next === 'why') await showTask(worst);
  else if (next) await confirmSweep(next, sweep, jobsNow, ctx);
}
