"""test_runs.py - mgpu.init() outside of jobs: a run of its own."""

import os
import signal
import socket
import subprocess
import sys
import unittest

import daemon
import mgpu


class Runs(daemon.DaemonTest):
    def begin(self, text, **env):
        """Starts a program; its standard error is in the file script.err."""
        path = os.path.join(self.work, "script.py")
        with open(path, "w", encoding="utf-8") as out:
            out.write("import sys\nsys.path.insert(0, %r)\n"
                      "import mgpu as wandb\n" % daemon.PYTHON_DIR + text)
        with open(os.path.join(self.work, "script.err"), "wb") as err:
            return subprocess.Popen([sys.executable, path], stderr=err,
                                    stdin=subprocess.PIPE,
                                    env=dict(os.environ, **env))

    def said(self):
        with open(os.path.join(self.work, "script.err"),
                  encoding="utf-8") as err:
            return err.read()

    def end(self, program, code=0):
        program.communicate()
        self.assertEqual(program.returncode, code, self.said())

    def run_of(self, name):
        return mgpu.jobs(state="all", name=name)[-1]

    def values(self, job):
        got = job.rows("values")
        return sorted(zip(got["name"], got["iteration"], got["value"]),
                      key=str)

    def test_a_run(self):
        self.end(self.begin('''
run = wandb.init(project="p", name="my run: 1", config={
    "lr": 1e-4, "deep": {"t": (1, float("nan"))}, "of": object})
run.totals(iterations=10)
for i in range(3):
    wandb.log({"loss": 3 - i, "acc": i / 4, "text": "x"})
run.log({"inf": float("inf"), "nan": float("nan")}, step=7)
wandb.log({"epoch": 2.5}, step=9)
run.summary["best"] = 0.5
wandb.config.late = 1
assert run.id == wandb.run.id and run.ended == ""
'''))
        job = mgpu.job(self.run_of("my-run-1").id)
        info = job.info
        self.assertEqual(
            [info[k] for k in ("kind", "state", "exit_code", "gpus", "attempt",
                               "iteration", "iterations_total", "epoch")],
            ["run", "COMPLETED", 0, 0, 1, 9, 10, 2])
        spec = info["spec"]
        self.assertEqual([spec["kind"], spec["project"], spec["config"]], [
            "run", "p", {"lr": 1e-4, "deep": {"t": [1, "nan"]},
                         "of": "<class 'object'>"}])
        got = job.metrics()
        self.assertEqual(got["iteration"], [0, 1, 2, 7, 9])
        self.assertEqual(got["loss"][:3], [3, 2, 1])
        self.assertEqual(got["acc"][:3], [0, 0.25, 0.5])
        self.assertEqual(got["inf"][3], float("inf"))
        self.assertIn(("best", None, 0.5), self.values(job))
        self.assertEqual([e["event"] for e in job.events()],
                         ["submit", "open", "finish"])
        self.assertEqual(job.events()[1]["detail"]["holder"].split()[0],
                         socket.gethostname())
        said = self.said().splitlines()
        self.assertEqual(said[0], "mgpu: run %s: mgpu-stat --metrics %s shows "
                         "its curves" % (job.id, job.id))
        self.assertIn("mgpu: settings that came after init() are not stored: "
                      "pass them to init(config=...)", said)

    def test_how_it_ends(self):
        for name, text, code, reason in (
                ("good", "wandb.finish()", 0, None),
                ("code", "wandb.finish(exit_code=3)", 3,
                 "its program ended with exit code 3"),
                ("negative", "wandb.finish(exit_code=-1)", 255,
                 "its program ended with exit code 255"),
                ("large", "wandb.finish(exit_code=256)", 1,
                 "its program ended with exit code 1"),
                ("zero", "raise ValueError('a\\0b\\ud800')", 1,
                 "ValueError: a\ufffdb?"),
                ("error", "raise ValueError('no good')", 1,
                 "ValueError: no good"),
                ("with", "with wandb.run:\n    sys.exit(5)", 5,
                 "SystemExit: 5")):
            with self.subTest(name):
                program = self.begin("wandb.init(name=%r)\nwandb.log({'a': 1})"
                                     "\n%s\n" % (name, text))
                program.communicate()
                job = self.run_of(name)
                info = job.info
                self.assertEqual(
                    [info["state"], info["exit_code"], info["reason"]],
                    ["FAILED" if code else "COMPLETED", code, reason])
                self.assertEqual(self.values(job), [("a", 0, 1)])

    def test_settings_that_json_has_not(self):
        self.end(self.begin('''
deep = {"last": 1}
for i in range(70):
    deep = {"d": deep}
own = []
own.append(own)
wandb.init(name="odd-settings", project="a\\0b", config={
    "seed": 2 ** 64 - 1, "low": -2 ** 63, "zero": "a\\0b", "\\ud800": "k",
    "deep": deep, "own": own})
'''))
        spec = mgpu.job(self.run_of("odd-settings").id).info["spec"]
        config = spec["config"]
        self.assertEqual(spec["project"], "a\ufffdb")
        self.assertEqual(
            [config[k] for k in ("seed", "low", "zero", "?")],
            ["18446744073709551615", -2 ** 63, "a\ufffdb", "k"])
        levels, at = 0, config["deep"]
        while isinstance(at, dict):
            levels, at = levels + 1, at["d"]
        self.assertEqual(levels, 63)
        self.assertIn("'last': 1", at)

    def test_totals_that_change(self):
        """The newest counts, and what each batch repeats does not grow."""
        self.end(self.begin('''
run = wandb.init(name="totals")
for i in range(1, 200):
    run.totals(iterations=i)
    run.totals(iterations=1000, epochs=i)
run.totals(iterations=5)
assert len(run._sender._totals) == 2
wandb.log({"a": 1})
'''))
        info = self.run_of("totals").info
        self.assertEqual([info["iterations_total"], info["epochs_total"]],
                         [5, 199])

    def test_a_pause_does_not_wait(self):
        program = self.begin('wandb.init(name="paused")\nsys.stdin.readline()\n')
        daemon.until(lambda: mgpu.jobs(name="paused"))
        admin = os.path.join(daemon.BIN, "mgpu-admin")
        try:
            done = subprocess.run(
                [admin, "pause", "--wait", "--timeout", "60s"],
                capture_output=True, encoding="utf-8", check=False)
        finally:
            subprocess.run([admin, "resume"], check=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no job runs any more", done.stdout)
        self.assertEqual(self.run_of("paused").state, "RUNNING")
        self.end(program)

    def test_a_daemon_that_restarts(self):
        program = self.begin('''
wandb.init(name="restart").totals(iterations=50)
for i in range(50):
    wandb.log({"a": i})
    if i == 10:
        sys.stdin.readline()
    if i == 20:
        sys.stdin.readline()
''')
        daemon.until(lambda: any(
            j.info["iteration"] == 10
            for j in mgpu.jobs(state="all", name="restart")))
        self.daemon.stop()
        program.stdin.write(b"go\n")
        program.stdin.flush()
        self.daemon.start()
        job = self.run_of("restart")
        self.assertEqual(job.info["state"], "RUNNING")
        daemon.until(lambda: job.refresh().info["iteration"] == 20)
        self.assertEqual(job.info["iterations_total"], 50)
        self.end(program)
        self.assertEqual(self.values(job), sorted(
            (("a", i, i) for i in range(50)), key=str))
        self.assertEqual(job.state, "COMPLETED")

    def test_a_lost_reply(self):
        """A batch that is sent twice is stored once."""
        way = mgpu._Socket(mgpu.default_url())
        key = {"Idempotency-Key": "lost-reply"}
        opened = [way.call("POST", "/v1/runs", None, {"name": "lost"}, key)
                  for _ in range(2)]
        self.assertEqual(opened[0]["id"], opened[1]["id"])
        path = "/v1/jobs/%s/" % opened[0]["id"]
        text = b'{"step":1,"a":1}\n{"step":2,"a":2,"b":"x"}\n[1]\n'

        def send(offset, body):
            return way.call("POST", path + "values", {"offset": offset}, body)
        first = send(0, text)
        self.assertEqual(
            [first["acked"], first["dropped"], first["line"], first["ignored"]],
            [len(text), 1, 3, [{"key": "b", "why": "is a text, not a number"}]])
        self.assertEqual(send(0, text)["acked"], len(text))
        self.assertEqual(send(len(text) + 5, b'{"step":3,"a":3}\n')["acked"],
                         len(text))  # a gap: go back
        self.assertEqual(send(len(text), b"")["acked"], len(text))
        job = mgpu.job(opened[0]["id"])
        self.assertEqual(self.values(job), [("a", 1, 1), ("a", 2, 2)])
        for _ in range(2):
            way.call("POST", path + "finish", None, {"exit_code": 0})
        with self.assertRaisesRegex(mgpu.State, "has ended: COMPLETED"):
            send(len(text), b'{"step":4,"a":4}\n')

    def test_cancelled(self):
        program = self.begin('''
run = wandb.init(name="cancelled")
wandb.log({"a": 1})
sys.stdin.readline()
for i in range(5):
    wandb.log({"a": i}, commit=True)
run._sender._thread.join(100)
assert run.ended.endswith("CANCELLED, cancelled by its user"), run.ended
wandb.log({"a": 9})
run.finish()
assert run.ended.endswith("CANCELLED, cancelled by its user"), run.ended
''')
        daemon.until(lambda: mgpu.jobs(name="cancelled"))
        job = self.run_of("cancelled")
        job.cancel()
        self.assertEqual(job.wait(), "CANCELLED")
        self.assertEqual(job.exit_code, 130)
        program.stdin.write(b"\n")
        program.stdin.flush()
        self.end(program)
        self.assertEqual(self.said().count("is not recorded any more"), 1)

    def test_a_child_does_not_send(self):
        self.end(self.begin('''
import os
run = wandb.init(name="fork")
wandb.log({"a": 1}, step=1)
child = os.fork()
if child == 0:
    wandb.log({"b": 2}, step=2)
    sys.exit(0)
os.waitpid(child, 0)
wandb.log({"c": 3}, step=3)
'''))
        job = self.run_of("fork")
        self.assertEqual(self.values(job), [("a", 1, 1), ("c", 3, 3)])
        self.assertEqual(job.info["state"], "COMPLETED")
        self.assertIn("what a child process logs is not recorded", self.said())

    def test_what_is_for_jobs_is_refused(self):
        program = self.begin('wandb.init(name="odd")\nsys.stdin.readline()\n')
        daemon.until(lambda: mgpu.jobs(name="odd"))
        job = self.run_of("odd")
        with self.assertRaisesRegex(mgpu.State, "is a run"):
            job.resize(2)
        self.assertEqual(job.state, "RUNNING")
        self.assertEqual(job.logs(), "")
        self.end(program)

    def test_no_daemon(self):
        with self.assertRaises(mgpu.Unavailable) as caught:
            os.environ["MGPU_URL"] = "unix:%s/none" % self.work
            try:
                mgpu.init()
            finally:
                os.environ["MGPU_URL"] = "unix:" + self.daemon.socket
        self.assertIn('mode="disabled"', caught.exception.hint)
        with self.assertRaises(mgpu.Unavailable) as caught:
            os.environ["MGPU_URL"] = "http://127.0.0.1:1"
            try:
                mgpu.init()
            finally:
                os.environ["MGPU_URL"] = "unix:" + self.daemon.socket
        self.assertIn("unix:PATH", caught.exception.hint)
        with self.assertRaisesRegex(mgpu.Usage, "cannot record offline"):
            mgpu.init(mode="offline")
        with self.assertRaisesRegex(mgpu.Usage, "call init"):
            mgpu.log({"a": 1})
        mgpu.finish()

    def test_disabled(self):
        self.script("import mgpu\nrun = mgpu.init(mode='disabled')\n"
                    "mgpu.log({'a': 1})\nmgpu.finish()\n"
                    "assert mgpu.run is None\n")
        self.script("import mgpu\nmgpu.init()\nmgpu.log({'a': 1})\n",
                    WANDB_MODE="disabled")

    def test_killed(self):
        """Nothing is heard of it: the daemon ends it after its time."""
        program = self.begin('wandb.init(name="killed")\nwandb.log({"a": 1})\n'
                             'sys.stdin.readline()\n')
        daemon.until(lambda: any(self.values(j)
                                 for j in mgpu.jobs(name="killed")))
        program.kill()
        program.communicate()
        self.assertEqual(program.returncode, -signal.SIGKILL)
        self.assertEqual(self.run_of("killed").state, "RUNNING")

    def test_log_does_not_wait(self):
        """Not for a daemon that is stopped: no request of log() is on its
        way."""
        program = self.begin('''
wandb.init(name="fast")
sys.stdin.readline()
for i in range(1000):
    wandb.log({"a": i})
print("logged", flush=True)
open("logged", "w").close()
''')
        daemon.until(lambda: mgpu.jobs(name="fast"))
        job = self.run_of("fast")
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            program.stdin.write(b"\n")
            program.stdin.flush()
            daemon.until(lambda: os.path.exists("logged"))
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)
        self.end(program)
        self.assertEqual(len(self.values(job)), 1000)

    def test_a_spec_of_kind_run(self):
        with open("run.yaml", "w", encoding="utf-8") as out:
            out.write("version: 1\nkind: run\nname: x\n")
        with self.assertRaises(mgpu.Invalid) as caught:
            mgpu.submit("run.yaml")
        self.assertIn("mgpu.init()", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
