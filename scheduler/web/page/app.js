// app.js - the page's entry: which view a link means, the keys, the connection.
//
// A view is a module with show(root, params, ctx), which fills root and returns
// a function that ends it. root is an element of its own: what a view that was
// left still writes, nobody sees. params has `id` (of #/job/12) and what follows the
// '?' of the link, as text. ctx: {api, config, navigate, replace}; replace(hash)
// changes the link without showing the view again.
import * as api from './api.js';
import {add, ask, el, errorLine, fill, setText} from './dom.js';

const VIEWS = {
  queue: () => import('./queue.js'),
  cluster: () => import('./cluster.js'),
  job: () => import('./job.js'),
  compare: () => import('./compare.js'),
  policy: () => import('./policy.js'),
};
const TITLES = {queue: 'Queue', cluster: 'Cluster', job: 'Job', compare: 'Compare', policy: 'Policy'};
// What the page of a cluster shows to everybody.
const SHARED = ['queue', 'cluster'];
const KEYS = [
  ['?', 'Show these keys'], ['/', 'Go to the filter'], ['j  k', 'Next and previous row'],
  ['Enter', 'Open the row'], ['\u2192  \u2190', 'Open or close the sweep of the row'], ['w', 'Why the job of the row is in its state'],
  ['c', 'Cancel the job of the row'], ['h', 'Hold or release the job of the row'],
  ['r', 'Resize the job of the row'], ['x', 'Choose the row, to compare jobs'], ['q  l  p', 'Queue, cluster, policy'],
  ['Escape', 'Close a dialog, leave a field'],
];

const root = document.getElementById('view');
let end = null;  // of the view that is shown
let shown = 0;   // the number of the last view that was asked for
let isLoggedOut = false;

// {view, params} of "#/job/12?x=1".
function parse(hash) {
  const [path, query] = hash.replace(/^#\/?/, '').split('?');
  const [view, id] = path.split('/').map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const params = Object.fromEntries(new URLSearchParams(query || ''));
  return {view: Object.hasOwn(VIEWS, view) ? view : view ? null : 'queue', params: {...params, id: id || null}};
}

function mark(view) {
  for (const a of document.querySelectorAll('nav [data-view]'))
    if (a.dataset.view === view) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
}

async function route(ctx) {
  if (isLoggedOut) return;
  const {view, params} = parse(location.hash);
  const number = ++shown;
  if (end) end();
  end = null;
  mark(view);
  document.title = `${TITLES[view] || 'mgpu'}${params.id ? ` ${params.id}` : ''} - mgpu`;
  const box = el('div');
  fill(root, box);
  root.removeAttribute('data-ready');
  try {
    if (!view) throw new Error(`There is no view "${location.hash}".`);
    if (ctx.config.is_cluster && !SHARED.includes(view))
      throw new api.ApiError('DENIED', 'The page of the cluster shows the queue and the nodes. To see your own jobs, run mgpu-web yourself.', 403);
    const module = await VIEWS[view]();
    if (number !== shown) return;
    const stop = await module.show(box, params, ctx);
    if (number === shown) end = stop || null;
    else if (stop) stop();
  } catch (error) {
    fill(box, errorLine(error));
    if (!(error instanceof api.ApiError)) console.error(error);
  }
  if (number === shown) root.setAttribute('data-ready', view || 'none');
}

// ---- keys -------------------------------------------------------------------

function showKeys() {
  ask({
    title: 'Keys',
    body: el('dl', {class: 'keys'}, KEYS.map(([k, what]) => [
      el('dt', null, k.split('  ').map((one) => el('kbd', null, one))), el('dd', null, what)])),
    actions: [{text: 'Close'}],
  });
}

function moveRow(by) {
  const rows = [...root.querySelectorAll('[data-row]')].filter((r) => r.offsetParent !== null);
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement && document.activeElement.closest('[data-row]'));
  const to = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
  rows[to].focus();
  rows[to].scrollIntoView({block: 'nearest'});
}

function onKey(ctx, e) {
  const target = e.target;
  const isField = target.matches && target.matches('input, select, textarea, [contenteditable]');
  if (e.key === 'Escape' && isField && !target.closest('dialog')) target.blur();
  if (isLoggedOut || isField || e.ctrlKey || e.altKey || e.metaKey || document.querySelector('dialog[open]')) return;
  const row = target.closest && target.closest('[data-row]');
  const filter = root.querySelector('[data-filter]');
  if (e.key === '?') showKeys();
  else if (e.key === '/' && filter) filter.focus();
  else if (e.key === 'j') moveRow(1);
  else if (e.key === 'k') moveRow(-1);
  else if (e.key === 'q') ctx.navigate('#/queue');
  else if (e.key === 'l') ctx.navigate('#/cluster');
  else if (e.key === 'p') ctx.navigate('#/policy');
  else if (e.key === 'Enter' && row && target === row && row.dataset.href) ctx.navigate(row.dataset.href);
  else return;
  e.preventDefault();
}

// ---- the bar ----------------------------------------------------------------

// Makes the cookie invalid. What is shown was for its reader, so it goes.
async function logOut() {
  try {
    await api.post('/web/logout');
  } catch (error) {
    if (error.status !== 403) {
      fill(root, errorLine(error));
      return;
    }
  }
  shown++;
  isLoggedOut = true;
  if (end) end();
  end = null;
  for (const part of document.querySelectorAll('.bar nav, .bar button, #connection, #who')) part.remove();
  fill(root, el('p', {class: 'notice', role: 'status'}, 'You are logged out. The URL that mgpu-web printed logs you in again.'));
}

// ---- start ------------------------------------------------------------------

function showConnection() {
  const place = document.getElementById('connection');
  const say = (isLost, why) => {
    place.className = `connection ${isLost ? 'lost' : 'live'}`;
    setText(place, isLost ? 'connection lost, trying again' : 'connected');
    place.title = why || '';
  };
  say(false);
  api.onConnection(say);
}

async function start() {
  showConnection();
  let config;
  try {
    config = await api.get('/web/config');
  } catch (error) {
    fill(root, errorLine(error));
    return;
  }
  setText(document.getElementById('cluster'), config.cluster || '');
  add(fill(document.getElementById('who')), config.user || '', config.read_only ? el('span', {class: 'tag'}, 'read-only') : null);
  if (config.is_cluster) {
    for (const a of document.querySelectorAll('nav [data-view]')) if (!SHARED.includes(a.dataset.view)) a.remove();
    document.getElementById('logout').remove();
  }
  const ctx = {
    api,
    config,
    navigate: (hash) => { location.hash = hash; },
    replace: (hash) => history.replaceState(null, '', hash),
  };
  document.getElementById('keys').addEventListener('click', showKeys);
  if (!config.is_cluster) document.getElementById('logout').addEventListener('click', logOut);
  document.addEventListener('keydown', (e) => onKey(ctx, e));
  document.querySelector('.skip').addEventListener('click', (e) => { e.preventDefault(); root.focus(); });
  window.addEventListener('hashchange', () => route(ctx));
  await route(ctx);
}

start();
