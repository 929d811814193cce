"""test_queue.py - the queue: what it lists, how it changes, what its filters
and dialogs do."""
import unittest

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from harness import PageTest, until

# A label has at most 63 bytes.
SCRIPT = "<script>document.title='run'</script>"
IMAGE = "\"'<img src=x onerror=document.title='run'>"


class QueueTest(PageTest):
    @classmethod
    def jobs(cls):
        d = cls.daemon
        cls.first = d.submit("alpha", labels={"team": "vision", "x": SCRIPT, "y": IMAGE})
        cls.second = d.submit("beta", gpus="1..2")
        d.submit("gone", script="exit 3", labels={"team": "nlp"})
        cls.held = d.submit("held", hold=True, labels={"team": "nlp"})
        d.wait_state(cls.first, "RUNNING")
        d.wait_state(cls.second, "RUNNING")
        d.wait_state(cls.held - 1, "FAILED")

    def test_many_rows_are_brought_in_order_in_steps(self):
        self.open("queue")
        steps = self.driver.execute_async_script("""
            const done = arguments[0], job = (id) => ({id, display_id: String(id), name: id % 2 ? 'a' : 'b', state: 'HELD', gpus_min: 1, gpus_max: 1});
            import('/rows.js').then(({Rows}) => {
                const rows = new Rows('x', () => {}), ids = () => [...rows.body.children].map((r) => Number(r.dataset.id)), steps = [];
                for (const by of ['id', 'name', '-id']) {
                    rows.sortBy(by);
                    for (let i = 0; i < 200; i++) rows.put(job(i * 7 % 200), 0);
                    while (!rows.commit(0)) steps.push(ids());
                    steps.push(ids());
                }
                done(steps);
            });""")
        up = list(range(200))
        self.assertIn(up, steps)
        self.assertEqual(steps[-1], up[::-1])
        self.assertIn(up[1::2] + up[::2], steps)
        others = steps[steps.index(up) + 1:]
        self.assertGreater(len(others), 4)
        for step in others:
            self.assertEqual(sorted(step), up, "no row is lost")

    def test_text_of_users_is_text(self):
        self.open(f"queue?label=x={SCRIPT}")
        self.until_names("alpha")
        self.assertIn(f"x={SCRIPT}, y={IMAGE}", self.js("return document.querySelector('[data-row] .labels').textContent"))
        self.assertEqual(self.js("return document.title"), "Queue - mgpu")
        self.assertEqual(self.all("#view img, #view script"), [])
        self.open(f"queue?name={IMAGE}&user={SCRIPT}&state={IMAGE}")
        self.one("[data-filter]")
        self.assertEqual(self.js("return document.title"), "Queue - mgpu")

    def test_filters_are_in_the_link_and_the_link_restores_them(self):
        self.open("queue")
        self.until_names("alpha", "beta", "held", "gone")
        self.one("[data-filter]").send_keys("ET")
        self.until_names("beta")
        self.assertEqual(self.link(), "#/queue?name=ET")
        self.open("queue?name=*e*&state=active")
        self.until_names("beta", "held")
        self.assertEqual(self.one("[data-filter]").get_attribute("value"), "*e*")
        self.open("queue?state=HELD,FAILED&sort=-name")
        self.until_names("held", "gone")
        self.open("queue?label=team=nlp")
        self.until_names("held", "gone")
        self.open("queue?user=nobody-of-that-name")
        self.until_text(".none", "No active job matches the filter.")
        self.open("queue?user=me&state=RUNNING")
        self.until_names("alpha", "beta")
        self.driver.back()  # past about:blank
        self.driver.back()
        self.until_text(".none", "No active job matches the filter.")

    def test_a_title_sorts(self):
        self.open("queue?state=active")
        self.until_names("alpha", "beta", "held")
        self.one(".c-name .title").click()
        self.assertEqual(self.link(), "#/queue?state=active&sort=name")
        self.one(".c-name .title").click()
        self.until_names("held", "beta", "alpha")
        self.assertEqual(self.one(".jobs .c-name").get_attribute("aria-sort"), "descending")

    def test_why_in_a_click(self):
        self.open("queue")
        self.row(self.held).find_element(By.CSS_SELECTOR, ".c-where button").click()
        self.until_text("dialog[open] dd", "Held: by its user")
        self.until_text("dialog[open] dd", "1 GPU on 1 node")
        self.press(Keys.ESCAPE)
        self.until_gone("dialog")

    def test_chosen_rows_lead_to_the_comparison(self):
        self.open("queue")
        self.until_names("alpha", "beta", "held", "gone")
        self.assertEqual([a for a in self.all("a.compare") if a.is_displayed()], [])
        for number in (self.second, self.first, self.held):
            self.js("arguments[0].focus()", self.row(number))
            self.press("x")
        self.press("x")
        self.until_text("a.compare", "Compare 2 jobs")
        self.assertEqual(self.one("a.compare").get_attribute("href"),
                         f"{self.web.origin}/#/compare?jobs={self.second},{self.first}")
        self.assertEqual(self.row(self.first).get_attribute("aria-selected"), "true")
        self.assertEqual(self.row(self.held).get_attribute("aria-selected"), "false")

    def test_keys(self):
        self.open("queue")
        self.until_names("alpha", "beta", "held", "gone")
        self.one("body").send_keys("/")
        self.assertTrue(self.js("return document.activeElement.hasAttribute('data-filter')"))
        self.press(Keys.ESCAPE)
        self.one("body").send_keys("j")
        self.press("j")
        self.press("j")
        self.press("k")
        self.assertEqual(self.js("return document.activeElement.dataset.id"), str(self.second))
        self.press("?")
        self.until_text("dialog[open] h2", "Keys")
        self.press(Keys.ESCAPE)
        self.until_gone("dialog")
        self.assertEqual(self.js("return document.activeElement.dataset.id"), str(self.second))
        self.press("l")
        until(lambda: self.link() == "#/cluster", "the cluster")


class ChangeTest(PageTest):
    """Each test changes jobs of its own."""

    @classmethod
    def jobs(cls):
        gone = cls.daemon.submit("gone", script="exit 3")
        cls.daemon.wait_state(gone, "FAILED")
        cls.daemon.submit("stays", hold=True)

    def test_a_row_appears_changes_and_moves_to_those_that_ended(self):
        self.open("queue")
        until(lambda: {"stays", "gone"} <= set(self.names()), "the rows")
        self.js("document.querySelector('[data-row]').marked = true")
        number = self.daemon.submit("new", hold=True)
        self.assertIn("HELD", self.row(number).text)
        self.daemon.api("POST", f"/v1/jobs/{number}/release", {})
        until(lambda: "RUNNING" in self.row(number).text, "the row says RUNNING")
        self.daemon.api("POST", f"/v1/jobs/{number}/cancel", {})
        until(lambda: "CANCELLED" in self.row(number).text, "the row says CANCELLED")
        names = self.names()
        self.assertGreater(names.index("new"), names.index("stays"), "it is among those that ended")
        self.assertTrue(self.js("return document.querySelector('[data-row]').marked"), "rows of others are not made anew")

    def test_actions_ask_first(self):
        number = self.daemon.submit("victim", hold=True)
        self.open("queue")
        self.row(number).find_element(By.CSS_SELECTOR, ".c-act button").click()
        self.button("Cancel job").click()
        self.until_text("dialog[open] h2", f"Cancel job {number} victim?")
        self.button("Back").click()
        self.until_gone("dialog")
        self.assertEqual(self.daemon.job(number)["state"], "HELD")
        self.js("arguments[0].focus()", self.row(number))
        self.press("h")
        self.button("Release job").click()
        self.daemon.wait_state(number, "RUNNING")
        until(lambda: "RUNNING" in self.row(number).text, "the row says RUNNING")
        self.until_gone("dialog")
        self.press("c")
        self.button("Cancel job").click()
        self.daemon.wait_state(number, "CANCELLED")

    def test_a_refusal_is_shown(self):
        number = self.daemon.submit("late", hold=True)
        self.may_complain = True  # the browser logs the status 4xx
        self.open("queue")
        self.js("arguments[0].focus()", self.row(number))
        self.press("h")
        button = self.button("Release job")
        self.daemon.api("POST", f"/v1/jobs/{number}/cancel", {})
        button.click()
        self.until_text("dialog[open] [role=alert]", str(number))
        self.button("Back").click()

    def test_resize_takes_a_number_in_the_range(self):
        number = self.daemon.submit("elastic", gpus="1..2", saves=True, hold=True)
        self.open("queue")
        self.until_text(f"[data-id='{number}'] .c-gpus", "1..2")
        self.js("arguments[0].focus()", self.row(number))
        self.press("r")
        field = self.one("dialog[open] input")
        field.clear()
        field.send_keys("7" + Keys.ENTER)
        self.until_text("dialog[open] [role=alert]", "The number of GPUs must be 1 to 2.")
        field.clear()
        field.send_keys("2" + Keys.ENTER)
        self.until_gone("dialog")
        until(lambda: self.row(number).find_element(By.CSS_SELECTOR, ".c-gpus").text == "2", "the row says 2 GPUs")
        self.assertEqual(self.daemon.job(number)["to_gpus"], 2)


class ReadOnlyTest(PageTest):
    options = ("--read-only",)

    @classmethod
    def jobs(cls):
        cls.held = cls.daemon.submit("held", hold=True)

    def test_nothing_can_be_changed(self):
        self.open("queue")
        self.until_text("#who", "read-only")
        self.row(self.held).find_element(By.CSS_SELECTOR, ".c-act button").click()
        self.until_text("dialog[open] dd", "Held: by its user")
        texts = [b.text for b in self.all("dialog[open] button")]
        self.assertEqual(texts, ["Close", "Open"])
        self.press(Keys.ESCAPE)
        self.until_gone("dialog")
        self.js("arguments[0].focus()", self.row(self.held))
        self.press("c")
        self.assertEqual(self.all("dialog"), [])


class ConnectionTest(PageTest):
    def test_a_lost_daemon_is_shown_and_comes_back(self):
        self.may_complain = True  # the browser logs requests that fail
        self.open("queue")
        self.until_text("#connection", "connected")
        self.daemon.stop()
        self.until_text("#connection", "connection lost")
        self.daemon.start()
        self.until_text("#connection", "connected")
        self.daemon.submit("after", hold=True)
        self.until_names("after")


if __name__ == "__main__":
    unittest.main(verbosity=2)
