"""harness.py - a private daemon, mgpu-web and a browser for the tests of the page.

A test class of PageTest has a daemon on CPU slots, mgpu-web before it, and a
headless Chromium. Everything listens on unix sockets or on loopback, and ends
by its process with the class. Nothing sleeps for an amount of time: until()
looks again until a condition holds or PATIENCE_S have passed.

MGPU_BIN     the folder of the programs
MGPU_SHOTS   where screenshots go; default: none are kept
"""
import atexit
import functools
import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

BIN = os.environ["MGPU_BIN"]
# Many times what a quiet machine needs: other programs may have the cores.
PATIENCE_S = float(os.environ.get("MGPU_WEB_PATIENCE_S", "180"))
CHROMIUM = shutil.which("chromium")
CHROMEDRIVER = shutil.which("chromedriver")


def until(condition, what):
    """The first true value of condition(); fails after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            value = condition()
        except StaleElementReferenceException:  # the page has just replaced it
            value = None
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {PATIENCE_S:.0f} s: {what() if callable(what) else what}")
        time.sleep(0.05)


def end_process(process):
    """Ends it by SIGTERM, by SIGKILL if it does not; returns its status."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


class UnixConnection(http.client.HTTPConnection):
    """HTTP on a unix socket."""

    def __init__(self, path):
        super().__init__("mgpu", timeout=PATIENCE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Daemon:
    """A personal daemon on CPU slots."""

    def __init__(self, slots=4):
        self.dir = tempfile.mkdtemp(prefix="mgpu-web-")
        self.socket = os.path.join(self.dir, "sock")
        self.slots = slots
        self.process = None
        self.start()

    def start(self):
        log = open(os.path.join(self.dir, "ctld.log"), "ab")
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        with log:
            self.process = subprocess.Popen(
                [os.path.join(BIN, "mgpu-ctld"), "--local", "--slots", str(self.slots),
                 "--state-dir", os.path.join(self.dir, "state"), "--socket", self.socket],
                cwd=self.dir, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(self.is_ready, "the daemon answers")

    def is_ready(self):
        if self.process.poll() is not None:
            with open(os.path.join(self.dir, "ctld.log"), encoding="utf-8") as log:
                raise AssertionError(f"mgpu-ctld has ended:\n{log.read()}")
        try:
            return self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def ask(self, method, path, body=None):
        """(status, text) of a request."""
        c = UnixConnection(self.socket)
        try:
            c.request(method, path, json.dumps(body) if body is not None else None)
            reply = c.getresponse()
            return reply.status, reply.read().decode()
        finally:
            c.close()

    def api(self, method, path, body=None):
        """The document of a request that succeeds."""
        status, text = self.ask(method, path, body)
        if status >= 400:
            raise AssertionError(f"{method} {path}: {status} {text}")
        return json.loads(text)

    def submit(self, name, script="sleep 600", gpus=1, hold=False, **more):
        """Submits a job of a shell script; returns its number."""
        spec = {"version": 1, "kind": "command", "name": name, "command": ["sh", "-c", script],
                "resources": {"gpus": gpus}, **more}
        return self.api("POST", "/v1/jobs", {"spec": spec, "hold": hold})["id"]

    def job(self, number):
        return self.api("GET", f"/v1/jobs/{number}")["job"]

    def wait_state(self, number, *states):
        until(lambda: self.job(number)["state"] in states, f"job {number} is {' or '.join(states)}")

    def live(self):
        jobs = self.api("GET", "/v1/jobs?fields=id,state&state=QUEUED,HELD,DISPATCHING,UNKNOWN,STARTING,"
                               "RUNNING,CHECKPOINTING,STALLED")["jobs"]
        return [j["id"] for j in jobs]

    def cancel_all(self):
        for number in self.live():
            self.ask("POST", f"/v1/jobs/{number}/cancel", {})
        until(lambda: not self.live(), "all jobs have ended")

    def stop(self):
        """Ends the process; its files and jobs stay."""
        return end_process(self.process)

    def close(self):
        try:
            if self.process.poll() is None:
                self.cancel_all()
        finally:
            self.stop()
            shutil.rmtree(self.dir, ignore_errors=True)


class Web:
    """mgpu-web before a daemon; url is the one that it prints, with the token.
    bin: the folder of mgpu-web; process: more of subprocess.Popen(), as user."""

    def __init__(self, daemon, *options, bin=BIN, **process):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [os.path.join(bin, "mgpu-web"), "--url", f"unix:{daemon.socket}", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True,
            **process)
        try:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
            self.url = self.process.stdout.readline().strip() if ready else ""
            if not self.url.startswith("http://"):
                raise AssertionError(f"mgpu-web printed {self.url!r}; {self.said()}")
        except BaseException:
            self.close()
            raise
        self.origin = self.url.split("/?")[0]

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def close(self):
        status = end_process(self.process)
        self.process.stdout.close()
        self.log.close()
        return status


class Browser:
    """One headless Chromium for all tests of a process; `tracing`: trace.py."""

    def __init__(self, tracing=None):
        self.profile = tempfile.mkdtemp(prefix="mgpu-web-profile-")
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for a in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                  "--disable-background-networking", "--force-prefers-reduced-motion",
                  f"--user-data-dir={self.profile}"):
            options.add_argument(a)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")  # Chromium as root has none
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        if tracing:
            options.add_experimental_option("perfLoggingPrefs", {"traceCategories": tracing})
        self.driver = webdriver.Chrome(service=Service(CHROMEDRIVER), options=options)
        self.driver.set_page_load_timeout(PATIENCE_S)
        self.driver.set_script_timeout(PATIENCE_S)
        self.size(1280, 800)

    def size(self, width, height=800, dark=False):
        """The size of the page in CSS pixels, and light or dark."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def problems(self):
        """What the console has complained of since the last call."""
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """The URLs that the page has asked for since the last call."""
        urls = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return urls

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)


@functools.lru_cache(maxsize=1)
def browser():
    """The browser, which ends with the process."""
    b = Browser()
    atexit.register(b.close)
    return b


class PageTest(unittest.TestCase):
    """A class of tests with a daemon and a page of its own."""

    slots = 4
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(cls.slots)
        cls.addClassCleanup(cls.daemon.close)
        cls.web = Web(cls.daemon, *cls.options)
        cls.addClassCleanup(cls.web.close)
        cls.browser = browser()
        cls.driver = cls.browser.driver
        cls.driver.get(cls.web.url)
        cls.jobs()

    @classmethod
    def jobs(cls):
        """Submits what all tests of the class look at."""

    def setUp(self):
        self.browser.size(1280)
        self.browser.problems()
        self.browser.requests()
        self.may_complain = False

    def tearDown(self):
        problems, urls = self.browser.problems(), self.browser.requests()
        if not self.may_complain:
            self.assertEqual(problems, [], "the console is silent")
        foreign = [u for u in urls if not u.startswith((self.web.origin + "/", "data:", "about:", "blob:"))]
        self.assertEqual(foreign, [], "the page asks no other origin")

    # ---- the page ----

    def open(self, fragment):
        """Loads the page anew with #/fragment, and waits for its view."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.web.origin}/#/{fragment}")
        view = fragment.split("?")[0].split("/")[0]
        until(lambda: self.js("return document.getElementById('view').dataset.ready") == view, f"the view {view}")

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def one(self, css):
        """The element, as soon as there is one that is visible."""
        return until(lambda: next((e for e in self.all(css) if e.is_displayed()), None), f"there is {css}")

    def until_text(self, css, text):
        until(lambda: any(text in e.text for e in self.all(css)), f"{text!r} in {css}")

    def until_gone(self, css):
        until(lambda: not self.all(css), f"no {css}")

    def names(self):
        """The names of the jobs in the rows that are visible, in order."""
        return self.js("return [...document.querySelectorAll('[data-row]')].filter(r => r.offsetParent)"
                       ".map(r => r.querySelector('.c-name a').textContent)")

    def until_names(self, *names):
        until(lambda: self.names() == list(names), lambda: f"the rows are {names}, not {self.names()}")

    def row(self, number):
        return self.one(f"[data-row][data-id='{number}']")

    def link(self):
        return self.js("return location.hash")

    def press(self, keys):
        self.driver.switch_to.active_element.send_keys(keys)

    def button(self, text):
        """The button of the open dialog."""
        return until(lambda: next((b for b in self.all("dialog[open] .dialog-buttons button") if b.text == text), None),
                     f"the button {text!r}")

    def wider(self):
        """By how many pixels the page is wider than the window."""
        return self.js("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
