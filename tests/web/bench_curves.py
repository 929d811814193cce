"""bench_curves.py - how fast the page draws 50 curves of 100,000 points, with
1,000 jobs in the queue.

usage: MGPU_BIN=build/release/bin /usr/bin/python3 tests/web/bench_curves.py

Prints when the comparison of 50 jobs is painted first, when the first and when
all of its curves are drawn, after a start of the daemon and again; what drawing
all of them again takes; and the longest task of the page's thread while one of
the jobs reports more. Times on the clock hold for an idle machine; CPU seconds
of the daemon, and CPU milliseconds of the page's tasks, for any. It gives no
verdict.
"""
import os
import sqlite3
import statistics
import time

from harness import Browser, Daemon, Web, until
from trace import CATEGORIES, Trace, cpu_s

JOBS, POINTS, HELD = 50, 100000, 950
UPDATES_S = 12  # four updates
# Before the page's own scripts: notes how many curves are drawn.
PROBE = """
window.seen = {};
(function look() {
    const c = document.querySelector('.chart-over');
    const n = c && /, (\\d+) curves?/.exec(c.getAttribute('aria-label') || '');
    if (n && n[1] > 0 && !seen.first) seen.first = performance.now();
    if (n && n[1] >= %d) seen.all = performance.now();
    else requestAnimationFrame(look);
})();
""" % JOBS
# Milliseconds from a click to the frame after the one that draws.
REDRAW = """
const done = arguments[arguments.length - 1], from = performance.now();
document.querySelector('[data-field=log]').click();
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - from)));
"""
# Reports an iteration more each second.
RUNS = f"i={POINTS}; while :; do i=$((i + 1)); echo '{{\"iteration\": '$i', \"loss\": 0.5}}' >>$MGPU_METRICS; sleep 1; done"


def fill(daemon):
    """All jobs get the same number of rows, with losses of their own."""
    daemon.stop()
    db = sqlite3.connect(os.path.join(daemon.dir, "state", "metrics.db"))
    with db:
        db.execute("""WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?)
                      INSERT INTO iteration (job, attempt, iteration, rank, epoch, started_at, t_iter, loss, lr, samples)
                      SELECT j.value, 1, i.n, 0, 1 + i.n / 20000, 1.7e9 + i.n, 0.1,
                             3.0 * j.value / (j.value + i.n / 1000.0) + abs(random() % 1000) / 5000.0, 0.001, 32
                      FROM json_each(?) AS j, i""", (POINTS, str(list(range(1, JOBS + 1)))))
    db.close()
    daemon.start()


def load(daemon, web, driver, trace, what):
    """The comparison from its link until all curves are drawn."""
    jobs = ",".join(str(n) for n in range(1, JOBS + 1))
    driver.get("about:blank")
    trace.take()
    cpu = cpu_s(daemon.process.pid)
    driver.get(f"{web.origin}/#/compare?jobs={jobs}")
    until(lambda: driver.execute_script("return seen.all"), "all curves")
    until(lambda: driver.execute_script("return document.querySelector('[data-curves]')"), "all is read")
    cpu = cpu_s(daemon.process.pid) - cpu
    paint = driver.execute_script("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
    first, last = driver.execute_script("return [seen.first, seen.all]")
    print(f"{what}: first paint {paint:.0f} ms, first curve {first:.0f} ms, all {JOBS} curves {last:.0f} ms on the clock")
    print(f"    the daemon: {cpu:.2f} s of CPU; the page: {trace.line()}")


def measure(daemon, web):
    browser = Browser(CATEGORIES)
    try:
        driver = browser.driver
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": PROBE})
        driver.get(web.url)
        trace = Trace(driver)
        load(daemon, web, driver, trace, "after a start")
        load(daemon, web, driver, trace, "again")
        load(daemon, web, driver, trace, "again")
        driver.set_script_timeout(60)
        trace.take()
        again = [driver.execute_async_script(REDRAW) for _ in range(10)]
        print(f"drawn anew ten times, median {statistics.median(again):.0f} ms on the clock: {trace.line()}")
        cpu = cpu_s(daemon.process.pid)
        for _ in range(UPDATES_S):
            time.sleep(1)
            driver.execute_script("return 1")
        print(f"updates for {UPDATES_S} s: the daemon: {cpu_s(daemon.process.pid) - cpu:.2f} s of CPU; the page: {trace.line()}")
    finally:
        browser.close()


def main():
    daemon = Daemon(slots=4)
    try:
        daemon.api("POST", "/v1/jobs", {"spec": {
            "version": 1, "kind": "command", "name": "filled", "command": ["true"], "resources": {"gpus": 1},
            "sweep": {"grid": {"policy.priority": list(range(JOBS - 1))}}}})
        until(lambda: not daemon.live(), "the jobs have an attempt")
        live = daemon.submit("live", RUNS)
        daemon.api("POST", "/v1/jobs", {"spec": {
            "version": 1, "kind": "command", "name": "held", "command": ["true"], "resources": {"gpus": 1},
            "sweep": {"grid": {"policy.priority": list(range(-49, 46)), "retry.max": list(range(HELD // 95))}}}, "hold": True})
        daemon.wait_state(live, "RUNNING")
        until(lambda: daemon.job(live)["iteration"], "it reports")
        fill(daemon)
        daemon.wait_state(live, "RUNNING")
        web = Web(daemon)
        try:
            measure(daemon, web)
        finally:
            web.close()
    finally:
        daemon.close()


if __name__ == "__main__":
    main()
