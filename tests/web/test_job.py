"""test_job.py - the view of one job: its curves, what the keys and the pointer do
with them, its log, its parts, and what may be done to it."""
import json
import unittest

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from harness import PageTest, until

# Eight iterations in two epochs: no loss at 3, an infinite one at 6.
LOSSES = [4, 3, None, 2.5, 2, "1e999", 1.5, 1]
ROWS = "".join(
    f'{{"iteration":{i},"epoch":{1 + (i > 4)},"started_at":{1000 + i},"t_iter":0.5,"t_data":0.1,"t_forward":0.2,'
    f'"t_backward":0.2,"samples":8,"loss":{"null" if v is None else v},"grad":{i * i}}}\\n'
    for i, v in enumerate(LOSSES, 1)) + '{"epoch":1,"eval_loss":2.25}\\n{"epoch":2,"eval_loss":1.25}\\n'
MARKUP = "<img src=x onerror=document.title=1> & <b>bold</b>"
# Waits for a file, reports one more iteration, and waits again.
SCRIPT = f"""printf '{ROWS}' >>"$MGPU_METRICS"; echo '{MARKUP}'
until [ -e "$GO" ]; do sleep 0.1; done
printf '{{"iteration":9,"epoch":2,"started_at":1009,"loss":0.5}}\\n' >>"$MGPU_METRICS"; echo 'one more'
sleep 600"""
# Two ranks, no seconds of an iteration; and neither samples.
RANKS = "printf '" + "".join(f'{{"iteration":{i},"rank":{r},"samples":{8 - 4 * r},"loss":{9 - i}}}\\n'
                            for i in range(1, 5) for r in (0, 1)) + "' >>$MGPU_METRICS"
BARE = "printf '{\"iteration\":1,\"loss\":2}\\n{\"iteration\":2,\"loss\":1}\\n' >>$MGPU_METRICS"
LONG_LOG = "i=0; while [ $i -lt 9000 ]; do echo \"line $i of a log that is longer than the page keeps of it\"; i=$((i+1)); done"


class JobTest(PageTest):
    @classmethod
    def jobs(cls):
        d = cls.daemon
        cls.go = f"{d.dir}/go"
        cls.number = d.submit("curve", SCRIPT, env={"GO": cls.go})
        cls.long = d.submit("long", LONG_LOG)
        cls.ranks = d.submit("ranks", RANKS)
        cls.bare = d.submit("bare", BARE)
        cls.spare = d.submit("spare")
        d.wait_state(cls.number, "RUNNING")
        for number in (cls.long, cls.ranks, cls.bare):
            d.wait_state(number, "COMPLETED")
        until(lambda: len(d.api("GET", f"/v1/jobs/{cls.number}/epochs")["rows"]) == 2, "the rows are stored")

    def show(self, query="", number=None):
        self.open(f"job/{number or self.number}{query}")
        until(lambda: self.js("return document.querySelector('#view > [data-curves]')"), "the curves were read")

    def chart(self, title):
        return self.one(f"[data-chart='{title}'] .chart-over")

    def label(self, title):
        return self.chart(title).get_attribute("aria-label")

    def until_label(self, title, text):
        until(lambda: text in self.label(title), lambda: f"{text!r} in {self.label(title)!r}")

    def titles(self):
        return [e.get_attribute("data-chart") for e in self.all(".chart") if e.is_displayed()]

    # ---- curves ----

    def test_a_job_has_the_charts_of_what_it_reported(self):
        self.show()
        self.assertEqual(self.titles(), ["Loss", "Evaluation loss", "Samples a second", "Seconds of an iteration", "grad"])
        self.assertEqual(self.label("Evaluation loss"),
                         "Evaluation loss, 1 curve. eval_loss: first 2.25, last 1.25, lowest 1.25")
        self.assertIn("grad: first 1, last 64", self.label("grad"))
        # Something is drawn, and in light and dark it differs.
        pixels = "const c = document.querySelector('.chart-base'); return c.toDataURL()"
        light = self.js(pixels)
        self.browser.size(1280, dark=True)
        until(lambda: self.js(pixels) != light, "the chart is drawn in dark")

    def test_the_table_says_what_the_chart_shows(self):
        self.show()
        self.one("[data-chart=Loss] summary").click()
        rows = until(lambda: self.js("return [...document.querySelectorAll('[data-chart=Loss] tbody tr')].map(r => "
                                     "[...r.children].map(c => c.textContent))"), "the table")
        self.assertEqual([r[1] for r in rows][:8], ["1", "2", "3", "4", "5", "6", "7", "8"])
        self.assertEqual([r[2] for r in rows][:8], ["4", "3", "not a number", "2.5", "2", "infinite", "1.5", "1"])

    def test_keys_move_the_crosshair_and_zoom(self):
        self.show()
        self.js("arguments[0].focus()", self.chart("Loss"))
        for key, said in ((Keys.HOME, "iteration 1: loss of rank 0 4"), (Keys.ARROW_RIGHT, "iteration 2: loss of rank 0 3"),
                          (Keys.ARROW_RIGHT, "iteration 3: loss of rank 0 not a number"), (Keys.ARROW_LEFT, "iteration 2: loss of rank 0 3")):
            self.press(key)
            self.until_said("Loss", said)
        self.press("+")
        self.until_label("Loss", "curve, ")
        self.until_label("grad", "curve, ")  # one zoom for all
        self.press(Keys.ESCAPE)
        until(lambda: "curve. " in self.label("Loss"), "all of the curve is shown again")

    def until_said(self, title, text):
        until(lambda: self.js(f"return document.querySelector('[data-chart=\"{title}\"] .chart-said').textContent") == text,
              f"{text!r} is said")

    def test_a_drag_zooms_and_a_double_click_shows_all(self):
        self.show()
        canvas = self.chart("Loss")
        self.js("arguments[0].scrollIntoView({block: 'center'})", canvas)
        width = canvas.size["width"]
        ActionChains(self.driver).move_to_element_with_offset(canvas, -width // 5, 0).click_and_hold() \
            .move_by_offset(width // 3, 0).release().perform()
        self.until_label("Loss", "curve, ")
        until(lambda: any("from=" in u and "to=" in u for u in self.browser.requests()), "the part is read finer")
        ActionChains(self.driver).double_click(canvas).perform()
        until(lambda: "curve. " in self.label("Loss"), "all of the curve is shown again")

    def test_the_pointer_shows_values(self):
        self.show()
        canvas = self.chart("grad")
        ActionChains(self.driver).move_to_element(canvas).perform()
        self.until_text("[data-chart=grad] .chart-tip", "iteration")

    def test_the_axis_is_in_the_link_and_the_link_restores_it(self):
        self.show()
        self.one("[data-field=x] option[value=epoch]").click()
        self.one("[data-field=log]").click()
        self.js("const f = document.querySelector('[data-field=smooth]'); f.value = 0.5; f.dispatchEvent(new Event('input'))")
        until(lambda: self.link() == f"#/job/{self.number}?x=epoch&log=1&smooth=0.5", lambda: f"the link is {self.link()}")
        for axis, x in (("epoch", "1"), ("time", "0:03"), ("samples", "32")):
            self.show(f"?x={axis}&smooth=0.5&log=1")
            self.assertTrue(self.one("[data-field=log]").is_selected())
            self.assertEqual(self.one("[data-field=x]").get_attribute("value"), axis)
            self.one("[data-chart=Loss] summary").click()
            until(lambda: self.js("return document.querySelector('[data-chart=Loss] tbody tr:nth-child(4)')"), "the table")
            self.assertEqual(self.js("return document.querySelector('[data-chart=Loss] tbody tr:nth-child(4) td:nth-child(2)').textContent"), x)
            # Half of each value is the one before: 2.5 after 4 and 3.
            self.assertIn("2.5, smoothed 2.857", self.js(
                "return document.querySelector('[data-chart=Loss] tbody tr:nth-child(4)').textContent"))

    def loss_xs(self):
        """The name of the axis, and where the losses are on it."""
        if not self.js("return document.querySelector('[data-chart=Loss] details').open"):
            self.one("[data-chart=Loss] summary").click()
        until(lambda: self.js("return document.querySelector('[data-chart=Loss] tbody tr')"), "the table")
        return self.js("return [...document.querySelectorAll('[data-chart=Loss] tr')].map(r => r.children[1].textContent)")

    def axis_option(self):
        return self.js("const o = document.querySelector('option[value=samples]'); return [o.textContent, o.disabled]")

    def test_the_axis_of_samples_has_those_of_all_ranks(self):
        self.show("?x=samples", self.ranks)
        self.assertNotIn("Samples a second", self.titles())  # it has no t_iter
        self.assertEqual(self.axis_option(), ["samples", False])
        self.assertEqual(self.loss_xs(), ["samples", "12", "24", "36", "48"])

    def test_the_axis_of_samples_is_not_offered_without_them(self):
        self.show("?x=samples", self.bare)
        self.assertEqual(self.axis_option(), ["samples (none reported)", True])
        self.assertEqual(self.loss_xs(), ["iteration", "1", "2"])
        self.assertEqual(self.link(), f"#/job/{self.bare}?x=samples")

    def test_the_axis_of_samples_is_offered_when_they_come(self):
        go = f"{self.daemon.dir}/samples"
        more = RANKS.replace('"iteration":', '"iteration":1')
        number = self.daemon.submit("late", f'{BARE}; until [ -e "$GO" ]; do sleep 0.1; done; {more}; sleep 600', env={"GO": go})
        self.addCleanup(self.daemon.ask, "POST", f"/v1/jobs/{number}/cancel", {})
        until(lambda: self.daemon.api("GET", f"/v1/jobs/{number}/iterations")["rows"][1:], "the first rows are stored")
        self.show("?x=samples", number)
        self.assertEqual(self.axis_option(), ["samples (none reported)", True])
        self.assertEqual(self.loss_xs(), ["iteration", "1", "2"])
        with open(go, "w", encoding="ascii"):
            pass
        until(lambda: self.loss_xs() == ["samples", "0", "0", "12", "24", "36", "48"], lambda: f"samples: {self.loss_xs()}")
        self.assertEqual(self.axis_option(), ["samples", False])

    # ---- parts ----

    def test_phases_attempts_events_specification(self):
        self.show()
        self.until_text("[aria-label=Ranks] td", "500")
        self.until_text("section[aria-label=Efficiency] dd", "80 %")
        self.until_text("section[aria-label=Efficiency] dd", "20 %")
        self.until_text("ul[aria-label=Advice] li", "It waited for data for 20 % of the time: raise dataset.workers")
        self.until_text("table[aria-label=Attempts] td", "RUNNING")
        for summary in self.all(".part > summary"):
            summary.click()
        self.until_text("table[aria-label=Events] td", "submit")
        self.until_text(".part pre", "kind: command")
        self.assertNotIn("partition", self.one(".part pre").text)  # it is not set

    def test_a_log_is_text_and_bounded(self):
        self.show()
        self.until_text(".log", MARKUP)
        self.assertEqual(self.all(".log *"), [])
        self.open(f"job/{self.long}")
        self.until_text(".log", "line 8999 of a log")
        self.assertLessEqual(self.js("return document.querySelector('.log').textContent.length"), 200000)
        self.until_text("section[aria-label=Log]", f"mgpu-stat --logs {self.long} prints all of it")

    # ---- what is new, and what is done ----

    def test_z_an_iteration_more_is_asked_for_alone(self):
        self.show()
        self.until_text(".log", MARKUP)
        self.browser.requests()
        with open(self.go, "w", encoding="utf-8"):
            pass
        self.until_label("Loss", "last 0.5")
        self.until_text(".log", "one more")
        asked = [u for u in self.browser.requests() if "/curve?" in u and "of=loss" in u]
        self.assertTrue(asked and all("cursor=1." in u for u in asked), json.dumps(asked))

    def test_the_time_limit_and_cancel(self):
        self.open(f"job/{self.spare}")
        self.one("[data-act=limit]").click()
        self.one("[data-field=limit]").send_keys("soon")
        self.button("Set limit").click()
        self.until_text("dialog[open] [role=alert]", '"soon" is no duration')
        self.one("[data-field=limit]").clear()
        self.one("[data-field=limit]").send_keys("30m")
        self.button("Set limit").click()
        self.until_gone("dialog")
        self.until_text(".facts dd", "of 30:00")
        self.assertEqual(self.daemon.job(self.spare)["limit_s"], 1800)
        self.one("[data-act=limit]").click()
        self.button("Set limit").click()  # as it is
        self.until_gone("dialog")
        self.assertEqual(self.daemon.job(self.spare)["limit_s"], 1800)
        self.one("[data-act=cancel]").click()
        self.button("Cancel job").click()
        self.until_text(".head .badge", "CANCELLED")
        until(lambda: not self.all("[data-act=cancel]"), "a job that has ended cannot be cancelled")

    def test_no_job_no_view(self):
        self.may_complain = True  # the browser reports the 404
        self.driver.get(f"{self.web.origin}/#/job/999")
        self.until_text("[role=alert]", "no job 999 (NOTFOUND)")

    def test_a_narrow_page_does_not_scroll_sideways(self):
        self.browser.size(360, 740)
        self.show()
        for summary in self.all(".part > summary"):
            self.js("arguments[0].click()", summary)
        self.until_text("table[aria-label=Events] td", "submit")
        self.assertEqual(self.wider(), 0)


class ReadOnlyJobTest(PageTest):
    options = ("--read-only",)

    def test_nothing_can_be_done(self):
        number = self.daemon.submit("quiet")
        self.open(f"job/{number}")
        self.until_text("h1", "quiet")
        self.assertEqual([e.get_attribute("data-act") for e in self.all("[data-act]")], ["compare", "why"])


if __name__ == "__main__":
    unittest.main()
