// format.js - numbers, times and colours as mgpu-stat shows them.

// "1:02", "1:02:03", "2-01:02:03"; "-" when it is not known.
export function duration(s) {
  if (!Number.isFinite(s)) return '-';
  const t = Math.max(0, Math.round(s));
  const two = (n) => String(n).padStart(2, '0');
  const day = Math.floor(t / 86400), h = Math.floor(t / 3600) % 24;
  const ms = `${two(Math.floor(t / 60) % 60)}:${two(t % 60)}`;
  if (day) return `${day}-${two(h)}:${ms}`;
  return h ? `${h}:${ms}` : ms.replace(/^0/, '');
}

// "~45s", "~12m", "~3h", "~2d".
export function about(s) {
  for (const [limit, unit, letter] of [[90, 1, 's'], [5400, 60, 'm'], [129600, 3600, 'h'], [Infinity, 86400, 'd']])
    if (s < limit) return `~${Math.round(s / unit)}${letter}`;
  return '-';
}

// "1,234".
export function count(n) {
  return Number.isFinite(n) ? String(Math.trunc(n)).replace(/\B(?=(\d{3})+(?!\d))/g, ',') : '-';
}

// Four significant digits, without zeros at the end, as %.4g has it.
export function number(v) {
  if (!Number.isFinite(v)) return '-';
  if (v === 0) return '0';
  const text = v.toPrecision(4);
  if (!text.includes('e') && Math.abs(v) >= 1e-4) return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
  return v.toExponential(3).replace(/\.?0+e/, 'e');
}

// "83 %".
export function percent(share) {
  return Number.isFinite(share) ? `${Math.round(100 * share)} %` : '-';
}

// In the reader's own time zone: "14:03:22" today, else "2026-11-29 14:03".
export function moment(text) {
  const at = new Date(text);
  if (!text || Number.isNaN(at.getTime())) return '-';
  const two = (n) => String(n).padStart(2, '0');
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (at.toDateString() === new Date().toDateString()) return `${clock}:${two(at.getSeconds())}`;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}`;
}

// Twelve colours that differ in lightness, too. Black text on each has a
// contrast above 5:1.
export const palette = ['#5b9bff', '#f28e2b', '#59b36b', '#b58be0', '#e8c33c', '#3fb8af',
  '#e8707a', '#8fb7dd', '#a3b24a', '#f08fc0', '#c98a5e', '#6fd3a0'];

// The colour of a job, always the same.
export function jobColor(id) {
  return palette[Number(id) % palette.length];
}

const FINAL = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT', 'NODE_FAIL']);
const PENDING = new Set(['NEW', 'QUEUED', 'HELD']);
export const STATES = ['QUEUED', 'HELD', 'DISPATCHING', 'UNKNOWN', 'STARTING', 'RUNNING',
  'CHECKPOINTING', 'STALLED', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT', 'NODE_FAIL'];

export const isFinal = (state) => FINAL.has(state);
// Whether the daemon shows the page's user all of a job, and lets him change it:
// only the owner and administrators read its labels, others null.
export const isOpenToMe = (job) => job.labels !== null;
export const isPending = (state) => PENDING.has(state);
// It has GPUs, or may.
export const isLive = (state) => !FINAL.has(state) && !PENDING.has(state);

// The class of a state's badge.
export function stateClass(state) {
  if (state === 'RUNNING' || state === 'COMPLETED') return 'good';
  if (state === 'FAILED' || state === 'NODE_FAIL' || state === 'TIMEOUT') return 'bad';
  if (state === 'STALLED' || state === 'UNKNOWN' || state === 'HELD') return 'warn';
  return isLive(state) ? 'busy' : 'plain';
}

// ---- numbers on axes ----------------------------------------------------------

function niceStep(span, n) {
  const raw = span / Math.max(1, n), unit = 10 ** Math.floor(Math.log10(raw)), f = raw / unit;
  return unit * (f <= 1 ? 1 : f <= 2 ? 2 : f <= 5 ? 5 : 10);
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

// {ticks, step}: about n round numbers from lo to hi.
export function linearTicks(lo, hi, n, isTime) {
  let step = niceStep(hi - lo, n);
  if (isTime && step >= 1) step = TIME_STEPS.find((s) => (hi - lo) / s <= n) || step;
  const ticks = [];
  for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9 && ticks.length < 50; k++) ticks.push(k * step);
  return {ticks, step};
}

export function logTicks(lo, hi, n) {
  const ticks = [], from = Math.floor(Math.log10(lo)), to = Math.ceil(Math.log10(hi));
  const every = Math.max(1, Math.ceil((to - from) / n));
  const parts = to - from <= 2 ? [1, 2, 5] : [1];
  for (let d = from; d <= to; d += every)
    for (const p of parts) {
      const v = p * 10 ** d;
      if (v >= lo && v <= hi) ticks.push(v);
    }
  return ticks.length >= 2 ? {ticks, step: 0} : linearTicks(lo, hi, n, false);
}

// step: of the ticks; 0: each stands alone.
export function tickText(v, step) {
  if (v === 0) return '0';
  const size = Math.abs(v);
  if (size >= 1e15 || size < 1e-4) return v.toExponential(1).replace('.0e', 'e');
  for (const [unit, letter] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']])
    if (size >= unit && (unit > 1e3 || size >= 1e4)) return `${Number((v / unit).toPrecision(6))}${letter}`;
  const digits = step > 0 ? Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9))) : 0;
  return step > 0 ? v.toFixed(digits) : String(Number(v.toPrecision(3)));
}
