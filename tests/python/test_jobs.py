"""test_jobs.py - submit, wait, read: mgpu.py against a daemon."""

import datetime
import json
import os
import threading
import unittest
from unittest import mock

import daemon
import mgpu

HELLO = os.path.join(daemon.SRC, "jobs/examples/command-hello.yaml")


def command(*words, **more):
    return dict({"version": 1, "kind": "command", "name": "c",
                 "command": list(words)}, **more)


def shell(text, **more):
    return command("sh", "-c", text, **more)


class Jobs(daemon.DaemonTest):
    def test_a_file_a_text_and_a_dict(self):
        with open(HELLO, encoding="utf-8") as file:
            text = file.read()
        spec = shell("echo '{\"iteration\": 1, \"answer\": 42}' "
                     ">>$MGPU_METRICS; echo hello from rank $MGPU_RANK")
        for each in (HELLO, text, spec):
            job = mgpu.submit(each)
            self.assertEqual(job.wait(), "COMPLETED")
            self.assertEqual(job.exit_code, 0)
            self.assertEqual(job.logs(), "hello from rank 0\n")
            self.assertEqual(job.metrics()["answer"], [42])

    def test_a_file_that_looks_like_an_option(self):
        with open("--hold", "w", encoding="utf-8") as out:
            json.dump(command("true"), out)
        self.assertEqual(mgpu.submit("--hold").wait(), "COMPLETED")

    def test_what_is_set_goes_over_the_file(self):
        job = mgpu.submit(HELLO, hold=True, name="other", time_limit="90s",
                          priority=7, env__GREETING="a: b #c",
                          labels={"team": "x y", "n": 5}, gpus=2,
                          command=["sh", "-c", "echo $GREETING"])
        spec = job.info["spec"]
        self.assertEqual(job.state, "HELD")
        self.assertEqual(job.info["name"], "other")
        self.assertEqual(job.info["limit_s"], 90)
        self.assertEqual(spec["policy"]["priority"], 7)
        self.assertEqual(spec["resources"]["gpus"], {"min": 2, "max": 2})
        self.assertEqual(spec["env"], {"GREETING": "a: b #c"})
        self.assertEqual(spec["labels"], {"team": "x y", "n": "5"})
        self.assertEqual(spec["command"], ["sh", "-c", "echo $GREETING"])
        job.release()
        job.wait()
        self.assertEqual({line.split("] ")[-1] for line in
                          job.logs().splitlines()}, {"a: b #c"})

    def test_words_of_yaml_are_texts(self):
        job = mgpu.submit(shell('echo "$A $B $C"'), env__A="null",
                          env__B="yes", env__C="~")
        self.assertEqual(job.wait(), "COMPLETED")
        self.assertEqual(job.logs(), "null yes ~\n")

    def test_the_hint_of_an_error(self):
        error = mgpu._error("UNAVAIL", "no daemon at 'unix:/x': not there: "
                            "start one with 'mgpu-ctld --local'")
        self.assertEqual((error.message, error.hint), (
            "no daemon at 'unix:/x': not there",
            "start one with 'mgpu-ctld --local'"))

    def test_all_mistakes_are_in_the_exception(self):
        spec = 'version: 1\nkind: command\ncomand: [x]\nresources: {gpu: 1}\n'
        with self.assertRaises(mgpu.Invalid) as caught:
            mgpu.submit(spec)
        error = caught.exception
        self.assertIsInstance(error, ValueError)
        self.assertEqual(error.code, "INVAL")
        self.assertEqual([(f["code"], f["line"], f["column"], f["path"])
                          for f in error.findings],
                         [("E011", 1, 1, "command"), ("E010", 3, 1, "comand"),
                          ("E010", 4, 13, "resources.gpu")])
        self.assertIn("-:3:1: unknown key 'comand' [E010]: did you mean "
                      "'command'?", error.message)
        self.assertEqual(error.hint, "mgpu-submit --explain E011 says more")
        with self.assertRaises(mgpu.Invalid) as caught:
            mgpu.submit(HELLO, train__epochs=3)
        self.assertEqual(caught.exception.findings[0]["path"], "train.epochs")

    def test_what_is_no_specification(self):
        with self.assertRaises(mgpu.NotFound):
            mgpu.submit("/nonexistent.yaml")
        with self.assertRaisesRegex(mgpu.Usage, "a path, a text or a dict"):
            mgpu.submit(5)

    def test_one_key_is_one_job(self):
        made = [mgpu.submit(command("true"), idempotency_key="k1")
                for _ in range(2)]
        self.assertEqual(made[0].id, made[1].id)
        with self.assertRaises(mgpu.State):
            mgpu.submit(command("false"), idempotency_key="k1")

    def test_no_such_job(self):
        for ask in (lambda: mgpu.job(4711), lambda: mgpu.job("4711_2"),
                    lambda: mgpu.Job(4711).cancel(),
                    lambda: mgpu.Job(4711).logs(),
                    lambda: mgpu.Job(4711).rows(),
                    lambda: mgpu.Job(4711).wait()):
            with self.assertRaises(mgpu.NotFound) as caught:
                ask()
            self.assertIsInstance(caught.exception, LookupError)
            self.assertRegex(caught.exception.message, "no.* job.* '?4711")

    def test_cancel_resize_hold_and_events(self):
        job = mgpu.submit(command("sleep", "600"))
        daemon.until(lambda: job.state == "RUNNING")
        with self.assertRaisesRegex(mgpu.State, "needs saves: true"):
            job.resize(2)
        job.cancel()
        self.assertEqual(job.wait(), "CANCELLED")
        events = [e["event"] for e in job.events()]
        self.assertEqual(events[0], "submit")
        self.assertIn("cancel", events)
        job = mgpu.submit(command("true"))
        job.wait()
        with self.assertRaisesRegex(mgpu.State, "has ended: COMPLETED"):
            job.cancel()
        with self.assertRaises(mgpu.State):
            job.hold()

    def test_a_signal_reaches_the_ranks(self):
        job = mgpu.submit(shell("trap 'echo caught; exit 3' USR1; "
                                "touch here; while :; do sleep 0.05; done"))
        daemon.until(lambda: os.path.exists("here"))
        job.cancel(signal="USR1")
        self.assertEqual(job.wait(), "FAILED")
        self.assertEqual(job.exit_code, 3)
        self.assertEqual(job.logs().splitlines()[0], "caught")

    def test_waiting_has_an_end(self):
        job = mgpu.submit(command("true"), hold=True)
        with self.assertRaises(TimeoutError) as caught:
            job.wait(timeout=0)
        self.assertEqual(caught.exception.code, "TIMEOUT")
        self.assertEqual(job.why()["reasons"][0]["token"], "Held")
        job.cancel()

    def test_the_queue_and_its_filters(self):
        held = mgpu.submit(command("true", labels={"k": "v"}), name="held",
                           hold=True)
        ended = mgpu.submit(command("true"), name="ended")
        ended.wait()
        self.assertEqual([j.id for j in mgpu.jobs()], [held.id])
        found = mgpu.jobs(state="all")
        self.assertEqual([j.info["id"] for j in found],
                         sorted(j.info["id"] for j in found))
        self.assertIn(ended.id, [j.id for j in found])
        self.assertEqual([j.id for j in mgpu.jobs(
            state=["held", "RUNNING"], label="k=v", since=60)], [held.id])
        self.assertEqual(mgpu.jobs(state="all", name="no*"), [])
        self.assertEqual(mgpu.jobs(state="all", user="all", limit=1)[0].id,
                         ended.id)
        with self.assertRaisesRegex(mgpu.Usage, "no filter 'nmae'"):
            mgpu.jobs(nmae="x")
        with self.assertRaises(mgpu.Invalid):
            mgpu.jobs(state="SLEEPING")
        held.cancel()

    def test_a_sweep_is_its_tasks(self):
        made = mgpu.submit(shell("exit $MGPU_TASK_ID"), array="0,3,5")
        self.assertEqual(made.wait(), ["COMPLETED", "FAILED", "FAILED"])
        self.assertEqual([t.id for t in made.tasks],
                         ["%d_%d" % (made.id, k) for k in (0, 3, 5)])
        self.assertEqual([t.exit_code for t in made.tasks], [0, 3, 5])
        self.assertEqual(made.tasks[1].tasks, [])
        self.assertEqual(mgpu.job("%d_5" % made.id).exit_code, 5)

    def test_rows_and_curves(self):
        lines = [{"iteration": 0, "loss": 3, "acc": 1},
                 {"iteration": 1, "loss": 2.5, "epoch": 1},
                 {"iteration": 2, "acc": float("inf"), "n": float("nan")},
                 {"best": 7}]
        text = "\n".join(json.dumps(line) for line in lines)
        job = mgpu.submit(shell('echo "$T" >>$MGPU_METRICS',
                                env={"T": text}))
        job.wait()
        self.assertEqual(job.metrics(), {
            "iteration": [0, 1, 2], "acc": [1, None, float("inf")],
            "epoch": [None, 1, None], "loss": [3, 2.5, None],
            "n": [None, None, None]})
        rows = job.rows()
        self.assertEqual(rows["iteration"], [0, 1])
        self.assertEqual(len({len(c) for c in rows.values()}), 1)
        values = job.rows("values")
        self.assertIn(("best", None, 7), list(zip(
            values["name"], values["iteration"], values["value"])))
        with self.assertRaisesRegex(mgpu.Usage, "no rows 'nonsense'"):
            job.rows("nonsense")
        with mock.patch.dict("sys.modules", pandas=mock.Mock(
                DataFrame=lambda columns: ("frame", columns))):
            self.assertEqual(rows.to_pandas(), ("frame", dict(rows)))
        with mock.patch.dict("sys.modules", pandas=None):
            with self.assertRaises(ImportError):
                rows.to_pandas()

    def test_pages_end_at_an_iteration(self):
        job = mgpu.submit(shell(
            'for i in 1 2 3 4 5; do echo "{\\"iteration\\":$i,\\"a\\":1,'
            '\\"b\\":2}"; done >>$MGPU_METRICS'))
        job.wait()
        whole = job.rows("values")
        self.assertEqual(len(whole["name"]), 10)
        call = mgpu._Socket.call

        def paged(self, method, path, query=None, body=None):
            if query and "after" in query:
                query = dict(query, limit=3)
            return call(self, method, path, query, body)
        with mock.patch.object(mgpu, "PAGE", 3), \
                mock.patch.object(mgpu._Socket, "call", paged):
            self.assertEqual(job.rows("values"), whole)

    def test_logs_by_rank_tail_and_as_they_come(self):
        job = mgpu.submit(shell("echo one $MGPU_RANK; touch said.$MGPU_RANK; "
                                "until [ -e go ]; do sleep 0.05; done; "
                                "echo two"), gpus=2)
        lines = job.logs(follow=True, rank=1)
        self.assertEqual(next(lines), "one 1\n")
        with open("go", "w", encoding="utf-8"):
            pass
        self.assertEqual(list(lines), ["two\n"])
        self.assertEqual(job.wait(), "COMPLETED")
        self.assertEqual(job.logs(rank=0), "one 0\ntwo\n")
        self.assertEqual(job.logs(rank=0, tail=1), "two\n")
        self.assertEqual(job.logs(rank=0, tail=0), "")
        later = datetime.datetime.now(datetime.timezone.utc) \
            + datetime.timedelta(days=1)
        self.assertEqual(job.logs(since=later), "")
        with self.assertRaisesRegex(mgpu.Invalid, "rank"):
            job.logs(rank=5)

    def test_html_is_escaped(self):
        job = mgpu.submit(command("true"))
        job.wait()
        self.assertIn("<td>COMPLETED</td>", job._repr_html_())
        bad = dict(job.info, name="<script>alert(1)</script>",
                   reason='a"b&c', place=None, loss=0.25)
        text = mgpu.Jobs([mgpu.Job(1, info=bad)])._repr_html_()
        self.assertNotIn("<script", text)
        self.assertIn("&lt;script&gt;", text)
        self.assertIn("a&quot;b&amp;c", text)
        self.assertIn("<td>0.25</td>", text)
        self.assertNotIn("None", text)

    def test_the_tools_say_the_same(self):
        job = mgpu.submit(shell(
            'echo out; echo "{\\"iteration\\":1,\\"loss\\":2,\\"a\\":3}'
            '\n{\\"best\\":4}" >>$MGPU_METRICS'), time_limit="1m")
        job.wait()
        same = mgpu.Job(job.id, backend=mgpu._Tools(mgpu.default_url()))
        self.assertEqual(same.state, "COMPLETED")
        self.assertEqual(same.logs(), "out\n")
        self.assertEqual(list(same.logs(follow=True)), ["out\n"])
        self.assertEqual(same.rows(), job.rows())
        self.assertEqual(same.metrics(), job.metrics())
        self.assertEqual(*(sorted(zip(*j.rows("values").values()), key=str)
                           for j in (same, job)))
        self.assertEqual(same.events(), job.events())
        self.assertEqual(same.why()["job"]["id"], job.id)
        for act in (same.cancel, same.hold, lambda: same.resize(2)):
            with self.assertRaises(mgpu.State):
                act()
        with self.assertRaisesRegex(mgpu.NotFound, "no job 4711"):
            mgpu.Job(4711, backend=same._backend).refresh()
        with self.assertRaises(mgpu.NotFound):
            mgpu.Job(4711, backend=same._backend).logs()
        found = same._backend.jobs({"state": "COMPLETED", "id_min": job.id})
        self.assertEqual([j["id"] for j in found], [job.id])
        self.assertEqual(same._backend.jobs({"sweep": job.id}), [])

    def test_tcp_goes_through_the_tools(self):
        backend = mgpu._backend("http://127.0.0.1:1")
        self.assertIsInstance(backend, mgpu._Tools)
        for ask in (lambda: mgpu.jobs(url=backend.url),
                    lambda: mgpu.submit(HELLO, url=backend.url)):
            with self.assertRaises(mgpu.Unavailable):
                ask()

    def test_where_the_daemon_is(self):
        own = os.path.join(self.work, "run")
        os.makedirs(own + "/mgpu")
        env = {"MGPU_URL": "", "XDG_RUNTIME_DIR": own}
        with mock.patch.dict(os.environ, env):
            self.assertEqual(mgpu.default_url(), "unix:/run/mgpu/ctld.sock")
            os.link(self.daemon.socket, own + "/mgpu/ctld.sock")
            self.assertEqual(mgpu.default_url(),
                             "unix:%s/mgpu/ctld.sock" % own)
            with mock.patch("os.getuid", lambda: os.stat(own).st_uid + 1):
                self.assertEqual(mgpu.default_url(),
                                 "unix:/run/mgpu/ctld.sock")

    def test_no_tools(self):
        with mock.patch("shutil.which", lambda *_, **__: None):
            with self.assertRaisesRegex(mgpu.Unavailable, "not in PATH"):
                mgpu.submit(HELLO)


class Away(daemon.DaemonTest):
    """Of a daemon that stops."""

    def test_a_daemon_that_is_away(self):
        job = mgpu.submit(shell("until [ -e go ]; do sleep 0.05; done"))
        daemon.until(lambda: job.state == "RUNNING")
        states = []
        waiter = threading.Thread(target=lambda: states.append(job.wait()))
        self.daemon.stop()
        with mock.patch.object(mgpu, "PATIENCE_S", 0):
            for ask in (mgpu.jobs, mgpu.Job(job.id).wait,
                        lambda: mgpu.submit(HELLO)):
                with self.assertRaises(ConnectionError) as caught:
                    ask()
                self.assertEqual(caught.exception.code, "UNAVAIL")
                self.assertEqual(caught.exception.hint,
                                 "start one with 'mgpu-ctld --local'")
        waiter.start()
        self.daemon.start()
        with open("go", "w", encoding="utf-8"):
            pass
        waiter.join()
        self.assertEqual(states, ["COMPLETED"])

    def test_a_daemon_that_does_not_answer(self):
        import socket
        path = os.path.join(self.work, "mute")
        with socket.socket(socket.AF_UNIX) as mute:
            mute.bind(path)
            mute.listen(1)
            with mock.patch.object(mgpu, "REQUEST_S", 0.01), \
                    self.assertRaises(mgpu.Timeout):
                mgpu._Socket("unix:" + path)._get("GET", "/", timeout=0.01)


if __name__ == "__main__":
    unittest.main()
