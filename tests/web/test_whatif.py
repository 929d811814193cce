"""test_whatif.py - two settings of scheduling side by side on the past of the
cluster: the form, the table, the link, and why there is none."""
import os
import shutil
import tempfile
import unittest

from harness import BIN, PageTest, Web, end_process, until

SHOTS = os.environ.get("MGPU_SHOTS")
HOSTILE = "fifo:<img src=x onerror=\"document.title='stolen'\">=1"


class WhatIfTest(PageTest):
    @classmethod
    def jobs(cls):
        d = cls.daemon
        go = os.path.join(d.dir, "go")
        first = d.submit("first", f"until [ -e {go} ]; do sleep 0.1; done", resources={"gpus": 3, "time_limit": "1h"})
        d.wait_state(first, "RUNNING")
        d.submit("wide", "true", gpus=4)
        d.submit("narrow", "true", resources={"gpus": 1, "time_limit": "1m"})
        with open(go, "w", encoding="utf-8"):
            pass
        until(lambda: not d.live(), "all jobs have ended")

    def field(self, name):
        return self.one(f"[data-field={name}]")

    def write(self, name, text):
        self.field(name).clear()
        self.field(name).send_keys(text)

    def simulate(self):
        self.one("form .fields button.main").click()

    def rows(self):
        """{figure: its cells}; empty until the table is there."""
        return dict(self.js("return [...document.querySelectorAll('table[aria-label^=\"What the two\"] tbody tr')]"
                            ".map(r => [r.children[0].textContent, [...r.children].slice(1).map(c => c.textContent)])"))

    def test_two_settings_side_by_side(self):
        self.open("policy")
        self.assertEqual(self.field("left-policy").get_attribute("value"), "goodput")
        self.assertEqual(self.field("left-keys").get_attribute("value"), "")
        self.write("left-policy", "fifo")
        self.write("right-policy", "backfill")
        self.write("right-keys", "preempt.enabled=true\npreempt.grace=1m")
        self.simulate()
        rows = until(self.rows, "the table")
        self.assertEqual(rows["jobs"][:3], ["3", "3", "3"])
        for figure in ("JCT average", "JCT p99", "wait average", "wait p99", "wait, 1 GPU", "makespan", "GPUs in use", "GPU hours per job"):
            self.assertEqual(len(rows[figure]), 4, figure)
        head = [h.text for h in self.all("table[aria-label^='What the two'] th")]
        self.assertEqual(head, ["Figure", "Recorded", "Left: fifo", "Right: backfill:preempt.enabled=true,preempt.grace=1m", "Right, relative to left"])
        # The narrow job starts before the wide one, which waits, only with backfill.
        self.assertEqual(rows["wait, 1 GPU"][2], "0.0 s")
        self.assertEqual(rows["wait, 1 GPU"][3], "▼ -100.0 %, better")
        change = self.one("[data-change='wait, 1 GPU']")
        self.assertEqual(change.get_attribute("class"), "good")
        if SHOTS:
            os.makedirs(SHOTS, exist_ok=True)
            self.js("document.querySelector('.what-if').scrollIntoView()")
            self.driver.save_screenshot(os.path.join(SHOTS, "whatif-1280-light.png"))

    def test_the_link_restores_the_form_and_runs_nothing(self):
        self.open("policy")
        self.write("right-policy", "fifo")
        self.write("right-keys", "interval=2s")
        self.one("[data-field=since] option[value='7d']").click()
        self.simulate()
        until(self.rows, "the table")
        link = self.link()
        self.assertEqual(link, "#/policy?left=goodput&right=fifo%3Ainterval%3D2s&since=7d")
        self.browser.requests()
        self.open(link[2:])
        self.assertEqual([self.field(f).get_attribute("value") for f in ("left-policy", "right-policy", "right-keys", "since")],
                         ["goodput", "fifo", "interval=2s", "7d"])
        self.assertEqual(self.rows(), {})

    def test_what_mgpu_sim_says_is_shown_as_it_is(self):
        self.open("policy")
        for word, said in (("fifo:no_such=1", "no key 'scheduler.no_such' in mgpu.yaml(5)"), ("--help", "no policy '--help'"),
                           ("backfill:interval=soon", "interval"), (HOSTILE, "onerror=")):
            name, _, keys = word.partition(":")
            self.write("right-policy", name)
            self.write("right-keys", keys)
            self.simulate()
            self.until_text(".what-if-said", said)
            self.assertIn("mgpu-sim ended with status", self.one(".what-if-answer [role=alert]").text)
            self.assertEqual(self.rows(), {})
        self.assertEqual(self.all("#view img"), [])
        self.assertNotEqual(self.js("return document.title"), "stolen")

    def test_a_narrow_page(self):
        for dark in (False, True):
            self.browser.size(360, 740, dark)
            self.open("policy?left=fifo&right=backfill")
            self.simulate()
            until(self.rows, "the table")
            self.assertEqual(self.wider(), 0)
            if SHOTS:
                os.makedirs(SHOTS, exist_ok=True)
                self.driver.save_screenshot(os.path.join(SHOTS, f"whatif-360-{'dark' if dark else 'light'}.png"))

    def test_which_change_is_better(self):
        got = self.driver.execute_async_script(
            "const done = arguments[0]; import('/policy/what_if.js').then((m) => done([[2, 1, -1], [2, 1, 1], [0, 3, -1], [2, 2, 1], [null, 1, 1], [1, 2, 0]]"
            ".map((c) => m.changeOf(...c)).map((c) => c && [c.text, c.mood])))")
        self.assertEqual(got, [["▼ -50.0 %, better", "good"], ["▼ -50.0 %, worse", "bad"], ["▲ from 0, worse", "bad"], ["the same", None], None,
                               ["▲ +100.0 %", None]])

    def test_the_setting_of_the_cluster_is_the_left_one(self):
        got = self.driver.execute_async_script(
            "const done = arguments[0], key = (key, value, d) => ({key, value, default: d}); import('/policy/what_if.js').then((m) => done(m.runningOf("
            "{policy: 'backfill', keys: [key('scheduler.policy', 'backfill', 'goodput'), key('scheduler.interval', '2s', '1s'),"
            "key('scheduler.goodput.aging', '2', '2'), key('scheduler.fair_share.weights', '{a: 1, b: 2}', ''), key('limits.max_sweep', '1', '2')]})))")
        self.assertEqual(got, {"name": "backfill", "keys": ["interval=2s"], "left": ["scheduler.fair_share.weights"]})

    def test_who_is_no_administrator_reads_why(self):
        self.may_complain = True
        self.open("queue")
        self.js("const real = window.fetch; window.fetch = (path, o) => path !== '/v1/admin/plan' ? real(path, o) :"
                "Promise.resolve(new Response(JSON.stringify({error: {code: 'DENIED', message: 'only for administrators'}}), {status: 403}))")
        self.js("location.hash = '#/policy'")
        self.until_text("#view .notice", "Only an administrator of the cluster may simulate its past: only for administrators.")
        self.assertEqual(self.all(".what-if"), [])


class ReadOnlyTest(PageTest):
    options = ("--read-only",)

    def test_a_read_only_page_says_why(self):
        self.open("policy")
        self.until_text("#view .notice", "A page that is read-only runs no simulation.")
        self.assertEqual(self.all(".what-if"), [])


class OtherProgramTest(PageTest):
    """mgpu-web in a folder where mgpu-sim is another program, or none."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bin = tempfile.mkdtemp(prefix="mgpu-web-bin-")
        cls.addClassCleanup(shutil.rmtree, cls.bin)
        shutil.copy2(os.path.join(BIN, "mgpu-web"), cls.bin)
        end_process(cls.web.process)
        cls.web = Web(cls.daemon, bin=cls.bin)
        cls.addClassCleanup(cls.web.close)
        cls.driver.get(cls.web.url)

    def become(self, script):
        path = os.path.join(self.bin, "mgpu-sim")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\necho $$ >{self.bin}/new && mv {self.bin}/new {self.bin}/pid\n{script}\n")
        os.chmod(path, 0o700)

    def pid(self):
        try:
            with open(os.path.join(self.bin, "pid"), encoding="utf-8") as f:
                return int(f.read())
        except OSError:
            return None

    def is_gone(self, pid):
        return not os.path.exists(f"/proc/{pid}")

    def start(self):
        """Begins a run; returns its process."""
        self.open("policy?left=fifo&right=backfill")
        if os.path.exists(os.path.join(self.bin, "pid")):
            os.unlink(os.path.join(self.bin, "pid"))
        self.one("form .fields button.main").click()
        return until(self.pid, "mgpu-sim runs")

    def test_a_program_that_is_not_there(self):
        if os.path.exists(os.path.join(self.bin, "mgpu-sim")):
            os.unlink(os.path.join(self.bin, "mgpu-sim"))
        self.open("policy")
        self.until_text("#view .notice", "mgpu-sim is not beside mgpu-web")
        self.assertEqual(self.all(".what-if"), [])

    def test_a_run_ends_when_its_view_is_left(self):
        self.become("exec sleep 600")
        pid = self.start()
        self.js("location.hash = '#/queue'")
        until(lambda: self.is_gone(pid), "mgpu-sim has ended")

    def test_a_run_ends_when_the_page_is_left(self):
        self.become("exec sleep 600")
        pid = self.start()
        self.driver.get("about:blank")
        until(lambda: self.is_gone(pid), "mgpu-sim has ended")

    def test_a_run_is_stopped_and_another_one_waits_for_it(self):
        self.may_complain = True  # the browser reports the 409
        self.become("exec sleep 600")
        pid = self.start()
        status = self.driver.execute_async_script(
            "const done = arguments[0]; import('/api.js').then((m) => m.post('/web/whatif', {policies: ['a', 'b']}))"
            ".then(() => done(200), (e) => done([e.status, e.message]))")
        self.assertEqual(status, [409, "a simulation runs already: it ends when its page is left"])
        stop = next(b for b in self.all("form button") if b.text == "Stop")
        stop.click()
        until(lambda: self.is_gone(pid), "mgpu-sim has ended")
        self.until_text("[role=status]", "The simulation was stopped.")
        self.assertFalse(stop.is_displayed())

    def test_an_error_of_the_run(self):
        self.may_complain = True
        self.become("kill -SEGV $$")
        self.start()
        self.until_text(".what-if-answer [role=alert]", "mgpu-sim died of signal 11")


if __name__ == "__main__":
    unittest.main()
