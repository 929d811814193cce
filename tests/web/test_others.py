"""test_others.py - the page of a user of a daemon that serves all: of the jobs of
others it shows what the daemon does, and offers nothing that the daemon refuses.

Only root can start such a daemon and be several users, and it needs a Slurm:
tests/slurm/testbed makes a private one. The users are accounts that every Debian
has, by their names.
"""
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import unittest

from harness import BIN, PageTest, UnixConnection, Web, browser, end_process, until

OWNER, OTHER, ADMIN, DAEMON = "games", "mail", "news", "daemon"
TESTBED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "slurm", "testbed")
CONFIG = """version: 1
cluster: lab
allocator: slurm
controller:
  user: {daemon}
  listen: "127.0.0.1:{port}"
  url: "http://127.0.0.1:{port}"
  state_dir: {dir}/state
  socket: {dir}/sock
  jobs_dir: {dir}/jobs/%u
slurm: {{conf: {slurm}/etc/slurm.conf}}
auth: {{admins: [root, {admin}]}}
"""


def why_not():
    """Why these tests cannot run here; None: they can."""
    if os.geteuid() != 0:
        return "only root can be several users"
    if not shutil.which("slurmctld", path=os.environ.get("PATH", "") + ":/usr/sbin") or not shutil.which("munged", path="/usr/sbin:/usr/bin"):
        return "there is no slurmctld or no munged"
    if not os.path.exists(os.path.join(BIN, "mgpu-slurm-helper")):
        return "mgpu was built without Slurm"
    seen = subprocess.run([os.path.join(BIN, "mgpu-web"), "--version"], check=False, capture_output=True, **identity(OTHER)) \
        if can_pass(BIN) else None
    return None if seen and seen.returncode == 0 else f"other users cannot run {BIN}/mgpu-web"


def can_pass(path):
    """Whether everybody may search all folders down to path."""
    path = os.path.realpath(path)
    return bool(os.stat(path).st_mode & 1) and (path == "/" or can_pass(os.path.dirname(path)))


def identity(name):
    """What subprocess takes to be this user."""
    user = pwd.getpwnam(name)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [],
            "env": {"PATH": os.environ["PATH"], "HOME": "/"}, "cwd": "/"}


class SystemDaemon:
    """A daemon for all users, with a Slurm of one node."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="mgpu-web-others-")
        os.chmod(self.dir, 0o755)
        self.slurm = os.path.join(self.dir, "slurm")
        self.socket = os.path.join(self.dir, "run", "sock")
        self.process = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        log = os.path.join(self.dir, "log")
        with open(log, "ab") as out:
            up = [TESTBED, "up", self.slurm, "--nodes", "1", "--gpus", "2", "--owner", str(os.getpid())]
            if subprocess.run(up, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False).returncode != 0:
                raise AssertionError(f"there is no Slurm:\n{self.said()}")
            run, config = os.path.join(self.dir, "run"), os.path.join(self.dir, "mgpu.yaml")
            os.mkdir(run)
            shutil.chown(run, DAEMON)
            os.mkdir(os.path.join(run, "jobs"))
            os.chmod(os.path.join(run, "jobs"), 0o1777)
            env = subprocess.run([TESTBED, "env", self.slurm], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
            port = env.stdout.split("MGPU_TEST_PORT=")[1].split()[0]
            with open(config, "w", encoding="ascii") as f:
                f.write(CONFIG.format(daemon=DAEMON, port=port, dir=run, slurm=self.slurm, admin=ADMIN))
            self.process = subprocess.Popen([os.path.join(BIN, "mgpu-ctld"), "--config", config], cwd="/",
                                            env=dict(os.environ, MGPU_TESTBED=self.slurm), stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out)
        until(self.is_ready, lambda: f"the daemon answers:\n{self.said()}")

    def said(self):
        with open(os.path.join(self.dir, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"mgpu-ctld has ended:\n{self.said()}")
        try:
            return self.ask("/readyz")[0] == 200
        except OSError:
            return False

    def ask(self, path):
        """(status, text) of a GET by root."""
        c = UnixConnection(self.socket)
        try:
            c.request("GET", path)
            reply = c.getresponse()
            return reply.status, reply.read().decode()
        finally:
            c.close()

    def job(self, number):
        return json.loads(self.ask(f"/v1/jobs/{number}")[1])["job"]

    def submit(self, user, name, **more):
        """Submits a held job as that user; returns its number."""
        path = os.path.join(self.dir, f"{name}.yaml")
        with open(path, "w", encoding="ascii") as f:
            json.dump({"version": 1, "kind": "command", "name": name, "command": ["sleep", "600"],
                       "labels": {"team": "hush"}, "resources": {"gpus": 1}, **more}, f)
        submit = [os.path.join(BIN, "mgpu-submit"), "--url", f"unix:{self.socket}", "--hold", "--parsable", path]
        who = subprocess.run(submit, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **identity(user))
        if who.returncode != 0:
            raise AssertionError(f"{user} cannot submit: {who.stderr}")
        return int(who.stdout.split()[0])

    def close(self):
        if self.process:
            end_process(self.process)
        subprocess.run([TESTBED, "down", self.slurm, "--purge"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        shutil.rmtree(self.dir, ignore_errors=True)


class OthersTest(PageTest):
    @classmethod
    def setUpClass(cls):
        reason = why_not()
        if reason:
            raise unittest.SkipTest(reason)
        cls.daemon = SystemDaemon()
        cls.addClassCleanup(cls.daemon.close)
        cls.theirs = cls.daemon.submit(OWNER, "theirs")
        cls.sweep = cls.daemon.submit(OWNER, "grid", sweep={"grid": {"env.I": [0, 1]}})
        cls.mine = cls.daemon.submit(OTHER, "mine")
        cls.browser = browser()
        cls.driver = cls.browser.driver
        cls.web = cls.page_of(OTHER)

    @classmethod
    def page_of(cls, user):
        web = Web(cls.daemon, **identity(user))
        cls.addClassCleanup(web.close)
        cls.driver.get(web.url)
        return web

    def buttons(self):
        return [b.text for b in self.all("dialog[open] .dialog-buttons button")]

    def why(self, number):
        """Opens the dialog of a row; returns its buttons."""
        self.row(number).find_element("css selector", "[data-act='why']").click()
        until(self.buttons, "a dialog")
        return self.buttons()

    def focus(self, number):
        self.js("arguments[0].focus()", self.row(number))

    def test_a_row_of_another_user_offers_nothing(self):
        self.open("queue?state=active")
        self.until_text("#who", OTHER)
        self.until_text("[data-row] .c-name", "mine")
        self.until_text("[data-row] .c-name", "theirs")
        self.assertNotIn("hush", self.row(self.theirs).text)
        self.assertIn("hush", self.row(self.mine).text)
        links = {number: self.js("return arguments[0].querySelector('.c-name a').hasAttribute('href')", self.row(number))
                 for number in (self.mine, self.theirs, self.sweep - 0.5)}
        self.assertEqual(links, {self.mine: True, self.theirs: False, self.sweep - 0.5: False})
        self.assertEqual(self.why(self.theirs), ["Close"])
        self.until_text("dialog[open]", f"User {OWNER} and administrators see more of it and change it.")
        self.button("Close").click()
        self.assertEqual(self.why(self.mine), ["Close", "Open", "Release", "Cancel job"])
        self.button("Close").click()
        self.row(self.sweep - 0.5).find_element("css selector", "[data-act='why']").click()
        until(self.buttons, "the dialog of the sweep")
        self.assertFalse([b for b in self.buttons() if b.startswith(("Cancel", "Hold", "Release", "Compare"))])
        self.button("Close").click()
        self.until_gone("dialog")

    def test_keys_of_another_users_job(self):
        self.open("queue?state=active")
        self.focus(self.theirs)
        for key in "chrx":
            self.press(key)
        self.assertEqual(self.all("dialog[open]"), [])
        self.assertFalse(self.js("return document.querySelector('a.compare').hidden === false"), "nothing to compare")
        self.focus(self.sweep - 0.5)
        self.press("c")
        self.assertEqual(self.all("dialog[open]"), [])
        self.focus(self.theirs)
        self.press("\ue007")  # Enter: the reason, for there is no view of it
        self.until_text("dialog[open]", "administrators see more of it")
        self.button("Close").click()
        self.until_gone("dialog")
        self.assertTrue(self.link().startswith("#/queue"))

    def test_its_view_has_the_refusal_alone(self):
        self.may_complain = True  # the browser logs the status 403
        for link in (f"job/{self.theirs}", f"compare?jobs={self.theirs}"):
            self.open(link)
            self.until_text("#view", f"job {self.theirs} belongs to another user (DENIED)")
            text = self.js("return document.body.innerText")
            self.assertNotIn("hush", text)
            self.assertNotIn("sleep", text)
        self.assertEqual(self.all(".actions button"), [])
        for part in ("why", "log", "events", "values", "iterations", "scaling"):
            status = self.driver.execute_async_script(
                "fetch(arguments[0]).then((r) => arguments[1](r.status))", f"/v1/jobs/{self.theirs}/{part}")
            self.assertIn(status, (403, 404), part)

    def test_what_the_daemon_refuses_is_shown(self):
        self.may_complain = True  # the browser logs the status 403
        self.open("queue?state=active")
        # As a page whose user was an administrator a moment ago.
        self.js("""Promise.all([import('/actions.js'), import('/api.js')]).then(([actions, api]) =>
            actions.confirmAction('cancel', {display_id: String(arguments[0]), name: 'theirs', state: 'HELD', labels: {}},
                {api, config: {read_only: false}}));""", self.theirs)
        self.button("Cancel job").click()
        self.until_text("dialog[open] .notice.bad", f"job {self.theirs} belongs to another user (DENIED)")
        self.button("Back").click()
        self.until_gone("dialog")
        self.assertEqual(self.daemon.job(self.theirs)["state"], "HELD")

    def test_an_administrator_may(self):
        self.addCleanup(self.show_page, self.web)
        self.show_page(self.page_of(ADMIN))
        self.open("queue?state=active")
        self.until_text("[data-row] .c-name", "theirs")
        self.assertIn("hush", self.row(self.theirs).text)
        self.assertEqual(self.why(self.theirs), ["Close", "Open", "Release", "Cancel job"])
        self.button("Close").click()
        number = self.daemon.submit(OWNER, "victim")
        self.focus(number)
        self.press("c")
        self.button("Cancel job").click()
        until(lambda: self.daemon.job(number)["state"] == "CANCELLED", "it is cancelled")

    def show_page(self, web):
        type(self).web = web
        self.driver.get(web.url)


if __name__ == "__main__":
    unittest.main(verbosity=2)
