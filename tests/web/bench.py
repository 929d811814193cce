"""bench.py - how fast the page is in Chromium with a queue of 990 jobs, and with a
sweep of as many tasks.

usage: MGPU_BIN=build/release/bin /usr/bin/python3 tests/web/bench.py

Prints the time to the first paint, the time until all rows are there, and the
longest task of the page's thread while rows change: one job, then all, then all
tasks of a sweep that is closed, is opened, and is open. Times on the clock hold
for an idle machine, CPU milliseconds for any (trace.py).
"""
import statistics
import time

from harness import Browser, Daemon, Web, until
from trace import CATEGORIES, Trace

JOBS = 990
# Before the page's own scripts: notes when all rows are there.
PROBE = """
window.fullMs = 0;
(function look() {
    if (document.querySelectorAll('[data-row]').length >= %d) window.fullMs = performance.now();
    else requestAnimationFrame(look);
})();
""" % JOBS


def sweep(daemon):
    """990 jobs that are held."""
    spec = {"version": 1, "kind": "command", "name": "sweep", "command": ["sleep", "600"], "resources": {"gpus": 1},
            "sweep": {"grid": {"policy.priority": list(range(-49, 50)), "retry.max": list(range(10))}}}
    return daemon.api("POST", "/v1/jobs", {"spec": spec, "hold": True})["id"]


def main():
    daemon = Daemon(slots=1)
    try:
        web = Web(daemon)
        try:
            measure(daemon, web)
        finally:
            web.close()
    finally:
        daemon.close()


def states(driver, state):
    return driver.execute_script("return [...document.querySelectorAll('[data-row] .badge')]"
                                 ".filter(b => b.textContent === arguments[0]).length", state)


def measure(daemon, web):
    browser = Browser(CATEGORIES)
    try:
        show(daemon, web, browser.driver)
    finally:
        browser.close()


def show(daemon, web, driver):
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": PROBE})
    daemon.api("POST", "/v1/admin/pause", {})
    for _ in range(JOBS - 1):
        daemon.submit("many", hold=True)
    number = daemon.submit("one", hold=True)
    driver.get(web.url)
    trace = Trace(driver)
    paints, fulls = [], []
    for _ in range(5):
        driver.get("about:blank")
        driver.get(f"{web.origin}/#/queue")
        until(lambda: driver.execute_script("return fullMs"), "all rows")
        paints.append(driver.execute_script("return performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        fulls.append(driver.execute_script("return fullMs"))
    print(f"first paint: {statistics.median(paints):.0f} ms (median of 5, {min(paints):.0f}..{max(paints):.0f})")
    print(f"{JOBS} rows:    {statistics.median(fulls):.0f} ms (median of 5, {min(fulls):.0f}..{max(fulls):.0f})")
    print(f"loaded five times: {trace.line()}")
    time.sleep(2)  # what is left of the loading
    trace.take()
    for _ in range(3):
        for action, state in (("release", "QUEUED"), ("hold", "HELD")):
            daemon.api("POST", f"/v1/jobs/{number}/{action}", {})
            row = f"[data-row][data-id='{number}'] .badge"
            until(lambda: driver.execute_script("return document.querySelector(arguments[0]).textContent", row) == state,
                  "the row changes")
    print(f"one job changes, six times: {trace.line()}")
    for job in daemon.live():
        daemon.api("POST", f"/v1/jobs/{job}/release", {})
    until(lambda: states(driver, "QUEUED") >= JOBS - 1, "all rows change")
    print(f"all jobs change: {trace.line()}")
    measure_sweep(daemon, driver, trace)


def measure_sweep(daemon, driver, trace):
    daemon.cancel_all()  # a user may have 1,000
    first = sweep(daemon)
    head = f"[data-row][data-id='{first - 0.5}']"

    def is_said(text):
        return driver.execute_script("const r = document.querySelector(arguments[0]); return r && r.textContent.includes(arguments[1])",
                                     head, text)

    until(lambda: is_said(f"{JOBS} HELD"), "the row of the sweep")
    trace.take()
    daemon.api("POST", f"/v1/jobs/{first}/release", {})
    until(lambda: is_said(f"{JOBS} QUEUED"), "its row changes")
    print(f"{JOBS} tasks of a closed sweep change: {trace.line()}")
    driver.execute_script("document.querySelector(arguments[0]).click()", head)
    until(lambda: states(driver, "QUEUED") >= JOBS, "its tasks have rows")
    print(f"it opens: {trace.line()}")
    daemon.api("POST", f"/v1/jobs/{first}/hold", {})
    until(lambda: states(driver, "HELD") >= JOBS, "its tasks change")
    print(f"{JOBS} tasks of an open sweep change: {trace.line()}")


if __name__ == "__main__":
    main()
