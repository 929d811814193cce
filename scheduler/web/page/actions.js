// actions.js - why a job is in its state, and what its user may do to it: the
// dialogs of the queue and of the job's own view.
import {add, ask, el, errorLine, fill, table} from './dom.js';
import {duration, isFinal, isLive, isOpenToMe, moment, stateClass} from './format.js';

const range = (lo, hi, what) => (lo === hi ? `${lo} ${what}${lo === 1 ? '' : 's'}` : `${lo}..${hi} ${what}s`);

const EXITS = {124: 'its time limit', 125: 'it never ran, or was lost', 130: 'cancelled by its user', 143: 'cancelled by another user'};

function exitText(code) {
  const what = EXITS[code] || (code > 128 && code < 193 ? `signal ${code - 128}` : null);
  return what ? `${code}: ${what}` : String(code);
}

function within(s) {
  if (!Number.isFinite(s)) return '';
  return s < 90 ? ` \u00b1${s.toFixed(0)} s` : s < 5400 ? ` \u00b1${(s / 60).toFixed(0)} min` : ` \u00b1${(s / 3600).toFixed(1)} h`;
}

function needs(w) {
  const names = {partition: 'partition', gpu_type: 'type', gpu_memory: 'GPU memory', constraint: 'constraint', reservation: 'reservation'};
  const where = w.where || {};
  const more = Object.keys(names).filter((k) => where[k]).map((k) => `, ${names[k]} ${where[k]}`).join('');
  return `${range(w.job.gpus_min, w.job.gpus_max, 'GPU')} on ${range(w.nodes_min, w.nodes_max, 'node')}${where.exclusive ? ', alone' : ''}${more}`;
}

function mayUse(w) {
  const up = new Set(), down = new Set();
  for (const n of w.nodes || []) (n.is_up ? up : down).add(n.name);
  const closed = down.size ? `; ${down.size === 1 ? '1 node is' : `${down.size} nodes are`} down or drained` : '';
  return `${range(up.size, up.size, 'node')} with ${range(w.gpus_total, w.gpus_total, 'GPU')}, ${w.gpus_free} idle now${closed}`;
}

function starts(w) {
  const j = w.job, rows = [];
  const at = j.start_estimate || w.start_forecast;
  if (j.position > 0) rows.push(['Queue', `position ${j.position}${at ? '' : '; no start estimate'}`]);
  const basis = j.start_estimate ? w.basis : w.forecast_basis;
  if (at) rows.push(['May start', `${moment(at)}${basis ? `, if ${basis}` : ''}`]);
  if (w.start_expected)
    rows.push(['Expected', `${moment(w.start_expected)}${within(w.expected_within_s)}${w.expected_basis ? `, if ${w.expected_basis}` : ''}`]);
  for (const c of w.would_start || [])
    rows.push(['Starts now with', `--set ${c.set}: ${range(c.gpus, c.gpus, 'GPU')} on ${range(c.nodes || 1, c.nodes || 1, 'node')}${c.partition ? ', if you may' : ''}`]);
  return rows;
}

function depends(w) {
  return (w.depends_on || []).map((d) => ['After', `${d.depends_on}: job ${d.job} is ${d.state || 'not there'}${d.is_met ? ', satisfied' : ''}`]);
}

// The reply of /v1/jobs/:id/why as elements.
export function whyBody(w) {
  const j = w.job, rows = [];
  (w.reasons || []).forEach((r, i) => rows.push([i === 0 ? 'Because' : 'Also', r.text]));
  if (j.exit_code !== null) rows.push(['Exit code', exitText(j.exit_code)]);
  if (!isFinal(j.state)) {
    rows.push(...depends(w), ['Needs', needs(w)], ['May use', mayUse(w)], ...starts(w));
    if (j.place) rows.push(['Runs on', j.place]);
    if (w.size) rows.push(['Size', w.size]);
    if (w.cluster) rows.push(['Slurm', w.cluster]);
  }
  return [
    el('p', null, el('span', {class: `badge ${stateClass(j.state)}`}, j.state), ` since ${moment(w.since)} (${duration(w.for_s)})`),
    el('dl', {class: 'why'}, rows.map(([k, v]) => [el('dt', null, k), el('dd', null, v)])),
    (w.holders || []).length === 0 ? null : table([
      {title: 'In use by', of: (h) => el('a', {href: `#/job/${encodeURIComponent(h.display_id || h.job)}`}, h.display_id || h.job)},
      {title: 'User', of: (h) => h.user}, {title: 'Name', of: (h) => h.name},
      {title: 'GPUs', right: true, of: (h) => h.gpus}, {title: 'Place', of: (h) => h.place},
      {title: 'Ends by', of: (h) => (h.ends ? moment(h.ends) : 'no limit')},
    ], w.holders, {'aria-label': 'Jobs that use the GPUs'}),
  ];
}

const title = (job) => `job ${job.display_id} ${job.name || ''}`.trim();

// Whether who reads the page may, as far as the page knows: the daemon decides.
export function mayChange(job, config) {
  return !config.read_only && isOpenToMe(job);
}

// What may be done: {name, text}.
export function actionsOf(job, config) {
  if (!mayChange(job, config) || isFinal(job.state)) return [];
  const may = [];
  if (job.state === 'HELD') may.push({name: 'release', text: 'Release'});
  else if (!isLive(job.state)) may.push({name: 'hold', text: 'Hold'});
  if (job.gpus_max > job.gpus_min) may.push({name: 'resize', text: 'Resize'});
  may.push({name: 'cancel', text: 'Cancel job', kind: 'danger'});
  return may;
}

const SENTENCES = {
  cancel: (j) => (isLive(j.state) ? 'Its ranks are asked to stop. What it has not saved is lost.' : 'It does not start.'),
  hold: () => 'It keeps its place and does not start until it is released.',
  release: () => 'It may start.',
  resize: (j) => (isLive(j.state) ? 'It writes a checkpoint and continues with the new number of GPUs.' : 'It starts with this number of GPUs.'),
};
const VERBS = {cancel: 'Cancel', hold: 'Hold', release: 'Release', resize: 'Resize'};

// Asks, and does it. Returns a promise of whether it was done.
export async function confirmAction(name, job, ctx) {
  if (!actionsOf(job, ctx.config).some((a) => a.name === name)) return false;
  const gpus = name !== 'resize' ? null : el('input', {type: 'number', min: job.gpus_min, max: job.gpus_max, step: 1,
    value: job.gpus || job.gpus_min, autofocus: true});
  const verb = VERBS[name];
  const answer = await ask({
    title: `${verb} ${title(job)}?`,
    body: [
      el('p', null, SENTENCES[name](job)),
      gpus ? el('label', null, `GPUs, ${job.gpus_min} to ${job.gpus_max}`, gpus) : null,
    ],
    actions: [
      {text: 'Back'},
      {text: `${verb} job`, kind: name === 'cancel' ? 'danger' : 'main', run: () => {
        if (gpus && !gpus.checkValidity()) throw new Error(`The number of GPUs must be ${job.gpus_min} to ${job.gpus_max}.`);
        return ctx.api.post(ctx.api.jobPath(job.display_id, name), gpus ? {gpus: Number(gpus.value)} : {});
      }},
    ],
  });
  return answer !== null && answer !== 'Back';
}

// The dialog of a job: why it is in its state, with what may be done.
export async function showWhy(job, ctx) {
  if (!isOpenToMe(job)) {
    const owner = ctx.config.is_cluster ? 'Its owner' : `User ${job.user || job.uid}`;
    await ask({title: title(job).replace(/^j/, 'J'), actions: [{text: 'Close'}],
      body: [el('p', null, job.reason ? `${job.state}: ${job.reason}` : `The job is ${job.state}.`),
        el('p', {class: 'quiet'}, `${owner} and administrators see more of it and change it.`)]});
    return;
  }
  const body = el('div', null, el('p', {class: 'quiet'}, 'Asking the daemon ...'));
  ctx.api.get(ctx.api.jobPath(job.display_id, 'why'))
    .then((w) => add(fill(body), whyBody(w)), (error) => add(fill(body), errorLine(error)));
  let next = null;
  const answer = await ask({
    title: title(job).replace(/^j/, 'J'),
    body,
    actions: [
      {text: 'Close'}, // first, so that it has the focus
      {text: 'Open', run: () => { next = 'open'; }},
      ...actionsOf(job, ctx.config).map((a) => ({text: a.text, run: () => { next = a.name; }})),
    ],
  });
  if (answer === null || answer === 'Close') return;
  if (next === 'open') ctx.navigate(`#/job/${encodeURIComponent(job.display_id)}`);
  else if (next) await confirmAction(next, job, ctx);
}
