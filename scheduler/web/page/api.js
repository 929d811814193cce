// api.js - what the daemon says: replies, streams, and errors.

// What a request failed with. code is the daemon's ("NOTFOUND"), or
// "UNAVAILABLE" when there was no answer; status is 0 then.
export class ApiError extends Error {
  constructor(code, message, status, hint, retryMs) {
    super(message);
    this.code = code;
    this.status = status;
    this.hint = hint || null;
    this.retryMs = Number.isFinite(retryMs) ? retryMs : Infinity; // after which another try may succeed
  }
}

const listeners = new Set();
let lost = false;

// f(is_lost, why): called when the connection is lost, and when it is back.
// Returns what removes f.
export function onConnection(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}

function tell(isLost, why) {
  if (lost === isLost) return;
  lost = isLost;
  for (const f of listeners) f(isLost, why);
}

async function errorOf(reply) {
  const text = await reply.text().catch(() => '');
  try {
    const e = JSON.parse(text).error;
    return new ApiError(e.code, e.message, reply.status, e.hint, 1000 * (e.retry_after_s ?? NaN));
  } catch {
    const why = text.trim() || `The answer was ${reply.status}.`;
    return new ApiError(`HTTP ${reply.status}`, why, reply.status);
  }
}

async function requestOnce(path, options) {
  let reply;
  try {
    reply = await fetch(path, {credentials: 'same-origin', cache: 'no-store', ...options});
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    tell(true, 'mgpu-web does not answer');
    throw new ApiError('UNAVAILABLE', 'mgpu-web does not answer.', 0);
  }
  if (reply.ok) return reply;
  const error = await errorOf(reply);
  if (reply.status === 502 || reply.status === 503) tell(true, error.message);
  throw error;
}

const LIMITED_MS = 60000;

// As the tools do, a GET that the daemon's limit of requests refuses waits for as
// long as the daemon says, and no more than LIMITED_MS in all.
async function request(path, options) {
  for (let waited = 0; ;) {
    try {
      return await requestOnce(path, options);
    } catch (error) {
      const isLimit = (error.status === 429 || error.status === 503) && !options.method;
      if (!isLimit || waited + error.retryMs > LIMITED_MS) throw error;
      const pause = Math.max(error.retryMs, 10);
      waited += pause;
      await wait(pause, options.signal);
    }
  }
}

// GET: the document; with `signal` the request can be ended.
export async function get(path, signal) {
  const reply = await request(path, {signal});
  const value = await reply.json();
  tell(false);
  return value;
}

// GET of text.
export async function text(path, signal) {
  return (await request(path, {signal})).text();
}

// With `signal` the request can be ended, and with it what it waits for.
export async function post(path, body, signal) {
  const reply = await request(path, {
    method: 'POST',
    signal,
    headers: {'Content-Type': 'application/json', 'X-Mgpu-Web': '1'},
    body: JSON.stringify(body || {}),
  });
  return reply.json().catch(() => ({}));
}

// Until ms have passed, or signal.
function wait(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(id);
      if (signal) signal.removeEventListener('abort', done);
      resolve();
    };
    const id = setTimeout(done, ms);
    if (signal) signal.addEventListener('abort', done);
  });
}

function untilVisible(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (!document.hidden || signal.aborted) {
        document.removeEventListener('visibilitychange', look);
        signal.removeEventListener('abort', look);
        resolve();
      }
    };
    document.addEventListener('visibilitychange', look);
    signal.addEventListener('abort', look);
    look();
  });
}

// The pieces of a text stream. Ends when the server ends it; throws ApiError.
async function* pieces(path, signal) {
  const reply = await request(path, {signal});
  tell(false);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (e) {
      throw signal.aborted ? e : new ApiError('UNAVAILABLE', 'The connection was lost.', 0);
    }
    if (piece.done) return;
    yield piece.value;
  }
}

// GET of text that goes on (a log that is followed): onPiece(piece) until the
// server ends it. Throws ApiError, or AbortError after signal.
export async function follow(path, onPiece, signal) {
  for await (const piece of pieces(path, signal)) onPiece(piece);
}

async function readLines(path, onLine, signal) {
  let rest = '';
  for await (const piece of pieces(path, signal)) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop();
    for (const line of lines) if (line) onLine(JSON.parse(line));
  }
}

const FIRST_PAUSE_MS = 500, LONGEST_PAUSE_MS = 15000, HIDDEN_MS = 2000;

// A stream of JSON lines that goes on: onLine(value), until signal. A stream
// that ends is opened again after a pause that grows; `path` may be a function,
// which is asked each time. While nobody sees the page, the stream rests: a
// browser has six connections for all tabs of an origin. An error that another
// try cannot mend (400 to 499) ends it: the promise is rejected.
export async function stream(path, onLine, signal) {
  let pause = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    await untilVisible(signal);
    if (signal.aborted) return;
    const one = new AbortController();
    const end = () => one.abort();
    let rest = 0;
    const onHidden = () => {
      clearTimeout(rest);
      if (document.hidden) rest = setTimeout(end, HIDDEN_MS);
    };
    signal.addEventListener('abort', end);
    document.addEventListener('visibilitychange', onHidden);
    // A browser may keep a page that was left, with its connections.
    window.addEventListener('pagehide', end);
    try {
      await readLines(typeof path === 'function' ? path() : path, (line) => {
        pause = FIRST_PAUSE_MS;
        onLine(line);
      }, one.signal);
    } catch (e) {
      if (signal.aborted) return;
      if (e.status >= 400 && e.status < 500 && e.status !== 429) throw e;
    } finally {
      clearTimeout(rest);
      signal.removeEventListener('abort', end);
      document.removeEventListener('visibilitychange', onHidden);
      window.removeEventListener('pagehide', end);
    }
    if (signal.aborted) return;
    if (!one.signal.aborted) {
      tell(true, 'the connection was lost');
      await wait(pause, signal);
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    } else {
      await wait(FIRST_PAUSE_MS, signal); // a page that was left stops here
    }
  }
}

// The jobs as they change: onJob(job) for each, until signal. After a break the
// daemon says what has changed since. onSynced(ids) when what it had to say first
// has been said: ids are those of all jobs that the daemon has in memory, or null
// if what was known before is still right.
export function watch(onJob, signal, onSynced) {
  let cursor = 'new', seen = new Set();
  const path = () => {
    seen = new Set();
    return `/v1/watch?cursor=${encodeURIComponent(cursor)}`;
  };
  const onLine = (line) => {
    if (line.job) {
      seen.add(line.job.id);
      onJob(line.job);
    } else if (line.cursor) {
      cursor = line.cursor;
      const ids = seen;
      seen = new Set();
      if (onSynced) onSynced(line.whole ? ids : null);
    }
  };
  return stream(path, onLine, signal);
}

// The path of a job's data: jobPath('12_3', 'why') is /v1/jobs/12_3/why.
export function jobPath(id, what) {
  return `/v1/jobs/${encodeURIComponent(id)}${what ? `/${what}` : ''}`;
}
