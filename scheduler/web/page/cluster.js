// cluster.js - nodes and GPUs now, in the colours of their jobs, and who had
// which GPU in the last day.
import {el, errorLine, fill, perFrame, refresh, setText, table} from './dom.js';
import {duration, jobColor, moment, percent} from './format.js';
import {Gantt} from './gantt.js';

const EVERY_MS = 15000, AFTER_CHANGE_MS = 1500;
const PERIODS = {'1h': ['the last hour', 3600], '6h': ['the last 6 hours', 21600], '1d': ['the last 24 hours', 86400], '7d': ['the last week', 604800]};

const keyOf = (node) => `${node.name}\n${node.gpu_type}`;
const hrefOf = (hold) => `#/job/${encodeURIComponent(hold.display_id)}`;

// "0-2,5" of a list of numbers.
function indexes(list) {
  const parts = [];
  for (const n of [...list].sort((a, b) => a - b)) {
    const last = parts[parts.length - 1];
    if (last && last[1] === n - 1) last[1] = n;
    else parts.push([n, n]);
  }
  return parts.map(([a, b]) => (a === b ? a : `${a}-${b}`)).join(',');
}

// What each GPU of a node does: [{index, hold, is_drained, is_other}], hold is
// of the job that has it now. Others than the daemon's jobs may use GPUs, and
// the daemon knows how many, not which.
function gpusOf(node, entry, holds) {
  const at = new Map();
  for (const h of holds)
    if (h.to === null && h.node === node.name) for (const g of h.gpus) at.set(g, h);
  const gpus = [];
  for (let i = 0; i < node.gpus_total; i++) {
    const index = node.gpus_from + i;
    gpus.push({index, hold: at.get(index) || null, isDrained: node.drained.includes(index), isOther: false});
  }
  const own = gpus.filter((g) => g.hold).length;
  let others = entry ? entry.gpus_total - entry.gpus_free - entry.gpus_drained - own : 0;
  for (const g of [...gpus].reverse())
    if (others > 0 && !g.hold && !g.isDrained && node.is_up) {
      g.isOther = true;
      others--;
    }
  return gpus;
}

// How many of them: {allocated, idle, drained, down}. One that is in use counts
// as allocated, also on a node that is drained.
function countsOf(gpus, node) {
  const counts = {allocated: 0, idle: 0, drained: 0, down: 0};
  for (const g of gpus)
    if (node.state === 'down') counts.down++;
    else if (g.hold || g.isOther) counts.allocated++;
    else if (g.isDrained || node.state !== 'up') counts.drained++;
    else counts.idle++;
  return counts;
}

// ---- tiles ------------------------------------------------------------------

function word(gpu, node) {
  if (gpu.isDrained) return 'drained';
  if (node.state !== 'up') return node.state;
  return gpu.isOther ? 'in use by others' : 'idle';
}

class Tile {
  constructor(index) {
    this.number = el('span', {class: 'tile-index'}, index);
    this.who = el('span', {class: 'tile-who'});
    this.use = el('span', {class: 'tile-use'});
    this.el = el('a', {class: 'tile'}, this.number, this.who, this.use);
  }

  show(gpu, node) {
    const h = gpu.hold, what = word(gpu, node);
    const isOff = gpu.isDrained || node.state !== 'up';
    const cls = `tile${h ? ' has-job' : ''}${isOff ? ' off' : ''}${gpu.isOther ? ' other' : ''}`;
    if (this.el.className !== cls) this.el.className = cls;
    this.el.style.backgroundColor = h ? jobColor(h.job) : '';
    if (h) this.el.href = hrefOf(h);
    else this.el.removeAttribute('href');
    setText(this.who, h ? h.display_id : what);
    setText(this.use, h && Number.isFinite(h.computing) ? percent(h.computing) : '');
    const state = isOff ? `, ${what}` : '';
    const label = h ? `${node.name}:${gpu.index}: job ${h.display_id} ${h.name} of ${h.user}, computing ${percent(h.computing)}${state}`
      : `${node.name}:${gpu.index}: ${what}`;
    if (this.el.title !== label) {
      this.el.title = label;
      this.el.setAttribute('aria-label', label);
    }
  }
}

class NodeCard {
  constructor(node) {
    this.tiles = new Map();
    this.name = el('h3', null, node.name);
    this.type = el('span', {class: 'quiet'});
    this.state = el('span', {class: 'badge'});
    this.free = el('span', {class: 'quiet'});
    this.why = el('p', {class: 'node-why'});
    this.grid = el('div', {class: 'tiles'});
    this.el = el('section', {class: 'node panel', 'aria-label': `Node ${node.name}`},
      el('div', {class: 'head'}, this.name, this.state, this.type, this.free), this.why, this.grid);
  }

  // Returns how many of its GPUs are allocated, idle, drained and down.
  show(node, entry, holds) {
    const gpus = gpusOf(node, entry, holds), counts = countsOf(gpus, node);
    const drained = node.drained.length;
    const state = node.state === 'up' && drained ? `up, ${drained} drained` : node.state;
    setText(this.state, state);
    this.state.className = `badge ${node.state === 'up' ? (drained ? 'warn' : 'good') : node.state === 'down' ? 'bad' : 'warn'}`;
    const bytes = entry && entry.gpu_bytes > 0 ? `, ${Math.round(entry.gpu_bytes / 2 ** 30)} GiB` : '';
    setText(this.type, `${node.gpu_type || ''}${bytes}`);
    setText(this.free, `${counts.idle} of ${node.gpus_total} idle`);
    const reservation = entry && entry.reservation ? `reservation ${entry.reservation}` : '';
    const why = [entry && entry.why, reservation].filter(Boolean).join('; ');
    setText(this.why, why);
    this.why.hidden = !why;
    for (const g of gpus) {
      if (!this.tiles.has(g.index)) {
        const tile = new Tile(g.index);
        this.tiles.set(g.index, tile);
        this.grid.append(tile.el);
      }
      this.tiles.get(g.index).show(g, node);
    }
    const has = new Set(gpus.map((g) => g.index));
    for (const [index, tile] of this.tiles)
      if (!has.has(index)) {
        tile.el.remove();
        this.tiles.delete(index);
      }
    return counts;
  }
}

// ---- the view ---------------------------------------------------------------

class Cluster {
  constructor(root, params, ctx) {
    this.ctx = ctx;
    this.period = PERIODS[params.since] ? params.since : '1d';
    this.cards = new Map();
    this.end = new AbortController();
    this.states = new Map();
    this.line = el('p', {class: 'quiet head-line'});
    this.notices = el('div');
    this.nodes = el('div', {class: 'nodes'});
    this.gantt = new Gantt((hold) => ctx.navigate(hrefOf(hold)));
    this.holds = el('details', {class: 'more'}, el('summary', null, 'The same as a table'));
    this.holdsBody = el('div');
    this.holds.append(this.holdsBody);
    this.holds.addEventListener('toggle', () => this.showHolds());
    const since = el('select', {'aria-label': 'Period'}, Object.entries(PERIODS).map(([k, [text]]) =>
      el('option', {value: k, selected: k === this.period}, text)));
    since.addEventListener('change', () => {
      this.period = since.value;
      ctx.replace(since.value === '1d' ? '#/cluster' : `#/cluster?since=${since.value}`);
      this.read();
    });
    fill(root, el('div', {class: 'head'}, el('h1', null, 'Cluster'), this.line), this.notices, this.nodes,
      el('div', {class: 'head'}, el('h2', null, 'Who had which GPU'), since), this.gantt.el, this.holds);
    this.drawSoon = perFrame(() => this.gantt.draw());
  }

  show(nodes, gpus) {
    const entries = new Map(nodes.nodes.map((n) => [keyOf(n), n]));
    const seen = new Set();
    const sums = {total: 0, allocated: 0, idle: 0, drained: 0, down: 0};
    for (const n of gpus.nodes) {
      const key = keyOf(n), entry = entries.get(key);
      seen.add(key);
      if (!this.cards.has(key)) {
        const card = new NodeCard(n);
        this.cards.set(key, card);
        this.nodes.append(card.el);
      }
      const counts = this.cards.get(key).show(n, entry, gpus.holds);
      for (const [what, count] of Object.entries({total: n.gpus_total, ...counts})) sums[what] += count;
    }
    for (const [key, card] of this.cards)
      if (!seen.has(key)) {
        card.el.remove();
        this.cards.delete(key);
      }
    const nodeCount = new Set(gpus.nodes.map((n) => n.name)).size;
    const parts = [`${sums.allocated} allocated`, `${sums.idle} idle`];
    if (sums.drained) parts.push(`${sums.drained} drained`);
    if (sums.down) parts.push(`${sums.down} down`);
    setText(this.line, `${sums.total} GPUs or slots on ${nodeCount === 1 ? '1 node' : `${nodeCount} nodes`}: ${parts.join(', ')}`);
    this.gpus = gpus;
    this.gantt.show(gpus);
    this.showHolds();
  }

  showHolds() {
    if (!this.holds.open || !this.gpus) return;
    const end = (h) => (h.to === null ? Date.parse(this.gpus.until) : Date.parse(h.to));
    // Times grow while a job has its GPUs: the time of the reply is a part of it.
    const holds = this.gpus.holds, until = holds.some((h) => h.to === null) ? this.gpus.until : null;
    refresh(this.holdsBody, [holds, until], () => table([
      {title: 'Job', right: true, of: (h) => el('a', {href: hrefOf(h)}, h.display_id)},
      {title: 'User', of: (h) => h.user}, {title: 'Name', of: (h) => h.name},
      {title: 'GPUs', of: (h) => `${h.node}:${indexes(h.gpus)}`},
      {title: 'From', of: (h) => moment(h.from)}, {title: 'To', of: (h) => (h.to === null ? 'now' : moment(h.to))},
      {title: 'Allocated', right: true, of: (h) => duration((end(h) - Date.parse(h.from)) / 1000)},
      {title: 'Computing', right: true, of: (h) => percent(h.computing)},
    ], [...holds].reverse().slice(0, 500), {'aria-label': 'Who had which GPU'}));
  }

  async read() {
    clearTimeout(this.timer);
    this.isAsked = false;
    const number = this.reads = (this.reads || 0) + 1; // an older reply may come later
    const since = Math.floor(Date.now() / 1000 - PERIODS[this.period][1]);
    try {
      const [nodes, gpus] = await Promise.all([
        this.ctx.api.get('/v1/nodes', this.end.signal), this.ctx.api.get(`/v1/gpus?since=${since}`, this.end.signal)]);
      if (number !== this.reads) return;
      fill(this.notices);
      this.show(nodes, gpus);
    } catch (error) {
      if (number !== this.reads) return;
      if (!this.end.signal.aborted) fill(this.notices, errorLine(error));
    }
    clearTimeout(this.timer);
    // What has changed meanwhile, the reply may have or not.
    if (!this.end.signal.aborted) this.timer = setTimeout(() => this.read(), this.isAsked ? AFTER_CHANGE_MS : EVERY_MS);
  }

  // A job whose state or place has changed changes the picture.
  onJob(j) {
    const now = `${j.state} ${j.place} ${j.gpus}`;
    if (this.states.get(j.id) === now) return;
    this.states.set(j.id, now);
    if (!this.gpus || this.isAsked) return;
    this.isAsked = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), AFTER_CHANGE_MS);
  }

  async start() {
    window.addEventListener('resize', this.drawSoon, {signal: this.end.signal});
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', this.drawSoon, {signal: this.end.signal});
    const stop = () => {
      this.end.abort();
      clearTimeout(this.timer);
      this.drawSoon.cancel();
    };
    this.ctx.api.watch((job) => this.onJob(job), this.end.signal).catch(() => {});
    await this.read();
    return stop;
  }
}

export function show(root, params, ctx) {
  return new Cluster(root, params, ctx).start();
}
