"""mgpu.py - submit jobs to mgpu from Python, and read what they report.

    import mgpu
    job = mgpu.submit("job.yaml", gpus=2, time_limit="1h")
    future = mgpu.submit_function(train, 3e-4, gpus=1)
    print(job.wait(), future.result())

In a training script, `import mgpu as wandb` records its curves: in a job as the
job's, anywhere else as a run of their own.

One file, the standard library alone, Python 3.9 and later. It talks to the
daemon over the unix socket that the tools would use (MGPU_URL, see
mgpu-submit(1)), and over TCP through the tools, which authenticate with MUNGE.
docs/python.md has the examples.
"""

import ast
import atexit
import collections.abc
import concurrent.futures
import contextlib
import datetime
import html
import http.client
import importlib
import inspect
import io
import json
import math
import numbers
import os
import pickle
import re
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import types
import urllib.parse

__version__ = "0.1.0"

ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
LIVE = ("NEW", "QUEUED", "HELD", "DISPATCHING", "UNKNOWN", "STARTING",
        "RUNNING", "CHECKPOINTING", "STALLED")

CONNECT_S = 5  # to reach the daemon
REQUEST_S = 10  # for an answer, which takes milliseconds
LIMITED_S = 60  # at most, in all, for a daemon that says: come back later
# A daemon that restarts is away for some seconds: waiting goes on for so long.
PATIENCE_S = 60
PAGE = 100000  # rows of a reply


# ---- errors -----------------------------------------------------------------


class Error(Exception):
    """What the daemon or a tool refused.

    code     a word of mgpu-submit(1), such as "NOTFOUND"
    message  one sentence
    hint     what to do, or ""
    """

    code = "INTERNAL"

    def __init__(self, message, hint="", code=None):
        Exception.__init__(self, message, hint)
        self.message = message
        self.hint = hint
        self.code = code or type(self).code

    def __str__(self):
        hint = " (%s)" % self.hint if self.hint else ""
        return "%s [%s]%s" % (self.message, self.code, hint)

    def __reduce__(self):
        return type(self), (self.message, self.hint, self.code)


class Usage(Error, ValueError):
    """The call is wrong."""

    code = "USAGE"


class Invalid(Error, ValueError):
    """A specification or an argument is wrong.

    findings  a dict for each mistake: code, line, column, path, message, hint
    """

    code = "INVAL"
    findings = ()


class NotFound(Error, LookupError):
    """There is no such job."""

    code = "NOTFOUND"


class Unavailable(Error, ConnectionError):
    """No daemon answers."""

    code = "UNAVAIL"


class State(Error):
    """The job's state does not allow it."""

    code = "STATE"


class Busy(Error):
    """Not possible now; try again later."""

    code = "BUSY"


class Limit(Busy):
    """A limit of the daemon was reached."""

    code = "LIMIT"


class Denied(Error, PermissionError):
    """The caller may not do that."""

    code = "DENIED"


class Timeout(Error, TimeoutError):
    """A deadline has passed."""

    code = "TIMEOUT"


class Failure(Error):
    """A file, a service or a device of the daemon failed."""

    code = "IO"


class JobFailed(Error):
    """A job ended without a result. job: the Job."""

    code = "STATE"
    job = None


class CannotTravel(Error, TypeError):
    """A function or a value cannot be sent to a job."""

    code = "USAGE"


class NoResult(Error):
    """The file of a result is missing, or is not to be trusted."""

    code = "IO"


class _Missing(NoResult):
    """The file of a result is not there."""


class RemoteError(Error):
    """A function's exception that cannot be rebuilt here, in words."""

    code = "STATE"


class RemoteTraceback(Exception):
    """The traceback of a job, as text."""

    def __init__(self, text):
        Exception.__init__(self, text)
        self.text = text

    def __str__(self):
        return '\n"""\n%s"""' % self.text


_CLASSES = {c.code: c for c in (Usage, Invalid, NotFound, Unavailable, State,
                                Busy, Limit, Denied, Timeout)}


def _error(code, message):
    """The exception for an error of the daemon."""
    hint = ""
    found = re.search(r"\[(E\d+)\]", message)
    if found:
        hint = "mgpu-submit --explain %s says more" % found.group(1)
    elif ": start one with " in message:
        message, _, hint = message.rpartition(": start one with ")
        hint = "start one with " + hint
    return _CLASSES.get(code, Failure)(message, hint, code)


def _findings_error(findings):
    """The exception for the mistakes of a specification."""
    wrong = [f for f in findings if f["severity"] == "error"] or findings
    lines = ["%s:%d:%d: %s [%s]" % (f["file"], f["line"], f["column"],
                                    f["message"], f["code"])
             + (": " + f["hint"] if f.get("hint") else "") for f in wrong]
    error = Invalid("\n".join(lines), "mgpu-submit --explain %s says more"
                    % wrong[0]["code"])
    error.findings = findings
    return error


# ---- the way to the daemon --------------------------------------------------


def default_url():
    """The daemon that the tools would ask: see mgpu-submit(1)."""
    url = os.environ.get("MGPU_URL")
    if url:
        return url
    run = os.environ.get("XDG_RUNTIME_DIR", "")
    path = (run + "/mgpu/ctld.sock" if run.startswith("/")
            else "/tmp/mgpu-%d/ctld.sock" % os.getuid())
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        # Another user's socket in /tmp is not this user's daemon.
        if stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid():
            return "unix:" + path
    return "unix:/run/mgpu/ctld.sock"


def _tool(name):
    """The path of a tool: in MGPU_BIN, in PATH, or where packages put it."""
    dirs = [os.environ.get("MGPU_BIN", ""), os.environ.get("PATH", os.defpath),
            "/usr/local/bin", "/usr/bin"]
    path = shutil.which(name, path=os.pathsep.join(d for d in dirs if d))
    if not path:
        raise Unavailable("%s is not in PATH" % name,
                          "install mgpu, or set MGPU_BIN to its directory")
    return path


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        http.client.HTTPConnection.__init__(self, "mgpu", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(CONNECT_S)
        self.sock.connect(self.path)
        self.sock.settimeout(self.timeout)


class _Socket:
    """Requests over a unix socket; paths as in mgpu-ctld(8)."""

    def __init__(self, url):
        self.url = url
        self.path = url[len("unix:"):]

    def _open(self, method, path, body, timeout, headers):
        conn = _UnixConnection(self.path, timeout)
        try:
            conn.request(method, path, body, headers)
            return conn, conn.getresponse()
        except (OSError, http.client.HTTPException) as e:
            conn.close()
            if isinstance(e, socket.timeout):
                raise Timeout("the daemon at '%s' did not answer in %d s"
                              % (self.url, timeout or CONNECT_S)) from None
            raise Unavailable("no daemon answers at '%s': %s" % (self.url, e),
                              "start one with 'mgpu-ctld --local'") from None

    def _get(self, method, path, body=None, timeout=REQUEST_S, headers=None):
        """An answer that is no error; waits for a daemon that says so."""
        waited = 0.0
        while True:
            conn, reply = self._open(method, path, body, timeout,
                                     headers or {})
            if reply.status < 400:
                return conn, reply
            try:
                error = json.loads(reply.read())["error"]
            except (OSError, ValueError, KeyError, http.client.HTTPException):
                error = {"code": "INTERNAL",
                         "message": "the daemon answered %d" % reply.status}
            finally:
                conn.close()
            after = error.get("retry_after_s")
            if (reply.status not in (429, 503) or after is None
                    or waited + after > LIMITED_S):
                raise _error(error["code"], error["message"])
            time.sleep(max(after, 0.01))
            waited += after

    def call(self, method, path, query=None, body=None, headers=None):
        if query:
            path += "?" + urllib.parse.urlencode(query)
        if method == "POST" and not isinstance(body, bytes):
            body = json.dumps(body or {})
        conn, reply = self._get(method, path, body, headers=headers)
        try:
            return json.loads(reply.read())
        except (OSError, http.client.HTTPException) as e:
            raise Unavailable("the answer of '%s' broke off: %s"
                              % (self.url, e)) from None
        finally:
            conn.close()

    def jobs(self, query):
        return self.call("GET", "/v1/jobs", query)["jobs"]

    def job(self, job):
        return self.call("GET", "/v1/jobs/%s" % job)

    def view(self, job, name):
        return self.call("GET", "/v1/jobs/%s/%s" % (job, name))

    def rows(self, job, view):
        """Pages of the rows of each attempt: (columns, rows)."""
        key = "epoch" if view in ("epochs", "profile") else "iteration"
        if view == "scaling":
            reply = self.view(job, view)
            yield reply["columns"], reply["rows"]
            return
        attempts = self.job(job)["job"]["attempt"]
        for attempt in range(1, max(attempts, 1) + 1):
            after = -2
            while after is not None:
                reply = self.call("GET", "/v1/jobs/%s/%s" % (job, view),
                                  {"attempt": attempt, "after": after})
                rows, after = _whole_rows(reply, key)
                yield reply["columns"], rows

    def act(self, job, action, body):
        return self.call("POST", "/v1/jobs/%s/%s" % (job, action), None, body)

    def logs(self, job, query):
        """Lines of a log, as they come."""
        path = "/v1/jobs/%s/logs?%s" % (job, urllib.parse.urlencode(query))
        conn, reply = self._get(
            "GET", path, timeout=None if "follow" in query else REQUEST_S)
        try:
            for line in iter(reply.readline, b""):
                yield line.decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as e:
            raise Unavailable("the log broke off: %s" % e) from None
        finally:
            conn.close()


def _whole_rows(reply, key):
    """The rows of a page, and where the next page begins or None. A full page
    may end within an iteration, which the next page has as a whole."""
    rows = reply["rows"]
    if len(rows) < PAGE:
        return rows, None
    at = reply["columns"].index(key)
    last = rows[-1][at]
    whole = [r for r in rows if r[at] != last]
    if not whole:
        return rows, last
    return whole, (-1 if last is None else last) - 1


class _Tools:
    """The same answers from the tools, which can authenticate over TCP."""

    VIEWS = {"iterations": "--metrics", "epochs": "--epochs",
             "profile": "--profile", "scaling": "--scaling",
             "events": "--events", "why": "--why"}

    def __init__(self, url):
        self.url = url

    def run(self, tool, *args, data=None):
        done = subprocess.run(
            [_tool(tool), "--url", self.url, *args], check=False,
            input=data, capture_output=True, encoding="utf-8",
            errors="replace")
        return done

    def json(self, tool, *args):
        done = self.run(tool, "--json", *args)
        return _tool_reply(tool, done)

    def jobs(self, query):
        args = []
        names = {"node": "on", "limit": "count"}
        query = dict(query)
        query.pop("fields", None)
        query.setdefault("state", "all")
        query.setdefault("user", "all")
        low = query.pop("id_min", 0)
        high = query.pop("id_max", math.inf)
        sweep = query.pop("sweep", None)
        for key, value in query.items():
            args += ["--%s" % names.get(key, key), str(value)]
        found = self.json("mgpu-stat", *args)["jobs"]
        return [j for j in found if low <= j["id"] <= high
                and sweep in (None, j["sweep"])]

    def job(self, job):
        return self.json("mgpu-stat", str(job))

    def view(self, job, name):
        return self.json("mgpu-stat", self.VIEWS[name], str(job))

    def rows(self, job, view):
        if view != "values":
            reply = self.view(job, view)
            yield reply["columns"], reply["rows"]
            return
        done = self.run("mgpu-stat", "--export", "jsonl", str(job))
        if done.returncode:
            raise _tool_error("mgpu-stat", done)
        columns = set(self.view(job, "iterations")["columns"])
        rows = []
        for line in done.stdout.splitlines():
            row = json.loads(line)
            row = row.get("row", row)
            rows += [[row.get("attempt"), row.get("rank"),
                      row.get("iteration"), name, value]
                     for name, value in row.items()
                     if name not in columns and name != "job"]
        yield ["attempt", "rank", "iteration", "name", "value"], rows

    def act(self, job, action, body):
        if action == "cancel":
            args = ["--signal", body["signal"]] if "signal" in body else []
            reply = self.json("mgpu-cancel", *args, str(job))
        elif action == "resize":
            gpus = body.get("gpus")
            reply = self.json("mgpu-admin", "resize", str(job),
                              "any" if gpus is None else str(gpus))
        else:
            reply = self.json("mgpu-admin", action, str(job))
        for one in reply.get("jobs", []):
            if "code" in one:
                raise _error(one["code"], one["message"])
        return reply

    def logs(self, job, query):
        args = ["--logs"]
        for key, value in query.items():
            args += ["--follow"] if key == "follow" else [
                "--%s" % key, str(value)]
        with subprocess.Popen(
                [_tool("mgpu-stat"), "--url", self.url, *args, str(job)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                encoding="utf-8", errors="replace") as tool:
            try:
                yield from tool.stdout
                said = tool.stderr.read()
            finally:
                tool.terminate()
        if tool.returncode not in (0, -15):
            done = subprocess.CompletedProcess([], tool.returncode, "", said)
            raise _tool_error("mgpu-stat", done)


_STATUS = {64: "USAGE", 65: "INVAL", 66: "NOTFOUND", 69: "UNAVAIL",
           73: "STATE", 75: "BUSY", 77: "DENIED", 124: "TIMEOUT"}


def _tool_error(tool, done):
    """The exception of a tool that printed no JSON."""
    said = done.stderr.strip() or "exit status %d" % done.returncode
    said = said[len(tool) + 2:] if said.startswith(tool + ": ") else said
    return _error(_STATUS.get(done.returncode, "IO"), said)


def _tool_reply(tool, done):
    """The document of a tool; its error is an exception."""
    try:
        reply = json.loads(done.stdout)
    except ValueError:
        raise _tool_error(tool, done) from None
    if reply["schema"] == "mgpu.error/1":
        error = _error(reply["error"]["code"], reply["error"]["message"])
        key = re.search(r"--idempotency-key (\S+)", done.stderr)
        if key:
            error.hint = ("the job may have been accepted: to have it once, "
                          "submit again with idempotency_key='%s'"
                          % key.group(1))
        raise error
    if reply["schema"] == "mgpu.findings/1" and done.returncode:
        raise _findings_error(reply["findings"])
    return reply


def _backend(url=None):
    url = url or default_url()
    return _Socket(url) if url.startswith("unix:") else _Tools(url)


# ---- jobs -------------------------------------------------------------------


class Rows(dict):
    """Rows of a table: a list for each column."""

    def to_pandas(self):
        """A pandas.DataFrame; ImportError where there is no pandas."""
        return importlib.import_module("pandas").DataFrame(dict(self))


class Job:
    """A job, or a sweep by its number.

    id    its number, or "12_3" for task 3 of sweep 12
    info  what the daemon last said of it: a dict, see mgpu.schema.json
    """

    def __init__(self, id, url=None, info=None, backend=None):
        self.id = id
        self.warnings = []
        self._backend = backend or _backend(url)
        self._info = info

    def __repr__(self):
        if not self._info:
            return "Job(%r)" % (self.id,)
        return "Job(%r, %s)" % (self.id, self._info.get("state"))

    @property
    def info(self):
        if self._info is None:
            self.refresh()
        return self._info

    def refresh(self):
        """Asks the daemon again; returns the job."""
        self._info = self._backend.job(self.id)["job"]
        return self

    @property
    def state(self):
        """Its state now."""
        if self._info is None or self._info.get("state") not in ENDED:
            self.refresh()
        return self._info["state"]

    @property
    def exit_code(self):
        """As mgpu-submit --wait exits; None until it has ended."""
        return self.info["exit_code"] if self.state in ENDED else None

    @property
    def tasks(self):
        """The jobs of a sweep; [] of one that is none."""
        if str(self.info.get("sweep")) != str(self.id):
            return []
        found = self._backend.jobs({"sweep": self.info["sweep"]})
        return [Job(j["display_id"], info=j, backend=self._backend)
                for j in sorted(found, key=lambda j: j["id"])]

    def wait(self, timeout=None):
        """Waits until the job, or each task of the sweep, has ended.

        Returns its state, of a sweep a list. Raises Timeout after `timeout`
        seconds; the job goes on. Waits for a daemon that restarts.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        looks = _Looks(deadline)
        tasks = looks.ask(lambda: self.tasks) or [self]
        for job in tasks:
            while looks.ask(lambda j=job: j.state) not in ENDED:
                looks.pause(job.id)
        return [j.state for j in tasks] if tasks != [self] else self.state

    def logs(self, follow=False, rank=None, since=None, tail=None):
        """Its output as one str; with follow=True an iterator of lines that
        ends with the job.

        rank   of this rank alone
        since  a datetime, or so many seconds ago
        tail   only so many lines at the end
        """
        query = {}
        if rank is not None:
            query["rank"] = rank
        if since is not None:
            query["since"] = _time(since)
        if follow:
            return self._backend.logs(self.id, dict(query, follow=1))
        lines = list(self._backend.logs(self.id, query))
        return "".join(lines if tail is None else lines[-tail:] if tail
                       else [])

    def rows(self, view="iterations"):
        """Rows of `view`: iterations, epochs, values, profile, scaling."""
        views = ("iterations", "epochs", "values", "profile", "scaling")
        if view not in views:
            raise Usage("no rows %r" % view, "there are " + ", ".join(views))
        out = Rows()
        for columns, rows in self._backend.rows(self.id, view):
            for i, name in enumerate(columns):
                out.setdefault(name, []).extend(_number(r[i]) for r in rows)
        return out

    def metrics(self, rank=0):
        """The curves of a rank: `iteration`, and a list for each metric that
        has a value, None where an iteration has none. What a later attempt
        repeats replaces what an earlier one had."""
        table = {}
        iterations = self.rows("iterations")
        skip = ("attempt", "rank", "iteration", "started_at")
        for i, at in enumerate(iterations.get("iteration", [])):
            if iterations["rank"][i] == rank:
                table[at] = {n: column[i] for n, column in iterations.items()
                             if n not in skip and column[i] is not None}
        values = self.rows("values")
        for i, at in enumerate(values.get("iteration", [])):
            if values["rank"][i] == rank and at is not None:
                table.setdefault(at, {})[values["name"][i]] = (
                    values["value"][i])
        names = sorted({n for row in table.values() for n in row})
        out = Rows(iteration=sorted(table))
        for n in names:
            out[n] = [table[at].get(n) for at in out["iteration"]]
        return out

    def events(self):
        """Its events, a dict each."""
        return self._backend.view(self.id, "events")["events"]

    def why(self):
        """Why it is pending, or in its state: mgpu.why/1."""
        return self._backend.view(self.id, "why")

    def cancel(self, signal=None):
        """Cancels it, or sends its ranks a signal, such as "USR1"."""
        self._backend.act(self.id, "cancel",
                          {} if signal is None else {"signal": signal})

    def resize(self, gpus):
        """Continues it on so many GPUs; None: as the policy chooses."""
        self._backend.act(self.id, "resize", {"gpus": gpus})

    def hold(self):
        """Keeps it from starting."""
        self._backend.act(self.id, "hold", {})

    def release(self):
        """Lets it start."""
        self._backend.act(self.id, "release", {})

    def requeue(self):
        """Ends its attempt, and queues it again."""
        self._backend.act(self.id, "requeue", {})

    def _repr_html_(self):
        if self._info is None or self._info.get("state") not in ENDED:
            self.refresh()
        return _html_table([self])


def _html_table(jobs):
    """Jobs for a notebook. A name or a reason may have any characters."""
    columns = ("display_id", "name", "state", "gpus", "place", "iteration",
               "loss", "reason")
    titles = ("job", "name", "state", "GPUs", "place", "iteration", "loss",
              "reason")
    rows = ["".join("<th>%s</th>" % t for t in titles)]
    for job in jobs:
        cells = (job.info.get(c) for c in columns)
        rows.append("".join(
            "<td>%s</td>" % html.escape("" if c is None else "%.6g" % c
                                        if isinstance(c, float) else str(c))
            for c in cells))
    return "<table>%s</table>" % "".join("<tr>%s</tr>" % r for r in rows)


class Jobs(list):
    """A list of jobs that a notebook shows as a table."""

    def to_pandas(self):
        """A pandas.DataFrame; ImportError where there is no pandas."""
        return importlib.import_module("pandas").DataFrame(
            [j.info for j in self])

    def _repr_html_(self):
        return _html_table(self)


def _is_away(error):
    """Whether a daemon that is asked again later may answer: it is away or
    busy, or this machine has no more files or processes now."""
    return isinstance(error, (Unavailable, Timeout, Busy)) or (
        isinstance(error, OSError) and not isinstance(error, Error))


class _Looks:
    """Looks again and again, less often with time; bears a daemon that is
    away for PATIENCE_S."""

    def __init__(self, deadline=math.inf):
        self.deadline = deadline
        self.pause_s = 0.05
        self.away_since = None

    def ask(self, question):
        while True:
            try:
                answer = question()
                self.away_since = None
                return answer
            except Exception as e:
                if not _is_away(e):
                    raise
                self.bear(e)
                self.pause(None)

    def bear(self, error):
        """Raises the error of a daemon that is away for too long."""
        now = time.monotonic()
        if self.away_since is None:
            self.away_since = now
        if now - self.away_since >= PATIENCE_S:
            raise error

    def pause(self, what):
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Timeout("job %s has not ended in time" % what if what
                          else "no daemon answers in time")
        time.sleep(min(self.pause_s, left))
        self.pause_s = min(self.pause_s * 1.3, 2)


def _time(value):
    """RFC 3339 in UTC of a datetime, or of so many seconds ago."""
    if isinstance(value, numbers.Real):
        value = datetime.timedelta(seconds=value)
    if isinstance(value, datetime.timedelta):
        value = datetime.datetime.now(datetime.timezone.utc) - value
    if isinstance(value, datetime.datetime):
        value = value.astimezone(datetime.timezone.utc)
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return value


def _number(value):
    """JSON has no infinity: the daemon writes a word."""
    return {"Infinity": math.inf, "-Infinity": -math.inf}.get(value, value) \
        if isinstance(value, str) else value


def jobs(user="me", state=None, url=None, **filters):
    """The jobs that match, oldest first; without a state those that have not
    ended.

    user     a name, "me" or "all"
    state    "RUNNING", ["FAILED", "TIMEOUT"], or "all"
    filters  name, account, partition, label, node, sweep, since, limit, as
             options of mgpu-stat(1); since is a datetime or seconds ago
    """
    known = ("name", "account", "partition", "label", "node", "sweep",
             "since", "limit")
    for key in filters:
        if key not in known:
            raise Usage("no filter %r" % key, "there are " + ", ".join(known))
    states = LIVE if state is None else state
    query = {k: v for k, v in filters.items() if v is not None}
    if "since" in query:
        query["since"] = _time(query["since"])
    if user is not None:
        query["user"] = user
    if states != "all":
        query["state"] = (states if isinstance(states, str)
                          else ",".join(states)).upper()
    backend = _backend(url)
    return Jobs(Job(j["display_id"] if j.get("task") is not None else j["id"],
                    info=j, backend=backend) for j in backend.jobs(query))


def job(id, url=None):
    """A job by its number, or "12_3"; NotFound if there is none."""
    return Job(id, url).refresh()


# ---- submit -----------------------------------------------------------------

# Short names of keys, as mgpu-submit has options.
_SHORT = {"gpus": "resources.gpus", "nodes": "resources.nodes",
          "time_limit": "resources.time_limit",
          "partition": "resources.partition", "account": "policy.account",
          "qos": "policy.qos", "priority": "policy.priority",
          "begin": "policy.begin", "array": "sweep.array"}


# Words that --set reads as no value.
_NULLS = ("null", "Null", "NULL", "~")


def _flat(key, value):
    """(key, text of --set) of a value; a dict is all keys below it."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _flat("%s.%s" % (key, name), below)
    elif isinstance(value, str) and re.fullmatch(
            r"[\w./+-]([\w./:+%,@= -]*[\w./+%,@=-])?", value) \
            and ": " not in value and value not in _NULLS:
        yield key, value
    elif isinstance(value, os.PathLike):
        yield key, json.dumps(os.fspath(value))
    else:
        yield key, json.dumps(value)


def _options(sets):
    """Options of mgpu-submit for what a call sets."""
    out = []
    for name, value in sets.items():
        key = _SHORT.get(name, name.replace("__", "."))
        for k, text in _flat(key, value):
            out += ["--set", "%s=%s" % (k, text)]
    return out


def submit(spec, hold=False, idempotency_key=None, url=None, **sets):
    """Submits a job and returns it.

    spec  the path of a file; or the text of one, with a line end in it; or a
          dict with the keys of mgpu-job(5)
    hold  do not start it before it is released
    sets  values over those of spec: gpus, nodes, time_limit, partition,
          account, qos, priority, begin, array; and any key, with __ for each
          dot or as a dict: train__epochs=3, train={"epochs": 3}

    Raises Invalid with all mistakes in .findings. The job of a sweep has
    .tasks.
    """
    backend = _backend(url)
    args = ["--json"] + _options(sets)
    if hold:
        args.append("--hold")
    if idempotency_key is not None:
        args += ["--idempotency-key", idempotency_key]
    data = None
    if isinstance(spec, dict):
        data = json.dumps(spec)
    elif isinstance(spec, str) and "\n" in spec:
        data = spec
    elif not isinstance(spec, (str, os.PathLike)):
        raise Usage("a specification is a path, a text or a dict, not %s"
                    % type(spec).__name__)
    name = "-" if data is not None else os.fspath(spec)
    if data is None and name.startswith("-"):
        name = "./" + name  # no option
    done = _Tools(backend.url).run("mgpu-submit", *args, name, data=data)
    reply = _tool_reply("mgpu-submit", done)
    out = Job(reply["id"], backend=backend)
    out.warnings = reply.get("warnings", [])
    return out


# ---- functions: to the job --------------------------------------------------
#
# A call is a directory of the user's, mode 0700, with the file `call`: a line
# of JSON and a pickle. Rank R of task T writes `result.T.R` into it, which has
# the same form. Nothing is unpickled that somebody else could have written.


class _Guard(pickle.Pickler):
    """A pickler that refuses what the job could not find again."""

    def reducer_override(self, obj):
        if isinstance(obj, (type, types.FunctionType)) and (
                obj.__module__ == "__main__" or "<locals>" in obj.__qualname__
                or obj.__name__ == "<lambda>"):
            raise CannotTravel(
                "%s %r of %s cannot be sent to a job"
                % ("class" if isinstance(obj, type) else "function",
                   obj.__qualname__, obj.__module__),
                "install cloudpickle, or define it in a module of its own")
        return NotImplemented


def _pickle(obj, what):
    out = io.BytesIO()
    try:
        _Guard(out, protocol=4).dump(obj)
    except CannotTravel:
        raise
    except Exception as e:  # whatever __reduce__ raises
        raise CannotTravel("%s cannot be pickled: %s" % (what, e)) from e
    return out.getvalue()


def _cloudpickle():
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return None


def _code_names(code):
    """The global names that code may use."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= _code_names(const)
    return names


def _source(fn):
    """What a function of __main__ needs at the other end, without cloudpickle:
    its source, and that of what it uses. A dict, of which values are
    ("source", text, file, line), ("module", name) or ("value", pickle)."""
    out = {}
    _add_source(out, set(), fn.__name__, fn)
    return out


def _refuse(obj, why):
    raise CannotTravel(
        "%r of __main__ cannot be sent to a job: it %s"
        % (getattr(obj, "__qualname__", obj), why),
        "install cloudpickle, or define it in a module of its own")


def _add_source(out, seen, name, obj):
    """Adds what obj uses, and then obj: a class comes after its bases."""
    if name in seen:
        return
    seen.add(name)
    if isinstance(obj, types.ModuleType):
        out[name] = ("module", obj.__name__)
        return
    is_function = isinstance(obj, types.FunctionType)
    if not (is_function or isinstance(obj, type)) \
            or obj.__module__ != "__main__":
        out[name] = ("value", _pickle(obj, "the global %r" % name))
        return
    if "<locals>" in obj.__qualname__ or obj.__name__ == "<lambda>":
        _refuse(obj, "is defined inside another function, or is a lambda")
    if is_function and obj.__closure__:
        _refuse(obj, "uses variables of another function")
    try:
        lines, line = inspect.getsourcelines(obj)
        text = textwrap.dedent("".join(lines))
        tree = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError) as e:
        _refuse(obj, "has no source: %s" % e)
    if tree.decorator_list:
        _refuse(obj, "has a decorator")
    defaults = ((obj.__defaults__, obj.__kwdefaults__) if is_function
                else (None, None))
    names = (_code_names(obj.__code__) if is_function else
             {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)})
    table = sys.modules["__main__"].__dict__
    for used in sorted(names):
        if used in table and not used.startswith("__"):
            _add_source(out, seen, used, table[used])
    out[name] = ("source", text, inspect.getsourcefile(obj) or "<__main__>",
                 line, _pickle(defaults, "a default of %r" % name))


def _pack(fn, calls):
    """(how, pickle) of a function and of the arguments of each call."""
    name = getattr(fn, "__qualname__", repr(fn))
    try:
        body = _pickle((fn, None), "the function %r" % name)
        return "pickle", pickle.dumps(
            (body, [_pickle(c, "an argument of %r" % name) for c in calls]),
            protocol=4)
    except CannotTravel as e:
        refused = e
    cloud = _cloudpickle()
    if cloud:
        try:
            return "cloudpickle", pickle.dumps(
                (cloud.dumps((fn, None)), [cloud.dumps(c) for c in calls]),
                protocol=4)
        except Exception as e:
            raise CannotTravel("%r and its arguments cannot be pickled: %s"
                               % (name, e)) from e
    if not isinstance(fn, types.FunctionType) or fn.__module__ != "__main__":
        raise refused
    body = pickle.dumps((fn.__name__, _source(fn)), protocol=4)
    return "source", pickle.dumps(
        (body, [_pickle(c, "an argument of %r" % name) for c in calls]),
        protocol=4)


def _version():
    return "%d.%d" % sys.version_info[:2]


def _calls_dir():
    """Where calls are: the nodes must see it under the same path."""
    return os.path.abspath(os.environ.get("MGPU_CALLS")
                           or os.path.expanduser("~/.mgpu/calls"))


def _write_call(fn, calls):
    """Makes a call's directory and returns it."""
    how, body = _pack(fn, calls)
    path = [os.path.abspath(p) for p in sys.path]
    head = {"mgpu": __version__, "python": _version(), "how": how,
            "path": [p for p in path if os.path.exists(p)]}
    parent = _calls_dir()
    os.makedirs(parent, mode=0o700, exist_ok=True)
    directory = os.path.join(parent, secrets.token_hex(16))
    os.mkdir(directory, 0o700)
    _write_file(directory, "call", head, body)
    return directory


def _write_file(directory, name, head, body):
    """Writes a file as a whole: it is there or not."""
    part = os.path.join(directory, ".%s.%s" % (name, secrets.token_hex(4)))
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as out:
        out.write(json.dumps(head).encode() + b"\n" + body)
        out.flush()
        os.fsync(out.fileno())
    os.rename(part, os.path.join(directory, name))


def _check_owner(found, what):
    if found.st_uid != os.geteuid():
        raise NoResult("%s belongs to uid %d, not to you: it is not read"
                       % (what, found.st_uid))
    if found.st_mode & 0o022:
        raise NoResult("others may write to %s: it is not read" % what)


def _read_file(directory, name):
    """(head, pickle) of a file that only the user can have written, in a
    directory of which that is true, too."""
    try:
        at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise _Missing("there is no directory %s" % directory) from None
    except OSError as e:
        raise NoResult("%s is no directory: %s" % (directory, e.strerror)) \
            from None
    try:
        _check_owner(os.fstat(at), directory)
        what = os.path.join(directory, name)
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK,
                         dir_fd=at)
        except FileNotFoundError:
            raise _Missing("there is no file %s" % what) from None
        except OSError as e:
            raise NoResult("%s is not a plain file: %s"
                           % (what, e.strerror)) from None
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise NoResult("%s is not a plain file" % what)
            _check_owner(found, what)
            head = json.loads(file.readline())
            return head, file.read()
    except ValueError:
        raise NoResult("%s is damaged" % what) from None
    finally:
        os.close(at)


# ---- functions: in the job --------------------------------------------------


def _rebuild(name, parts):
    """The function of _source(), in a module __main__ of its own, where the
    pickles of its results look for its classes."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    for key, part in parts.items():
        if part[0] == "module":
            setattr(main, key, importlib.import_module(part[1]))
    for key, part in parts.items():
        if part[0] == "value":
            setattr(main, key, pickle.loads(part[1]))
    for key, part in parts.items():
        if part[0] != "source":
            continue
        _, text, file, line, defaults = part
        tree = ast.parse(text)
        what = tree.body[0]
        if not isinstance(what, ast.ClassDef):
            # Defaults were evaluated where the function was defined, and
            # annotations are for readers.
            none = ast.Constant(None)
            args = what.args
            args.defaults = [none for _ in args.defaults]
            args.kw_defaults = [d and none for d in args.kw_defaults]
            what.returns = None
            for a in (args.posonlyargs + args.args + args.kwonlyargs
                      + [x for x in (args.vararg, args.kwarg) if x]):
                a.annotation = None
        ast.fix_missing_locations(tree)
        ast.increment_lineno(tree, line - 1)
        # The source of `h = helper` defines helper, which main may have as
        # another function.
        other = main.__dict__.get(what.name)
        exec(compile(tree, file, "exec"), main.__dict__)
        made = getattr(main, what.name)
        if key != what.name and other is not None:
            setattr(main, what.name, other)
        setattr(main, key, made)
        if not isinstance(what, ast.ClassDef):
            made.__defaults__, made.__kwdefaults__ = pickle.loads(defaults)
    return getattr(main, name)


def _load(directory, task):
    """(function, args, kwargs) of a call."""
    head, body = _read_file(directory, "call")
    if head["python"] != _version():
        raise CannotTravel(
            "the function is of Python %s, and the job has Python %s"
            % (head["python"], _version()),
            "choose the same with python=, a path that all nodes have")
    if head["how"] == "cloudpickle" and not _cloudpickle():
        raise CannotTravel("the function needs cloudpickle, which the job's "
                           "Python has not", "install it there, too")
    sys.path += [p for p in head["path"] if p not in sys.path]
    function, calls = pickle.loads(body)
    function = pickle.loads(function)
    fn = _rebuild(*function) if head["how"] == "source" else function[0]
    return head["how"], fn, pickle.loads(calls[task])


def _dump_result(how, value):
    cloud = _cloudpickle() if how == "cloudpickle" else None
    return cloud.dumps(value) if cloud else pickle.dumps(value, protocol=4)


def _outcome(directory, task):
    """(head, pickle, exit status) of a call that this runs."""
    head = {"python": _version(), "ok": False}
    how = "pickle"
    try:
        how, fn, (args, kwargs) = _load(directory, task)
    except Exception as e:
        traceback.print_exc()
        head["error"] = "the call cannot be loaded: %s" % (
            e.message if isinstance(e, Error) else
            "%s: %s" % (type(e).__name__, e))
        head["hint"] = getattr(e, "hint", "")
        return head, b"", 1
    try:
        value = fn(*args, **kwargs)
    except BaseException as e:
        # Without the frame of this function.
        text = "".join(traceback.format_exception(
            type(e), e, e.__traceback__.tb_next))
        sys.stderr.write(text)
        head["error"] = "%s: %s" % (type(e).__name__, e)
        head["traceback"] = text
        status = 1
        if isinstance(e, SystemExit):
            status = e.code if isinstance(e.code, int) else 1
            status = status if 0 < status < 256 else 1
        body = b""
        with contextlib.suppress(Exception):
            body = _dump_result(how, e)
        return head, body, status
    try:
        body = _dump_result(how, value)
    except Exception as e:
        traceback.print_exc()
        head["error"] = ("the result, of type %s, cannot be pickled: %s"
                         % (type(value).__name__, e))
        return head, b"", 1
    return dict(head, ok=True), body, 0


def _run(directory):
    """What a job of submit_function() runs. Returns its exit status."""
    task = os.environ.get("MGPU_TASK_ID", "0")
    rank = os.environ.get("MGPU_RANK", "0")
    head, body, status = _outcome(directory, int(task))
    _write_file(directory, "result.%s.%s" % (task, rank), head, body)
    sys.stdout.flush()
    return status


# ---- functions: back from the job -------------------------------------------


def _read_result(directory, task, rank=0):
    """The value, or the exception of the function."""
    head, body = _read_file(directory, "result.%d.%d" % (task, rank))
    same = head["python"] == _version()
    if not same and body:
        head = dict(head, ok=False, error=head.get(
            "error", "the result is of Python %s, and this is Python %s"
            % (head["python"], _version())))
        body = b""
    if head["ok"]:
        return pickle.loads(body)
    error = None
    with contextlib.suppress(Exception):
        error = pickle.loads(body) if body else None
    if not isinstance(error, Exception):  # SystemExit is not for the caller
        error = RemoteError(head["error"], head.get("hint", ""))
    text = head.get("traceback")
    raise error from (RemoteTraceback(text) if text else None)


class Future(concurrent.futures.Future):
    """A function's call in a job. job: the Job."""

    def __init__(self, job, directory, task):
        concurrent.futures.Future.__init__(self)
        self.job = job
        self._directory = directory
        self._task = task
        self._cancelling = threading.RLock()

    def __repr__(self):
        return "Future(%r)" % (self.job,)

    def _repr_html_(self):
        return self.job._repr_html_()

    def running(self):
        return not self.done() and self.job.state in (
            "STARTING", "RUNNING", "CHECKPOINTING", "STALLED")

    def cancel(self):
        """Cancels the job. False: the call has ended before."""
        if self.done():
            return self.cancelled()
        try:
            self.job.cancel()
        except State:  # it has just ended: the watcher brings the result
            return False
        self._be_cancelled()
        return self.cancelled()

    def _be_cancelled(self):
        with self._cancelling:  # the watcher and others may do it, too
            if not self.done() and super().cancel():
                self.set_running_or_notify_cancel()

    def _fail(self, error):
        # cancel() may have been faster.
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.set_exception(error)

    def _finish(self, info):
        """Takes the result of a job that has ended."""
        self.job._info = info
        if info["state"] == "CANCELLED":
            self._be_cancelled()
            return
        value, error = None, None
        try:
            value = self._take(info)
        except Exception as e:
            error = e
        if error is not None:
            self._fail(error)
            return
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.set_result(value)

    def _take(self, info):
        is_done = info["state"] == "COMPLETED"
        ranks = max(info.get("gpus") or 1, 1)
        value, found = None, False
        for rank in range(ranks if not is_done else 1):
            with contextlib.suppress(_Missing):
                value = _read_result(self._directory, self._task, rank)
                found = True
        if is_done and found:
            return value
        if is_done:
            raise NoResult("job %s has left no result in %s"
                           % (self.job.id, self._directory))
        error = JobFailed("job %s: %s, exit code %s%s" % (
            self.job.id, info["state"], info.get("exit_code"),
            "; " + info["reason"] if info.get("reason") else ""),
            "its output: mgpu-stat --logs %s" % self.job.id)
        error.job = self.job
        raise error


class _Watcher:
    """One thread that looks after all calls of a daemon."""

    _all = {}
    _lock = threading.Lock()

    def __init__(self, backend):
        self.backend = backend
        self.futures = set()
        self.thread = None

    @classmethod
    def add(cls, futures, backend):
        with cls._lock:
            own = cls._all.setdefault(backend.url, cls(backend))
            own.futures |= set(futures)
            if own.futures and not (own.thread and own.thread.is_alive()):
                own.thread = threading.Thread(
                    target=own.run, daemon=True, name="mgpu")
                own.thread.start()

    @classmethod
    def forked(cls):
        """In a child, which has none of its parent's threads."""
        cls._lock = threading.Lock()

    def run(self):
        looks = _Looks()
        while True:
            with self._lock:
                self.futures = {f for f in self.futures if not f.done()}
                if not self.futures:
                    self.thread = None
                    return
                waiting = list(self.futures)
            try:
                ended = self.look(waiting)
                looks.away_since = None
            except Exception as e:
                ended = False
                self.bear(looks, e, waiting)
            if ended:
                looks.pause_s = 0.05
            looks.pause(None)

    @staticmethod
    def bear(looks, error, waiting):
        """A daemon that is away for too long is the end of all calls."""
        try:
            if not _is_away(error):
                raise error
            looks.bear(error)
        except Exception as e:
            for f in waiting:
                f._fail(e)

    def look(self, waiting):
        """Finishes the futures of jobs that have ended; whether some had. An
        error of one job is of its future alone."""
        some = False
        known = self.known(waiting)
        for f in waiting:
            try:
                info = (known.get(str(f.job.id))
                        or self.backend.job(f.job.id)["job"])
                if info["state"] not in ENDED:
                    continue
                # One listing has few members: a notebook may ask for all.
                if "name" not in info:
                    info = self.backend.job(f.job.id)["job"]
            except Exception as e:
                if _is_away(e):
                    raise
                f._fail(e)
                continue
            some = True
            f._finish(info)
        return some

    def known(self, waiting):
        """What the daemon says of all tasks of arrays, one listing each."""
        out = {}
        sweeps = {int(str(f.job.id).split("_")[0]) for f in waiting
                  if "_" in str(f.job.id)}
        for sweep in sweeps:
            try:
                found = self.backend.jobs({"sweep": sweep, "fields":
                                           "id,display_id,sweep,state,reason,"
                                           "exit_code,gpus"})
            except Exception as e:
                if _is_away(e):
                    raise
                continue  # each task is asked for alone, and has its error
            for j in found:
                out[j["display_id"]] = j
        return out


os.register_at_fork(after_in_child=_Watcher.forked)


def _spec_of(fn, directory, python, env, workdir):
    """The specification of a call."""
    def typed(word):  # "${" would be replaced
        return word.replace("${", "$${")
    name = re.sub(r"[^A-Za-z0-9._-]", "-", getattr(fn, "__name__", "call"))
    passed = [n for n in ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
              if n in os.environ]
    spec = {
        "version": 1, "kind": "command",
        "name": (name.strip("-._<>") or "call")[:63],
        "command": [typed(os.path.abspath(python or sys.executable)),
                    typed(os.path.abspath(__file__)), "run",
                    typed(directory)],
        "workdir": typed(os.path.abspath(workdir or os.getcwd())),
        "env_passthrough": passed,
    }
    if env:
        spec["env"] = {k: typed(str(v)) for k, v in env.items()}
    return spec


def _submit_calls(fn, calls, array, python, env, workdir, hold, url, sets):
    directory = _write_call(fn, calls)
    try:
        spec = _spec_of(fn, directory, python, env, workdir)
        if array:
            spec["sweep"] = {"array": array}
        made = submit(spec, hold=hold, url=url, **sets)
    except (Unavailable, Timeout):
        raise  # the job may have been accepted
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return made, directory


def submit_function(fn, *args, kwargs=None, gpus=1, time_limit=None,
                    python=None, env=None, workdir=None, hold=False, url=None,
                    **sets):
    """Calls fn(*args, **kwargs) in a job, and returns a Future.

    gpus, time_limit, sets  as those of submit(); each rank calls fn, and the
                            result is rank 0's
    python   the interpreter, by default this one; of the same version
    env      variables of the job
    workdir  by default the current directory

    A function of __main__ travels by cloudpickle, or else as its source;
    CannotTravel says why one cannot. The result has what fn returned or
    raised; JobFailed is of a job that ended otherwise.
    """
    if time_limit is not None:
        sets["time_limit"] = time_limit
    made, directory = _submit_calls(
        fn, [(args, kwargs or {})], None, python, env, workdir, hold, url,
        dict(sets, gpus=gpus))
    future = Future(made, directory, 0)
    _Watcher.add([future], made._backend)
    return future


def map(fn, *iterables, gpus=1, time_limit=None, max_parallel=None,
        python=None, env=None, workdir=None, url=None, **sets):
    """Calls fn once for each item, as one array of jobs; a list of Futures.

    max_parallel  at most so many at once; all else as submit_function()
    """
    calls = [(items, {}) for items in zip(*iterables)]
    if not calls:
        return []
    if time_limit is not None:
        sets["time_limit"] = time_limit
    array = "0-%d" % (len(calls) - 1)
    if max_parallel is not None:
        array += "%%%d" % max_parallel
    made, directory = _submit_calls(fn, calls, array, python, env, workdir,
                                    False, url, dict(sets, gpus=gpus))
    futures = [Future(Job("%s_%d" % (made.id, i), backend=made._backend),
                      directory, i) for i in range(len(calls))]
    _Watcher.add(futures, made._backend)
    return futures


def future(id, url=None):
    """The Future of a call that another session has submitted."""
    found = job(id, url)
    command = found.info.get("spec", {}).get("command", [])
    if len(command) != 4 or command[2] != "run":
        raise Usage("job %s is no call of a function" % id)
    out = Future(found, command[3], found.info.get("task") or 0)
    _Watcher.add([out], found._backend)
    return out


# ---- import mgpu as wandb ---------------------------------------------------

_said = set()


def _say_once(what):
    if what not in _said:
        _said.add(what)
        print("mgpu: " + what, file=sys.stderr, flush=True)


def _settings(given):
    """What a dict takes of a config: of an argparse.Namespace its values."""
    is_dict = hasattr(given, "keys") or hasattr(given, "__iter__")
    return given if is_dict else vars(given)


def _json_keys(value):
    """The same with texts as keys, which JSON has alone."""
    if isinstance(value, collections.abc.Mapping):
        return {str(k): _json_keys(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_keys(v) for v in value]
    return value


class Config(dict):
    """Settings of a run: config["lr"] or config.lr."""

    def __init__(self, *args, **kwargs):
        dict.__init__(self)
        self.update(*args, **kwargs)

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value

    def update(self, *args, allow_val_change=None, **kwargs):
        dict.update(self, *[_settings(a) for a in args], **kwargs)


def _plain(value):
    """The float or int of a number, or of a tensor of one; None of others."""
    if isinstance(value, numbers.Real):  # a bool is one
        return int(value) if isinstance(value, numbers.Integral) else (
            float(value))
    if type(value).__module__.split(".")[0] in ("numpy", "torch", "jax",
                                                "jaxlib", "tensorflow"):
        with contextlib.suppress(Exception):
            return _plain(value.item())
    return None


# What has a meaning of its own in the file of metrics.
_MEANT = ("rank", "iteration", "step", "profile", "iterations_total",
          "epochs_total")
# What the table of iterations has as columns: they are on one line.
_COLUMNS = ("epoch", "started_at", "t_iter", "t_data", "t_h2d", "t_forward",
            "t_backward", "t_comm", "t_optimizer", "loss", "lr", "samples",
            "tokens", "gpu_mem_bytes")
LINE_VALUES = 60  # a rank takes 64 of a line at most


def _figures(data, before=""):
    """(name, number) of what log() takes; says once what is left out."""
    for key, value in data.items():
        name = before + str(key)
        if isinstance(value, collections.abc.Mapping):
            yield from _figures(value, name + ".")
            continue
        number = _plain(value)
        if number is None:
            if value is not None:
                _say_once("%r is of type %s, which is not kept: only numbers "
                          "are" % (name, type(value).__name__))
        elif name in _MEANT and not before:
            yield "_" + name, number
        else:
            yield name, number


BATCH_BYTES = 256 << 10  # of a request with values
QUEUE_BYTES = 64 << 20  # that wait for a daemon that is away
BATCH_S = 1  # values come together for so long
BEAT_S = 10  # a run says that it lives
RETRY_S = 10  # at most, between two tries to reach the daemon
CONFIG_LEVELS = 64  # of settings; deeper ones are a text


def _text(value):
    """A text that JSON and C have: without zeroes and halves of pairs."""
    return str(value).replace("\0", "\ufffd").encode(
        "utf-8", "replace").decode()


def _stored(value, levels=CONFIG_LEVELS):
    """What JSON has for a setting: a text for what it has not."""
    is_dict = isinstance(value, collections.abc.Mapping)
    if levels > 0 and is_dict:
        return {_text(k): _stored(v, levels - 1) for k, v in value.items()}
    if levels > 0 and isinstance(value, (list, tuple)):
        return [_stored(v, levels - 1) for v in value]
    if value is None or isinstance(value, bool):
        return value
    number = None if isinstance(value, str) else _plain(value)
    if number is None or not math.isfinite(number) or (
            isinstance(number, int) and not -2 ** 63 <= number < 2 ** 63):
        return _text(value)
    return number


class _Sender:
    """Sends the lines of a run to the daemon, on a thread of its own: log()
    never waits. A daemon that is away is waited for; what is too much by then
    is left out. Requests are repeated until they are answered, which stores
    nothing twice."""

    def __init__(self, backend, body):
        reply = backend.call("POST", "/v1/runs", None, body, {
            "Idempotency-Key": secrets.token_hex(16)})
        self.id = str(reply["id"])
        self.ended = ""  # why the daemon takes no more
        self._backend = backend
        self._path = "/v1/jobs/%s/" % self.id
        self._news = threading.Condition()
        self._closing = threading.Event()
        self._lines = []
        self._size = 0
        self._totals = {}  # lines that a new daemon does not know
        self._offset = 0  # bytes that are stored
        self._last_s = None  # no waiting beyond it
        self._thread = threading.Thread(target=self._work, daemon=True,
                                        name="mgpu-run-%s" % self.id)
        self._thread.start()

    def put(self, text):
        line = text.encode()
        with self._news:
            if self.ended:
                return
            if self._size + len(line) > QUEUE_BYTES:
                _say_once("the daemon is away for too long: values of run %s "
                          "are left out" % self.id)
                return
            self._lines.append(line)
            self._size += len(line)
            self._news.notify()

    def total(self, names, text):
        with self._news:
            self._totals.pop(names, None)  # the newest is the last
            self._totals[names] = text.encode()
        self.put(text)

    def close(self, exit_code, why):
        """Sends what is left, and ends the run."""
        with self._news:
            self._last_s = time.monotonic() + PATIENCE_S
            self._news.notify()
        self._closing.set()
        self._thread.join()
        body = {"exit_code": exit_code, "why": why}
        self._try(lambda: self._backend.call(
            "POST", self._path + "finish", None, body))

    def _is_late(self):
        return self._last_s is not None and time.monotonic() > self._last_s

    def _lose(self, why):
        """The daemon takes no more."""
        with self._news:
            self.ended = why
            self._lines = []
            self._size = 0
        _say_once("run %s is not recorded any more: %s" % (self.id, why))

    def _try(self, ask):
        """The answer; None: there is none, and there will be none."""
        wait_s = 0.1
        while not self.ended:
            try:
                return ask()
            except (Unavailable, Timeout, Busy, Failure) as e:
                if self._is_late():
                    self._lose(e.message)
                    return None
            except Error as e:
                self._lose(e.message)
                return None
            if self._closing.wait(wait_s):
                time.sleep(min(wait_s, 0.5))
            wait_s = min(2 * wait_s, RETRY_S)
        return None

    def _batch(self):
        """Whole lines, or b"" as a sign of life; None: nothing is to come."""
        beat_s = time.monotonic() + BEAT_S
        with self._news:
            while not self._lines:
                if self._last_s is not None or self.ended:
                    return None
                left_s = beat_s - time.monotonic()
                if left_s <= 0:
                    return b""
                self._news.wait(left_s)
            due_s = time.monotonic() + BATCH_S
            while (self._size < BATCH_BYTES and self._last_s is None
                   and time.monotonic() < due_s):
                self._news.wait(due_s - time.monotonic())
            taken = size = 0
            for line in self._lines:
                size += len(line)
                if taken and size > BATCH_BYTES:
                    break
                taken += 1
            out = b"".join(self._lines[:taken])
            del self._lines[:taken]
            self._size -= len(out)
            return b"".join(self._totals.values()) + out

    def _work(self):
        while True:
            batch = self._batch()
            if batch is None:
                return
            reply = self._try(lambda: self._backend.call(  # noqa: B023
                "POST", self._path + "values", {"offset": self._offset},
                batch))
            if reply is None:
                return
            self._offset = reply["acked"]
            if reply.get("dropped"):
                _say_once("a line of run %s is no row: %s"
                          % (self.id, reply["why"]))
            for one in reply.get("ignored", ()):
                _say_once("%r %s" % (one["key"], one["why"]))


def _exit_code(code):
    """As the system has it, 0 to 255, and not 0 for what is a failure."""
    if not isinstance(code, numbers.Integral):
        return 1
    return int(code) & 255 or int(code != 0)


class Run:
    """What init() returns: the metrics of this process.

    ended  why a run outside of jobs is not recorded any more, as after a
           cancel; "": it is
    """

    def __init__(self, path, project=None, name=None, config=None,
                 sender=None):
        self.project = project
        self.id = sender.id if sender else os.environ.get("MGPU_JOB_ID", "")
        self.name = name or self.id
        self.dir = None if sender else os.environ.get("MGPU_OUTPUT_DIR")
        self.config = Config({} if config is None else config)
        self.summary = Config()
        self._sender = sender
        self._ended = ""  # of a sender that is closed
        self._begun = _stored(self.config)
        self._failure = None  # the exit code and the reason
        self.step = 0
        self._row = {}
        self._trained = 0  # the last step of trainer_callback()
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._file = path and open(path, "a", encoding="utf-8")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            self._failed(kind, value)
        self.finish()

    @property
    def ended(self):
        return self._sender.ended if self._sender else self._ended

    def _failed(self, kind, value):
        """An exception ends the program, or the block of a with."""
        code = (value.code if issubclass(kind, SystemExit) else
                130 if issubclass(kind, KeyboardInterrupt) else 1)
        if code is None or code == 0:
            return
        why = traceback.format_exception_only(kind, value)[-1].strip()
        self._failure = (_exit_code(code), _text(why))

    def log(self, data, step=None, commit=None):
        """Records numbers. Without a step each call is one; with a step, or
        commit=False, what is logged for the same step is one row, which is
        written when the step changes or the run ends."""
        with self._lock:
            if step is not None and int(step) != self.step:
                if int(step) < self.step:
                    _say_once("a step before the last is not recorded")
                    return
                self._write()
                self.step = int(step)
            self._row.update(_figures(data))
            if commit or (commit is None and step is None):
                self._write()
                self.step += 1

    def _write(self):
        row, self._row = self._row, {}
        epoch = row.get("epoch")
        if epoch is not None:  # the column takes whole numbers
            del row["epoch"]
            if 0 <= epoch < 2 ** 31:
                row["epoch"] = int(epoch)
        self._lines(row, iteration=self.step)

    def _lines(self, row, **at):
        names = sorted(row, key=lambda name: name not in _COLUMNS)
        for i in range(0, len(names), LINE_VALUES):
            self._line(dict({n: row[n] for n in names[i:i + LINE_VALUES]},
                            **at))

    def _line(self, row, total=None):
        text = json.dumps(row) + "\n"
        if self._sender and os.getpid() != self._pid:
            _say_once("what a child process logs is not recorded outside of "
                      "jobs")
        elif self._sender and total:
            self._sender.total(total, text)
        elif self._sender:
            self._sender.put(text)
        elif self._file:
            self._file.write(text)
            self._file.flush()

    def _flush(self):
        """Writes what is pending; the run goes on."""
        with self._lock:
            self._write()

    def _forked(self):
        """In a child: what is pending is the parent's."""
        self._lock = threading.Lock()
        self._row = {}

    def totals(self, iterations=None, epochs=None):
        """How much there is to do, for the queue's progress and estimates."""
        row = {"iterations_total": iterations, "epochs_total": epochs}
        row = {k: int(v) for k, v in row.items() if v is not None and v > 0}
        if row:
            self._line(row, total=tuple(row))

    def alert(self, title, text="", **_):
        """Prints it into the job's log."""
        print("mgpu: alert: %s: %s" % (title, text), file=sys.stderr,
              flush=True)

    def define_metric(self, *_, **__):
        """Does nothing."""
        _say_once("define_metric() does nothing: charts are by step")

    def watch(self, *_, **__):
        """Does nothing."""
        _say_once("watch() does nothing: log the norms that you want")

    def _finish_outside(self, exit_code):
        sender, self._sender = self._sender, None
        if os.getpid() != self._pid:
            return
        if _stored(self.config) != self._begun:
            _say_once("settings that came after init() are not stored: pass "
                      "them to init(config=...)")
        code, why = self._failure or (0, "")
        if exit_code is not None:
            code = _exit_code(exit_code)
        sender.close(code, why if code else "")
        self._ended = sender.ended

    def finish(self, exit_code=None, **_):
        """Writes what is left: the last step, the summary, and the config as
        config.json in MGPU_OUTPUT_DIR. A run outside of jobs ends, with the
        exit code, and this returns when all is sent."""
        global run
        if run is self:
            run = None
        if self._sender:
            with self._lock:
                self._write()
                if os.getpid() == self._pid:
                    self._lines(dict(_figures(self.summary)))
            self._finish_outside(exit_code)
            return
        with self._lock:
            if not self._file:
                return
            self._write()
            is_parent = os.getpid() == self._pid
            if is_parent:
                self._lines(dict(_figures(self.summary)))
            self._file.close()
            self._file = None
        if is_parent and self.dir and self.config and os.environ.get(
                "MGPU_RANK", "0") == "0":
            with contextlib.suppress(OSError):
                with open(os.path.join(self.dir, "config.json"), "w",
                          encoding="utf-8") as out:
                    json.dump(_json_keys(self.config), out, default=str,
                              indent=1)


run = None  # the Run of init()
config = Config()
summary = Config()


def _run_name(name, project):
    """A name as jobs have: wandb takes any text."""
    script = os.path.basename(sys.argv[0] or "").rpartition(".")[0]
    text = re.sub(r"[^A-Za-z0-9._-]+", "-", name or project or script)
    return text.strip("._-")[:63] or "run"


def _begin_outside(project, name, config):
    """The Run of a program that is no job's."""
    backend = _backend(None)
    if not isinstance(backend, _Socket):
        raise Unavailable(
            "a run outside of jobs needs the daemon's unix socket, and '%s' is "
            "none" % backend.url,
            "set MGPU_URL to unix:PATH on the daemon's machine, submit the "
            "script as a job, or use mode=\"disabled\"")
    settings = Config({} if config is None else config)
    try:
        sender = _Sender(backend, {
            "name": _run_name(name, project),
            "project": None if project is None else _text(project),
            "config": _stored(settings),
            "holder": "%s %d" % (socket.gethostname(), os.getpid())})
    except Unavailable as e:
        raise Unavailable(
            e.message, "%s; with mode=\"disabled\", or WANDB_MODE=disabled, "
            "nothing is recorded" % e.hint) from None
    _say_once("run %s: mgpu-stat --metrics %s shows its curves"
              % (sender.id, sender.id))
    _see_failures()
    return Run(None, project, name, settings, sender)


def init(project=None, name=None, config=None, mode=None, **others):
    """Begins the run of this process, and returns it.

    In a job, the job's metrics are where the run goes. Anywhere else the run is
    one of its own, of kind run, without GPUs: `mgpu-stat` and the page show it
    among the jobs. With mode="disabled", or WANDB_MODE=disabled, nothing is
    recorded anywhere. Raises Unavailable where no daemon answers.
    """
    global run, summary
    if run is not None:
        run.finish()
    if others:
        _say_once("init() ignores %s" % ", ".join(sorted(others)))
    mode = mode or os.environ.get("WANDB_MODE")
    path = os.environ.get("MGPU_METRICS")
    if mode == "disabled":
        made = Run(None, project, name, config)
    elif path:
        made = Run(path, project, name, config)
    elif mode in ("offline", "dryrun"):
        raise Usage("init() cannot record offline outside of a job: there is "
                    "nothing that would send it later",
                    "use mode=\"disabled\", or a daemon")
    else:
        made = _begin_outside(project, name, config)
    globals()["config"] = made.config
    summary = made.summary
    run = made
    return made


_excepthook = None


def _note_failure(kind, value, trace):
    """The program is ending with an exception: so does its run."""
    if run is not None:
        run._failed(kind, value)
    _excepthook(kind, value, trace)


def _see_failures():
    global _excepthook
    if _excepthook is None:
        _excepthook, sys.excepthook = sys.excepthook, _note_failure


def _forked():
    if run is not None:
        run._forked()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _finish_at_exit():
    if run is not None:
        run.finish()


def _the_run():
    if run is None:
        raise Usage("no run: call init() first")
    return run


def log(data, step=None, commit=None):
    """Run.log() of the run that init() began."""
    _the_run().log(data, step, commit)


def finish(exit_code=None):
    """Run.finish() of the run that init() began, if there is one."""
    if run is not None:
        run.finish(exit_code)


def alert(title, text="", **others):
    """Run.alert() of the run that init() began."""
    _the_run().alert(title, text, **others)


def define_metric(*args, **kwargs):
    """Does nothing, and says so once."""
    Run.define_metric(None, *args, **kwargs)


def watch(*args, **kwargs):
    """Does nothing, and says so once."""
    Run.watch(None, *args, **kwargs)


def login(*_, **__):
    """Does nothing, and says so once."""
    _say_once("login() does nothing: there is no account")
    return True


def trainer_callback():
    """A TrainerCallback for transformers.Trainer(callbacks=[...]): its logs
    are the job's metrics, at the Trainer's global steps."""
    base = importlib.import_module("transformers").TrainerCallback

    class Callback(base):
        """Writes what the Trainer logs to the run."""

        own = None
        before = 0  # steps of an earlier training of the same run

        def on_train_begin(self, args, state, control, **_):
            if state.is_world_process_zero:
                self.own = run or init(config=args.to_dict())
                trained = self.own._trained
                self.before = trained if state.global_step < trained else 0
                self.own.totals(self.before + state.max_steps, math.ceil(
                    state.num_train_epochs or 0))

        def on_log(self, args, state, control, logs=None, **_):
            if self.own and logs:
                row = {("lr" if k == "learning_rate" else k): v
                       for k, v in logs.items()}
                self.own.log(row, step=self.before + state.global_step)

        def on_train_end(self, args, state, control, **_):
            # Not the run: an evaluation, or more of the script, may follow.
            if self.own:
                self.own._flush()
                self.own._trained = self.before + state.global_step

    return Callback()


def _lightning_logger():
    base = None
    for module in ("lightning.pytorch.loggers", "pytorch_lightning.loggers"):
        with contextlib.suppress(ImportError):
            base = importlib.import_module(module).Logger
            break
    if base is None:
        raise ImportError("mgpu.Logger needs lightning or pytorch_lightning")

    class Logger(base):
        """For lightning.Trainer(logger=mgpu.Logger()): its metrics are the
        job's."""

        name = "mgpu"
        version = os.environ.get("MGPU_JOB_ID", "0")

        def __init__(self, config=None):
            base.__init__(self)
            self._own = None
            self._config = config

        @property
        def experiment(self):
            """The Run."""
            if self._own is None:
                self._own = run or init(config=self._config)
            return self._own

        def log_hyperparams(self, params, *args, **kwargs):
            """Adds to the run's config, which its beginning stores."""
            if self._own is None and run is None:
                self._config = Config(self._config or {})
                self._config.update(params)
            else:
                self.experiment.config.update(params)

        def log_metrics(self, metrics, step=None):
            """Records numbers; rank 0 alone."""
            if os.environ.get("MGPU_RANK", "0") == "0":
                self.experiment.log(metrics, step=step)

        def finalize(self, status):
            """Writes what is pending: fit() and test() each call it."""
            if self._own is not None:
                self._own._flush()

    return Logger


# What a script may make for wandb.log(), which then leaves it out.
_MEDIA = ("Audio", "Graph", "Histogram", "Html", "Image", "Molecule",
          "Object3D", "Plotly", "Table", "Video")


class _Media:
    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None  # as add_data() of a Table


def __getattr__(name):
    if name in _MEDIA:
        return type(name, (_Media,), {})
    if name == "Logger":
        globals()["Logger"] = made = _lightning_logger()
        return made
    raise AttributeError("module 'mgpu' has no attribute %r" % name)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "run":
        sys.exit("usage: mgpu.py run DIRECTORY   (a job of submit_function)")
    sys.exit(_run(sys.argv[2]))
