// policy.js - what the policy would do now, as `mgpu-admin policy explain` has
// it, what another one would have done, and the settings of scheduling.
import {el, errorLine, fill, refresh, table} from './dom.js';
import {duration, moment} from './format.js';
import {showWhatIf} from './policy/what_if.js';

const EVERY_MS = 10000;
const asked = (j) => (j.gpus_min === j.gpus_max ? String(j.gpus_min) : `${j.gpus_min}..${j.gpus_max}`);

function whyOf(j) {
  if (j.act === 'start') return `starts now: the smallest number of ${asked(j)} that fits`;
  if (j.act === 'runs') return `${j.place || '-'}${j.ends ? `, ends by ${moment(j.ends)}` : ''}`;
  return `${j.reason || '-'}${j.start_estimate ? `, by ${moment(j.start_estimate)}` : ''}`;
}

function planTable(plan) {
  const columns = [
    {title: 'Position', right: true, of: (j) => (j.position > 0 ? j.position : '-')},
    {title: 'Job', right: true, of: (j) => el('a', {href: `#/job/${encodeURIComponent(j.display_id)}`}, j.display_id)},
    {title: 'Name', of: (j) => j.name}, {title: 'User', of: (j) => j.user}, {title: 'Does', of: (j) => j.act},
    {title: 'Priority', right: true, of: (j) => j.priority}, {title: 'Waited', right: true, of: (j) => duration(j.waited_s)},
    {title: 'Requested', right: true, of: asked}, {title: 'Gets', of: (j) => (j.nodes > 0 ? `${j.gpus} on ${j.nodes}` : '-')},
    {title: 'Why', of: whyOf},
  ];
  return [
    el('p', {class: 'quiet'}, `The higher priority is first, then the earlier submit. ${plan.gpus_free} of ${plan.gpus_total} GPUs are idle.`,
      plan.paused ? ' An administrator has paused starts.' : ''),
    plan.jobs.length ? table(columns, plan.jobs, {'aria-label': 'What the policy would do now'}) : el('p', {class: 'quiet'}, 'The queue is empty.'),
    plan.n_more > 0 ? el('p', {class: 'quiet'}, `${plan.n_more} more jobs are in the queue.`) : null,
  ];
}

function originOf(k, file) {
  if (k.origin === 'set') return `set by an administrator${k.until ? `, until ${moment(k.until)}` : ''}`;
  return k.origin === 'file' ? `${file || 'mgpu.yaml'}:${k.line}` : 'default';
}

function keysTable(policy) {
  return table([
    {title: 'Setting', of: (k) => el('span', {class: 'mono'}, k.key)}, {title: 'Value', of: (k) => k.value},
    {title: 'From', of: (k) => originOf(k, policy.file)}, {title: 'Default', of: (k) => k.default},
    {title: 'Allowed', of: (k) => k.range || k.type}, {title: 'Meaning', of: (k) => k.doc},
  ], policy.keys, {'aria-label': 'Settings of scheduling'});
}

export async function show(root, params, ctx) {
  const end = new AbortController();
  const plan = el('div'), whatIf = el('div'), keys = el('div'), title = el('p', {class: 'quiet head-line'});
  let timer = 0, endWhatIf = () => {};
  fill(root, el('div', {class: 'head'}, el('h1', null, 'Policy'), title), el('h2', null, 'What it would do now'), plan,
    el('section', {'aria-label': 'What another setting would have done'}, el('h2', null, 'What another setting would have done'), whatIf),
    el('h2', null, 'Settings'), keys);
  // Returns {reply} or {error}.
  const read = async (path, place, of) => {
    try {
      const reply = await ctx.api.get(path, end.signal);
      refresh(place, reply, () => of(reply));
      return {reply};
    } catch (error) {
      if (!end.signal.aborted) refresh(place, error.message, () => errorLine(error));
      return {error};
    }
  };
  const again = async () => {
    const {error} = await read('/v1/admin/plan', plan, planTable);
    if (!end.signal.aborted) timer = setTimeout(again, EVERY_MS);
    return error || null;
  };
  const [planError, {reply: policy}] = await Promise.all([again(), read('/v1/policy', keys, (p) => {
    title.textContent = `${p.policy}: ${p.summary}`;
    return keysTable(p);
  })]);
  if (policy)
    endWhatIf = await showWhatIf(whatIf, params, ctx, policy, planError, end.signal)
      .catch((error) => { fill(whatIf, errorLine(error)); return () => {}; });
  return () => {
    end.abort();
    endWhatIf();
    clearTimeout(timer);
  };
}
