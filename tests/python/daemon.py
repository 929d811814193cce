"""daemon.py - a personal daemon on CPU slots for the tests of mgpu.py.

It has a directory of its own, listens on a unix socket there, and is ended by
its process id. What the tests submit ends with it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SRC = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BIN = os.environ.get("MGPU_BIN", os.path.join(SRC, "build/release/bin"))
PYTHON_DIR = os.path.join(SRC, "contrib/python")
sys.path.insert(0, PYTHON_DIR)

import mgpu  # noqa: E402

# Ten times what a test needs on a quiet machine: others may have the cores.
DEADLINE_S = 300


class Daemon:
    """mgpu-ctld --local --slots 2; MGPU_URL and MGPU_CALLS name its files."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="mgpu-python-")
        self.socket = os.path.join(self.dir, "sock")
        self.process = None
        os.environ.update(
            MGPU_URL="unix:" + self.socket, MGPU_BIN=BIN,
            MGPU_CALLS=os.path.join(self.dir, "calls"),
            OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.start()

    def start(self):
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [os.path.join(BIN, "mgpu-ctld"), "--local", "--slots", "2",
                 "--state-dir", os.path.join(self.dir, "state"),
                 "--socket", self.socket], stdout=log, stderr=log)
        until(self.is_up)

    def is_up(self):
        if self.process.poll() is not None:
            raise AssertionError("the daemon has ended: %s" % self.log())
        try:
            return mgpu.jobs() is not None
        except mgpu.Error:
            return False

    def log(self):
        with open(os.path.join(self.dir, "log"), encoding="utf-8") as log:
            return log.read()

    def stop(self):
        """Ends the daemon alone: its jobs and files stay."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def cancel_all(self):
        for job in mgpu.jobs():
            try:
                job.cancel()
            except mgpu.State:
                pass
        until(lambda: not mgpu.jobs())

    def end(self):
        """Ends the daemon, removes its files."""
        self.stop()
        shutil.rmtree(self.dir)


def until(condition):
    """Looks again until the condition holds or the deadline has passed."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("not in time")
        time.sleep(0.05)


class DaemonTest(unittest.TestCase):
    """Tests of a class share a daemon and an empty directory."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.end)
        cls.work = os.path.join(cls.daemon.dir, "work")
        os.mkdir(cls.work)
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(cls.work)

    def tearDown(self):
        self.daemon.cancel_all()

    def script(self, text, *args, python=sys.executable, **env):
        """Runs a program in a file of its own; its standard output."""
        path = os.path.join(self.work, "script.py")
        with open(path, "w", encoding="utf-8") as out:
            out.write("import sys\nsys.path.insert(0, %r)\n" % PYTHON_DIR
                      + text)
        done = subprocess.run([python, path, *args], capture_output=True,
                              encoding="utf-8", check=False,
                              env=dict(os.environ, **env))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout
