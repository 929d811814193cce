// job.js - one job: what it is, its curves, where its time goes, its attempts,
// log, events and specification. One stream says when it changes; the curves
// ask for what is new while it runs.
import {actionsOf, confirmAction, showWhy} from './actions.js';
import {el, errorLine, fill, refresh, setText} from './dom.js';
import {isFinal, isLive, stateClass} from './format.js';
import {JobCurves} from './job_curves.js';
import {JobLog} from './job_log.js';
import {EVENTS_MOST, LAST_ROWS, askLimit, askRequeue, attemptsOf, efficiencyOf, eventsOf, factsOf, meansOf, opened, phasesOf, yamlOf} from './job_parts.js';

const UPDATE_MS = 2000, PARTS_MS = 10000, TICK_MS = 1000;

class JobView {
  constructor(root, reply, params, ctx) {
    Object.assign(this, {root, ctx, api: ctx.api, reply, id: reply.job.display_id, seen: Date.now()});
    this.abort = new AbortController();
    this.title = el('h1');
    this.badge = el('span', {class: 'badge'});
    this.user = el('span', {class: 'quiet'});
    this.actions = el('div', {class: 'actions'});
    this.facts = el('div');
    this.curves = new JobCurves(ctx.api, this.id, params, (query) => this.link(query));
    this.log = new JobLog(ctx.api, this.id);
    this.phases = el('div', null, el('p', {class: 'quiet'}, 'Asking the daemon ...'));
    this.efficiency = el('div');
    this.attempts = el('div');
    this.events = opened('Events', (show) => this.loadEvents(show));
    this.spec = opened('Specification', (show) => show(this.reply.job.spec, () => el('pre', null, yamlOf(this.reply.job.spec || {}))));
    fill(root, el('div', {class: 'head'}, this.title, this.badge, this.user, el('span', {class: 'grow'}), this.actions),
      this.facts, this.curves.el,
      el('div', {class: 'job-columns'},
        el('section', {'aria-label': 'Phases'}, el('h2', null, 'Where the time goes'), this.phases),
        el('section', {'aria-label': 'Efficiency'}, el('h2', null, 'Efficiency'), this.efficiency)),
      el('section', {'aria-label': 'Attempts'}, el('h2', null, 'Attempts'), this.attempts),
      this.log.el, this.events, this.spec);
    this.show();
  }

  job() { return this.reply.job; }

  link(query) {
    const text = new URLSearchParams(query).toString();
    this.ctx.replace(`#/job/${encodeURIComponent(this.id)}${text ? `?${text}` : ''}`);
  }

  show() {
    const job = this.job();
    setText(this.title, `Job ${job.display_id}${job.name ? ` ${job.name}` : ''}`);
    setText(this.badge, job.state);
    this.badge.className = `badge ${stateClass(job.state)}`;
    setText(this.user, job.user || `user ${job.uid}`);
    fill(this.facts, factsOf(job, this.seen));
    this.showActions(job);
    const attempts = this.reply.attempts || [], isOpen = attempts.some((a) => !a.ended);
    refresh(this.attempts, [attempts, job.state, isOpen ? Math.floor(Date.now() / PARTS_MS) : 0], () => attemptsOf(attempts, job));
    this.curves.setAttempts(this.reply.attempts);
  }

  // The buttons are made again only if they differ: one may have the focus.
  showActions(job) {
    const may = actionsOf(job, this.ctx.config).map((a) => ({...a, run: () => confirmAction(a.name, this.job(), this.ctx)}));
    if (!this.ctx.config.read_only && !isFinal(job.state)) {
      may.unshift({name: 'limit', text: 'Time limit', run: () => askLimit(this.job(), this.ctx)});
      if (isLive(job.state)) may.unshift({name: 'requeue', text: 'Requeue', run: () => askRequeue(this.job(), this.ctx)});
    }
    may.unshift({name: 'why', text: 'Why', run: () => showWhy(this.job(), this.ctx)});
    if (job.sweep) may.unshift({name: 'sweep', text: 'Compare its sweep', run: () => this.ctx.navigate(`#/compare?sweep=${job.sweep}`)});
    may.unshift({name: 'compare', text: 'Compare', run: () => this.ctx.navigate(`#/compare?jobs=${job.display_id}`)});
    const names = may.map((a) => a.name).join();
    if (names === this.actionNames) return;
    this.actionNames = names;
    fill(this.actions, may.map((a) => el('button', {type: 'button', class: `small ${a.kind || ''}`, 'data-act': a.name,
      on: {click: async () => { if (await a.run()) this.read().catch((error) => this.say(error)); }}}, a.text)));
  }

  say(error) {
    if (error.name !== 'AbortError') fill(this.facts, errorLine(error));
  }

  async read() {
    const number = this.reads = (this.reads || 0) + 1;
    const reply = await this.api.get(this.api.jobPath(this.id), this.abort.signal);
    if (number !== this.reads) return; // a newer one is under way
    this.reply = reply;
    this.seen = Date.now();
    this.show();
    if (this.events.open) this.events.dispatchEvent(new Event('toggle'));
  }

  async loadEvents(show) {
    try {
      const {events} = await this.api.get(`${this.api.jobPath(this.id, 'events')}?last=1&limit=${EVENTS_MOST + 1}`, this.abort.signal);
      show(events, () => eventsOf(events));
    } catch (error) {
      if (error.name !== 'AbortError') show(error.message, () => errorLine(error));
    }
  }

  async loadParts() {
    const get = (what) => this.api.get(this.api.jobPath(this.id, what), this.abort.signal);
    try {
      const means = meansOf(await get(`iterations?last=1&limit=${LAST_ROWS}`));
      refresh(this.phases, means.map(({sums, ...rest}) => rest), () => phasesOf(means));
      const [used] = (await get('efficiency')).jobs;
      refresh(this.efficiency, used, () => efficiencyOf(used));
    } catch (error) {
      if (error.name !== 'AbortError') refresh(this.phases, error.message, () => errorLine(error));
    }
  }

  // A line of the stream has the job without its specification.
  onLine(line) {
    const before = this.job();
    if (!line.job || line.job.id !== before.id) return;
    this.reply.job = {...before, ...line.job};
    this.seen = Date.now();
    if (line.job.state !== before.state || line.job.attempt !== before.attempt) this.read().catch((error) => this.say(error));
    else this.show();
    if (isFinal(line.job.state)) this.stopLive();
  }

  stopLive() {
    if (!this.live) return;
    this.live.abort();
    this.live = null;
    this.readAll();
  }

  // All curves and parts, once more.
  readAll() {
    return this.curves.update(true).then(() => this.loadParts()).catch((error) => this.say(error));
  }

  start() {
    if (!isFinal(this.job().state)) {
      this.live = new AbortController();
      this.api.stream(`/v1/watch?job=${this.job().id}`, (line) => this.onLine(line), this.live.signal).catch((error) => this.say(error));
    }
    this.log.run(!isFinal(this.job().state));
    this.isBusy = true;
    this.curves.update(true).then(() => {
      this.root.setAttribute('data-curves', 'ready');
      return this.loadParts();
    }).finally(() => { this.isBusy = false; }).catch((error) => this.say(error));
    let parts = Date.now();
    this.timer = setInterval(() => {
      if (!(this.live || this.curves.failure) || document.hidden || this.isBusy) return;
      this.isBusy = true;
      const isTime = Date.now() - parts > PARTS_MS;
      if (isTime) parts = Date.now();
      this.curves.update().then(() => (isTime ? this.loadParts() : null)).catch(() => {}).finally(() => { this.isBusy = false; });
    }, UPDATE_MS);
    this.ticks = setInterval(() => { if (this.live && !document.hidden) fill(this.facts, factsOf(this.job(), this.seen)); }, TICK_MS);
  }

  end() {
    clearInterval(this.timer);
    clearInterval(this.ticks);
    this.abort.abort();
    if (this.live) this.live.abort();
    this.curves.end();
    this.log.end();
    this.root.removeAttribute('data-curves');
  }
}

export async function show(root, params, ctx) {
  if (!params.id) throw new Error('The link names no job.');
  fill(root, el('p', {class: 'quiet'}, 'Asking the daemon ...'));
  const reply = await ctx.api.get(ctx.api.jobPath(params.id));
  const view = new JobView(root, reply, params, ctx);
  view.start();
  return () => view.end();
}
