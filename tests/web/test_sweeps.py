"""test_sweeps.py - a sweep is one row of the queue, which opens into its tasks, and
is cancelled with one question."""
import unittest

from harness import PageTest, until

NAMES = ("return [...document.querySelectorAll('[data-row]')].filter(r => r.offsetParent)"
         ".map(r => r.querySelector('.c-id').textContent)")


class SweepTest(PageTest):
    slots = 2

    def sweep(self, name, n=4, script="sleep 600", hold=True):
        """Submits a sweep; returns the number of its first task."""
        spec = {"version": 1, "kind": "command", "name": name, "command": ["sh", "-c", script],
                "sweep": {"grid": {"env.I": list(range(n))}}}
        return self.daemon.api("POST", "/v1/jobs", {"spec": spec, "hold": hold})["id"]

    def ids(self):
        return self.js(NAMES)

    def until_ids(self, *ids):
        until(lambda: self.ids() == list(ids), lambda: f"the rows are {ids}, not {self.ids()}")

    def head(self, first):
        return self.one(f"[data-row][data-id='{first - 0.5}']")

    def states(self, first, n=4):
        return [self.daemon.job(first + i)["state"] for i in range(n)]

    def tearDown(self):
        super().tearDown()
        self.daemon.cancel_all()

    def test_a_sweep_is_one_row_that_opens(self):
        first = self.sweep("grid")
        other = self.daemon.submit("alone", hold=True)
        self.open("queue?state=active&sort=name")
        self.until_ids(str(other), f"\u25b8 {first}")
        head = self.head(first)
        self.assertEqual(head.get_attribute("aria-expanded"), "false")
        self.assertIn("4 HELD", head.text)
        self.assertIn("Held", head.text)
        head.click()
        tasks = [f"{first}_{i}" for i in range(4)]
        self.until_ids(str(other), f"\u25be {first}", *tasks)
        self.assertEqual(head.get_attribute("aria-expanded"), "true")
        self.one(".c-name .title").click()  # the tasks stay below it when the order changes
        self.until_ids(f"\u25be {first}", *tasks, str(other))
        for _ in range(2):  # by number, then the other way round
            self.one(".c-id .title").click()
        self.until_ids(str(other), f"\u25be {first}", *reversed(tasks))
        self.one(".c-name .title").click()
        self.until_ids(str(other), f"\u25be {first}", *tasks)
        head.find_element("css selector", ".c-name").click()
        self.until_ids(str(other), f"\u25b8 {first}")

    def test_its_row_follows_the_tasks(self):
        first = self.sweep("counts", script="exit 3")
        self.open("queue?name=counts&since=1h")
        head = self.head(first)
        self.js("arguments[0].marked = true", head)
        self.daemon.api("POST", f"/v1/jobs/{first}_2/release", {})
        until(lambda: "3 HELD, 1 FAILED" in head.text, lambda: f"the counts, not {head.text}")
        self.assertIn("1/4 ended", head.text)
        self.assertIn(f"({first}_2)", head.text, "the reason that matters most is of the task that failed")
        self.assertTrue(self.js("return arguments[0].marked && arguments[0].isConnected", head), "the row is the same")
        # The tasks that a filter leaves; when all have ended it is among those.
        self.open("queue?name=counts&state=FAILED")
        self.head(first).click()
        self.until_ids(f"\u25be {first}", f"{first}_2")
        self.daemon.api("POST", f"/v1/jobs/{first}/cancel", {})
        until(lambda: self.js("return !!document.querySelector('[aria-label=\"Jobs that have ended\"] [data-row].sweep')"), "it has ended")
        self.until_ids(f"\u25be {first}", f"{first}_2")

    def test_a_sweep_that_goes_on_counts_all_of_its_tasks(self):
        first = self.sweep("counted", n=3, script="exit 0")
        self.daemon.api("POST", f"/v1/jobs/{first}_0/release", {})
        self.open("queue?name=nobody")
        self.js("""const set = window.setInterval, now = Date.now;
            window.forgets = [];
            window.setInterval = (f, ms) => { if (ms === 60000) window.forgets.push(f); return set(f, ms); };
            window.later = () => { Date.now = () => now() + 7200000; window.forgets.forEach((f) => f()); };
            location.hash = '#/queue?name=counted&since=1h';""")
        until(lambda: "1/3 ended" in self.head(first).text, lambda: f"one has ended: {self.head(first).text}")
        # Two hours later the page forgets what ended more than an hour ago.
        text = self.driver.execute_async_script("""const done = arguments[1], frame = requestAnimationFrame;
            window.later();
            frame(() => frame(() => frame(() => done(arguments[0].textContent))));""", self.head(first))
        self.assertIn("1/3 ended", text)
        self.daemon.api("POST", f"/v1/jobs/{first}/cancel", {})
        until(lambda: (self.js("window.later()"), self.ids())[1] == [], "no task is left, and the sweep goes")

    def test_its_time_is_that_of_the_task_that_has_run_the_longest(self):
        longest = lambda *known: self.driver.execute_async_script(
            "const [known, done] = arguments; import('/queue/sweeps.js').then((m) => done(m.longestOf(known, 90000)))", known)
        job = lambda at, state, elapsed_s, started=None: {"at": at, "job": {"state": state, "elapsed_s": elapsed_s, "started": started}}
        self.open("queue")
        new, old = job(90000, "RUNNING", 5, "b"), job(30000, "RUNNING", 10, "a")
        self.assertEqual(longest(job(0, "HELD", None), old, new), {"elapsed_s": 70, "started": "a"})
        self.assertEqual(longest(new, job(0, "COMPLETED", 60, "a")), {"elapsed_s": 60, "started": None})

    def test_one_question_cancels_all_tasks(self):
        first = self.sweep("victims", hold=False)
        until(lambda: sorted(self.states(first)) == ["QUEUED", "QUEUED", "RUNNING", "RUNNING"], "two run")
        self.daemon.api("POST", f"/v1/jobs/{first + 3}/cancel", {})
        self.open("queue?state=active&name=victims")
        until(lambda: "1 CANCELLED" in self.head(first).text, "three are left")
        self.js("arguments[0].focus()", self.head(first))
        self.press("c")
        self.until_text("dialog[open] h2", f"Cancel sweep {first} victims?")
        self.until_text("dialog[open] p", "This concerns 3 tasks: 1 QUEUED, 2 RUNNING.")
        self.button("Back").click()
        self.until_gone("dialog")
        self.assertEqual(self.states(first).count("CANCELLED"), 1)
        self.press("c")
        self.button("Cancel 3 tasks").click()
        self.until_gone("dialog")
        until(lambda: self.states(first) == ["CANCELLED"] * 4, "all are cancelled")

    def test_keys(self):
        first = self.sweep("keys", n=2)
        self.open("queue?state=active&name=keys")
        self.js("arguments[0].focus()", self.head(first))
        self.press("\ue014")  # the arrow to the right
        self.until_ids(f"\u25be {first}", f"{first}_0", f"{first}_1")
        self.press("j")
        self.press("j")
        self.assertEqual(self.js("return document.activeElement.dataset.id"), str(first + 1))
        self.press("\ue012")  # to the left: the sweep of the task
        self.assertEqual(self.js("return document.activeElement.dataset.id"), str(first - 0.5))
        self.press("\ue012")
        self.until_ids(f"\u25b8 {first}")
        self.press("x")
        self.until_text("a.compare", "Compare 2 jobs")
        self.press("w")
        self.until_text("dialog[open] p", "2 tasks: 2 HELD.")
        self.button("Release sweep").click()
        self.button("Release 2 tasks").click()
        until(lambda: self.states(first, 2) == ["RUNNING"] * 2, "both run")

    def test_its_tasks_come_a_few_in_a_frame(self):
        first = self.sweep("many", n=60)
        self.open("queue?state=active&name=many")
        head = self.head(first)
        until(lambda: "60 HELD" in head.text, "all tasks are known")
        self.js("""window.added = [];
            new MutationObserver((all) => added.push(all.reduce((n, r) => n + r.addedNodes.length, 0)))
                .observe(arguments[0].parentNode, {childList: true});""", head)
        head.click()
        self.until_ids(f"\u25be {first}", *[f"{first}_{i}" for i in range(60)])
        added = self.js("return added")
        self.assertEqual(sum(added), 60)
        self.assertLessEqual(max(added), 25, "the browser lays them out in one task")


if __name__ == "__main__":
    unittest.main(verbosity=2)
