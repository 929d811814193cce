// job_parts.js - what a job's view shows beside its curves: facts, attempts in
// time, where the time of an iteration goes, efficiency, events, specification.
import {lineStyle} from './chart.js';
import {ask, el, refresh, table} from './dom.js';
import {count, duration, isFinal, isLive, moment, number, percent, stateClass} from './format.js';
import {gpusText} from './rows.js';

const LAST_ROWS = 2000, RANKS_MOST = 32, EVENTS_MOST = 500;
const PHASES = [['t_data', 'waiting for data'], ['t_h2d', 'copying to the device'], ['t_forward', 'forward'],
  ['t_backward', 'backward'], ['t_comm', 'waiting for other ranks'], ['t_optimizer', 'optimizer']];

const facts = (rows) => el('dl', {class: 'facts'}, rows.filter(([, v]) => v !== null && v !== undefined && v !== '')
  .map(([k, v]) => [el('dt', null, k), el('dd', null, v)]));

// ---- the head -------------------------------------------------------------------

function progressOf(job) {
  if (!(job.iteration > 0)) return job.tokenised > 0 && isLive(job.state) ? `tokenising ${Math.floor(100 * job.tokenised)} %` : null;
  const of = (n, total) => (total > 0 ? `${count(n)} of ${count(total)}` : count(n));
  return [`iteration ${of(job.iteration, job.iterations_total)}`, job.epoch > 0 ? `, epoch ${of(job.epoch, job.epochs_total)}` : '',
    job.iterations_total > 0 ? el('progress', {max: job.iterations_total, value: job.iteration, 'aria-label': 'Progress'}) : null];
}

// Facts of the job as it is now; `seen` is when the daemon said it, in ms.
export function factsOf(job, seen) {
  const ran = (job.elapsed_s ?? NaN) + (isLive(job.state) && job.started ? (Date.now() - seen) / 1000 : 0);
  return facts([
    [isFinal(job.state) ? 'Ended because' : 'Reason', job.reason],
    ['Progress', progressOf(job)],
    ['Loss', Number.isFinite(job.loss) ? number(job.loss) : null],
    ['Evaluation', Number.isFinite(job.eval_loss) || Number.isFinite(job.eval_accuracy)
      ? [Number.isFinite(job.eval_loss) ? `loss ${number(job.eval_loss)} ` : '', Number.isFinite(job.eval_accuracy) ? `accuracy ${number(100 * job.eval_accuracy)} %` : ''] : null],
    ['Speed', job.t_iter_s > 0 ? `${number(1 / job.t_iter_s)} iterations a second` : null],
    ['GPUs', `${gpusText(job)}${job.place ? ` on ${job.place}` : ''}`],
    ['Time', Number.isFinite(ran) ? `${duration(ran)}${job.limit_s ? ` of ${duration(job.limit_s)}` : ''}${job.eta_s > 0 && isLive(job.state) ? `, ${duration(job.eta_s)} left` : ''}` : null],
    ['Submitted', moment(job.submitted)],
    ['Started', job.started ? moment(job.started) : null],
    ['Ended', job.ended ? moment(job.ended) : null],
    ['Exit code', job.exit_code === null ? null : job.exit_code],
    ['Account', job.account], ['Partition', job.partition],
    ['Labels', Object.entries(job.labels || {}).map(([k, v]) => (v ? `${k}=${v}` : k)).join(', ')],
    ['Task', job.vary ? Object.entries(job.vary).map(([k, v]) => `${k}=${v}`).join(', ') : null],
  ]);
}

const refusal = (message, hint) => Object.assign(new Error(message), {hint});

// The seconds of a duration as mgpu-job(5) has it: "90s", "2h30m", "1:30:00" or
// "2-00:00:00". Throws what is wrong with another text: "4:00" may mean hours
// or minutes.
export function secondsOf(text) {
  const clock = /^(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)$/.exec(text), units = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text);
  const [d, h, m, s] = (clock || (text ? units : null) || []).slice(1).map((v) => Number(v || 0));
  if (d !== undefined) return d * 86400 + h * 3600 + m * 60 + s;
  const two = /^(\d+):([0-5]\d)$/.exec(text);
  if (two) throw refusal(`"${text}" is ambiguous: hours and minutes, or minutes and seconds.`,
    `Write ${two[1]}:${two[2]}:00, or 0:${two[1].padStart(2, '0')}:${two[2]}.`);
  if (/^\d+$/.test(text)) throw refusal(`"${text}" has no unit.`, `Write ${text}m for minutes, or ${text}h for hours.`);
  throw refusal(`"${text}" is no duration.`, 'Write 90s, 15m, 8h, 2d, 1h30m, 1:30:00 or 2-12:00:00.');
}

// The text of a time limit, which secondsOf() reads as the same: "0:30:00".
export function limitText(s) {
  const text = duration(s), fields = text.split(':').length;
  return fields === 2 ? `0:${text.padStart(5, '0')}` : text;
}

// Asks for another time limit. A promise of whether it was set.
export async function askLimit(job, ctx) {
  const input = el('input', {value: job.limit_s ? limitText(job.limit_s) : '', placeholder: 'none', autofocus: true, 'data-field': 'limit'});
  const answer = await ask({
    title: `Time limit of job ${job.display_id}`,
    body: [el('p', null, '90s, 15m, 2h30m, 1:30:00 or 2-12:00:00. Without a text the job has no limit.'), el('label', null, 'Time limit', input)],
    actions: [{text: 'Back'}, {text: 'Set limit', kind: 'main', run: () => {
      const text = input.value.trim(), s = text === '' ? null : secondsOf(text);
      if (s === 0) throw new Error('A time limit is longer than 0 s.');
      return ctx.api.post(ctx.api.jobPath(job.display_id, 'update'), {time_limit_s: s});
    }}],
  });
  return answer === 'Set limit';
}

export async function askRequeue(job, ctx) {
  const answer = await ask({
    title: `Requeue job ${job.display_id}?`,
    body: el('p', null, 'Its attempt ends, and it waits in the queue again. It continues from its last checkpoint, if it has one.'),
    actions: [{text: 'Back'}, {text: 'Requeue job', kind: 'danger', run: () => ctx.api.post(ctx.api.jobPath(job.display_id, 'requeue'), {})}],
  });
  return answer === 'Requeue job';
}

// ---- attempts ---------------------------------------------------------------------

// Attempts as bars on one axis of time, and as a table.
export function attemptsOf(attempts, job) {
  if (attempts.length === 0) return el('p', {class: 'quiet'}, 'No attempt has begun.');
  const from = Date.parse(attempts[0].intent || attempts[0].claimed || job.submitted);
  const ends = attempts.map((a) => (a.ended ? Date.parse(a.ended) : Date.now()));
  const to = Math.max(from + 1, ...ends);
  const share = (ms) => `${Math.min(100, Math.max(0, 100 * (ms - from) / (to - from))).toFixed(2)}%`;
  const bars = attempts.map((a, i) => {
    const begin = Date.parse(a.intent || a.claimed || job.submitted);
    const why = a.resized_from ? `${a.resized_from} to ${a.gpus} GPUs` : `${a.gpus} ${a.gpus === 1 ? 'GPU' : 'GPUs'}`;
    return el('div', {class: `attempt-bar ${stateClass(a.state)}`, title: `attempt ${a.attempt}, ${why}, ${a.state}, ${duration((ends[i] - begin) / 1000)}`,
      style: {left: share(begin), width: `max(3px, ${share(from + ends[i] - begin)})`}}, `${a.attempt}: ${why}`);
  });
  const cost = (a) => [a.checkpoint_s, a.allocator_s, a.start_s].map((s) => (s === null ? '-' : `${number(s)} s`)).join(' + ');
  const isResized = attempts.some((a) => a.resized_from);
  return [
    el('div', {class: 'attempt-axis', 'aria-hidden': 'true'}, bars),
    el('div', {class: 'attempt-ends quiet', 'aria-hidden': 'true'}, el('span', null, moment(new Date(from).toISOString())), el('span', null, moment(new Date(to).toISOString()))),
    table([
      {title: 'Attempt', right: true, of: (a) => a.attempt},
      {title: 'State', of: (a) => el('span', {class: `badge ${stateClass(a.state)}`}, a.state)},
      {title: 'GPUs', right: true, of: (a) => (a.resized_from ? `${a.resized_from}>${a.gpus}` : a.gpus)},
      {title: 'Place', of: (a) => a.place || '-'},
      {title: 'Started', of: (a) => moment(a.running || a.claimed)},
      {title: 'Ended', of: (a) => (a.ended ? moment(a.ended) : '-')},
      ...(isResized ? [{title: 'Resize: save + allocate + start', of: cost}] : []),
      {title: 'Exit', right: true, of: (a) => (a.exit_code === null ? '-' : a.signal > 0 ? `signal ${a.signal}` : a.exit_code)},
      {title: 'Reason', of: (a) => a.reason || '-'},
    ], attempts, {'aria-label': 'Attempts'}),
  ];
}

// ---- phases, ranks, efficiency ------------------------------------------------------

// Means of the last rows by rank: [{rank, n, t_iter, t_data, ...}].
export function meansOf(reply) {
  const at = Object.fromEntries(reply.columns.map((name, i) => [name, i])), ranks = new Map();
  const newest = reply.rows.reduce((a, r) => Math.max(a, r[at.attempt]), 0);
  const names = ['t_iter', ...PHASES.map(([name]) => name)];
  for (const r of reply.rows) {
    if (r[at.attempt] !== newest) continue;
    let m = ranks.get(r[at.rank]);
    if (!m) ranks.set(r[at.rank], m = {rank: r[at.rank], n: 0, samples: 0, memory: null, sums: new Map()});
    m.n++;
    m.samples += r[at.samples] || 0;
    m.memory = r[at.gpu_mem_bytes] ?? m.memory;
    for (const name of names)
      if (typeof r[at[name]] === 'number') {
        const s = m.sums.get(name) || [0, 0];
        m.sums.set(name, [s[0] + r[at[name]], s[1] + 1]);
      }
  }
  return [...ranks.values()].sort((a, b) => a.rank - b.rank).map((m) => ({...m,
    ...Object.fromEntries(names.map((name) => [name, m.sums.has(name) ? m.sums.get(name)[0] / m.sums.get(name)[1] : NaN]))}));
}

function phaseBar(m, longest) {
  const rest = m.t_iter - PHASES.reduce((sum, [name]) => sum + (m[name] || 0), 0);
  const parts = [...PHASES.map(([name, text], i) => [m[name], text, lineStyle(i).color]), [rest, 'the rest', 'var(--hatch)']];
  return el('div', {class: 'phase-bar', 'aria-hidden': 'true'}, parts.filter(([s]) => s > 0).map(([s, text, color]) =>
    el('span', {title: `${text}: ${number(1000 * s)} ms`, style: {width: `${(100 * s / longest).toFixed(2)}%`, background: color}})));
}

export function phasesOf(means) {
  const known = means.filter((m) => m.t_iter > 0), shown = known.slice(0, RANKS_MOST);
  if (shown.length === 0) return el('p', {class: 'quiet'}, 'The job has reported no iteration with its time.');
  const longest = Math.max(...shown.map((m) => m.t_iter));
  const used = PHASES.map(([name, text], i) => ({name, text, i})).filter((p) => shown.some((m) => m[p.name] > 0));
  const ms = (s) => (Number.isFinite(s) ? number(1000 * s) : '-');
  return [
    el('p', {class: 'quiet'}, `Means of the last ${count(shown[0].n)} iterations, in milliseconds.`,
      known.length > shown.length ? ` The first ${shown.length} of ${known.length} ranks.` : ''),
    el('p', {class: 'phase-legend', 'aria-hidden': 'true'}, used.map((p) => el('span', null, el('span', {class: 'swatch', style: {background: lineStyle(p.i).color}}), p.text))),
    shown.map((m) => el('div', {class: 'phase-row'}, el('span', {class: 'quiet'}, `rank ${m.rank}`), phaseBar(m, longest))),
    table([
      {title: 'Rank', right: true, of: (m) => m.rank},
      {title: 'Iteration', right: true, of: (m) => ms(m.t_iter)},
      ...used.map((p) => ({title: p.text, right: true, of: (m) => ms(m[p.name])})),
      {title: 'Samples a second', right: true, of: (m) => (m.samples > 0 ? number(m.samples / m.n / m.t_iter) : '-')},
      {title: 'GPU memory', right: true, of: (m) => (m.memory > 0 ? `${number(m.memory / 2 ** 30)} GiB` : '-')},
    ], shown, {'aria-label': 'Ranks'}),
  ];
}

// A job of mgpu.eff/1: its figures, and what the daemon advises in words.
export function efficiencyOf(job) {
  const share = (value, text = '') => (Number.isFinite(value) ? percent(value) + text : null);
  return [
    facts([
      ['Computing', share(job.computing)],
      ['Waiting for data', share(job.waiting_for_data)],
      ['Copying', share(job.copying)],
      ['Waiting for ranks', share(job.waiting_for_ranks)],
      ['Efficiency', share(job.efficiency, ` of ${job.gpus} times one GPU`)],
      ['Of the GPU\u2019s limit', share(job.sol)],
      ['GPUs busy', share(job.gpus_busy)],
      ['GPU memory', share(job.gpu_memory)],
      ['CPU', share(job.cpu)],
      ['Time limit used', share(job.limit_used)],
    ]),
    job.notes.length > 0 ? el('ul', {class: 'advice', 'aria-label': 'Advice'}, job.notes.map((note) => el('li', null, note)))
      : el('p', {class: 'quiet'}, 'Nothing stands out.'),
  ];
}

// ---- events and specification ---------------------------------------------------------

function detailText(detail) {
  return Object.entries(detail || {}).filter(([, v]) => v !== null && typeof v !== 'object').map(([k, v]) => `${k}=${v}`).join(' ');
}

export function eventsOf(events) {
  const shown = events.slice(-EVENTS_MOST).reverse();
  return [
    events.length > shown.length ? el('p', {class: 'quiet'}, `The last ${shown.length} events; mgpu-stat --events prints all of them.`) : null,
    table([
      {title: 'Time', of: (e) => moment(e.at)}, {title: 'Event', of: (e) => e.event},
      {title: 'Attempt', right: true, of: (e) => e.attempt || '-'},
      {title: 'By', of: (e) => (e.uid === null ? 'daemon' : `user ${e.uid}`)},
      {title: 'Detail', of: (e) => el('span', {class: 'event-detail mono'}, detailText(e.detail))},
    ], shown, {'aria-label': 'Events'}),
  ];
}

// A text that YAML could take for something else is in quotes.
const isWord = (v) => /^[A-Za-z_/][\w./@-]*$/.test(v) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(v);
const plain = (v) => (typeof v === 'string' && isWord(v) ? v : JSON.stringify(v));
const isEmpty = (v) => v === null || (typeof v === 'object' && Object.keys(v).length === 0);

// The specification as YAML, without what is not set.
export function yamlOf(value, indent = '') {
  const lines = [];
  for (const [k, v] of Object.entries(value)) {
    if (isEmpty(v)) continue;
    const head = Array.isArray(value) ? `${indent}- ` : `${indent}${plain(k)}:`;
    if (Array.isArray(v) && v.every((one) => one === null || typeof one !== 'object')) lines.push(`${head}${Array.isArray(value) ? '' : ' '}[${v.map(plain).join(', ')}]`);
    else if (typeof v === 'object') lines.push(Array.isArray(value) ? head + yamlOf(v, `${indent}  `).trimStart() : `${head}\n${yamlOf(v, `${indent}  `)}`);
    else lines.push(`${head}${Array.isArray(value) ? '' : ' '}${plain(v)}`);
  }
  return lines.join('\n');
}

// A part that is filled when it is opened: load(show) calls show(data, make), as
// refresh() has it.
export function opened(title, load) {
  const body = el('div');
  const part = el('details', {class: 'part'}, el('summary', null, title), body);
  part.addEventListener('toggle', () => { if (part.open) load((data, make) => refresh(body, data, make)); });
  return part;
}

export {EVENTS_MOST, LAST_ROWS};
