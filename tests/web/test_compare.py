"""test_compare.py - the comparison: curves of several jobs over each other, the
settings that differ, a sweep's tasks, and the link that restores it all."""
import unittest

from harness import PageTest, until


def report(*losses, more=""):
    rows = "".join(f'{{"iteration":{i},"started_at":{1000 + i},"samples":4,"loss":{v}{more}}}\\n' for i, v in enumerate(losses, 1))
    return f"printf '{rows}' >>\"$MGPU_METRICS\""


class CompareTest(PageTest):
    @classmethod
    def jobs(cls):
        d = cls.daemon
        cls.first = d.submit("first", report(4, 1, 2), labels={"x": "<script>a</script>"})
        cls.second = d.submit("second", report(5, 3, 0.5, more=',"grad":7'), resources={"gpus": 1, "time_limit": "2h"})
        cls.ranks = d.submit("ranks", report(7, 6) + "; " + report(8, 8, more=',"rank":1'))
        cls.bare = d.submit("bare", report(3, 2).replace('"samples":4,', ""))
        cls.sweep = d.api("POST", "/v1/jobs", {"spec": {
            "version": 1, "kind": "command", "name": "sweep", "command": ["sh", "-c", report(1, 2)], "resources": {"gpus": 1},
            "sweep": {"grid": {"policy.priority": [1, 2, 3]}}}})["id"]
        for number in (cls.first, cls.second, cls.ranks, cls.bare):
            d.wait_state(number, "COMPLETED")
        until(lambda: not d.live(), "all tasks have ended")

    def show(self, query):
        self.open(f"compare?{query}")
        until(lambda: self.js("return document.querySelector('#view > [data-curves]')"), "the curves were read")

    def table(self):
        return self.js("return [...document.querySelectorAll('.differs tr')].map(r => [...r.children].map(c => c.textContent))")

    def label(self):
        return self.one(".chart-over").get_attribute("aria-label")

    def until_label(self, text):
        until(lambda: text in self.label(), lambda: f"{text!r} in {self.label()!r}")

    def test_two_jobs(self):
        self.show(f"jobs={self.first},{self.second}")
        self.until_label(f"loss, 2 curves. {self.first} first: first 4, last 2, lowest 1; {self.second} second: first 5, last 0.5, lowest 0.5")
        head, *rows = self.table()
        self.assertEqual([c for c in head if c not in ("", "command")],
                         ["Job", "State", "labels.x", "resources.time_limit", "loss, last", "loss, lowest", "Evaluation loss", "Accuracy"])
        limit, last = head.index("resources.time_limit"), head.index("loss, last")
        self.assertEqual([r[limit] for r in rows], ["-", "2h"])
        self.assertEqual([r[last:last + 2] for r in rows], [["2", "1"], ["0.5", "0.5"]])
        self.assertEqual(rows[0][head.index("labels.x")], "<script>a</script>")
        self.assertEqual([e.text for e in self.all(".differs .best")], ["0.5"])

    def test_the_link_restores_the_view(self):
        self.show(f"jobs={self.first}&x=time&log=1&smooth=0.25")
        self.one("[name=jobs]").send_keys(f"{self.second}\n")
        self.until_label("2 curves")
        link = f"#/compare?jobs={self.first},{self.second}&of=loss&x=time&log=1&smooth=0.25"
        until(lambda: self.link() == link, lambda: f"the link is {self.link()}")
        self.show(link[len("#/compare?"):])
        self.until_label("2 curves")
        self.assertEqual(self.one("[data-field=x]").get_attribute("value"), "time")
        self.assertTrue(self.one("[data-field=log]").is_selected())

    def chart_rows(self):
        if not self.js("return document.querySelector('.chart-values').open"):
            self.one(".chart-values summary").click()
        until(lambda: self.all(".chart-values td"), "the table")
        return self.js("return [...document.querySelectorAll('.chart-values tr')].map(r => [...r.children].slice(0, 3).map(c => c.textContent))")

    def test_the_axis_of_samples_has_those_of_all_ranks(self):
        self.browser.requests()
        self.show(f"jobs={self.first},{self.ranks},{self.bare}")
        self.until_label("loss, 3 curves. ")
        self.assertFalse([u for u in self.browser.requests() if "of=samples_per_s" in u])
        self.one("[data-field=x] option[value=samples]").click()
        self.until_text(".notice", f"No samples in job {self.bare}: not on this axis.")
        self.until_label("loss, 2 curves. ")
        self.assertEqual(len([u for u in self.browser.requests() if "of=samples_per_s" in u]), 3)
        (_, axis, _), *rows = self.chart_rows()
        self.assertEqual(axis, "samples")
        self.assertEqual([r[1:] for r in rows], [["4", "4"], ["8", "1"], ["12", "2"], ["8", "7"], ["16", "6"]])

    def test_the_axis_of_samples_is_not_offered_without_them(self):
        self.show(f"jobs={self.bare}&x=samples")
        self.until_label("loss, 1 curve. ")
        option = "const o = document.querySelector('option[value=samples]'); return [o.textContent, o.disabled]"
        self.assertEqual(self.js(option), ["samples (none reported)", True])
        head, *rows = self.chart_rows()
        self.assertEqual([head[1], *[r[1] for r in rows]], ["iteration", "1", "2"])
        self.one("[name=jobs]").send_keys(f"{self.ranks}\n")
        until(lambda: self.js(option) == ["samples", False], "it is offered with a job that has samples")
        until(lambda: self.chart_rows()[0][1] == "samples", "the axis is the one of the link")

    def test_another_metric(self):
        self.may_complain = True  # the browser reports that one job has it not
        self.show(f"jobs={self.first},{self.second}")
        self.metric("grad")
        self.until_label(f"grad, 1 curve. {self.second} second: first 7, last 7, lowest 7")
        self.until_text(".notice", f'No "grad" in job {self.first}.')
        self.metric("gradd")
        self.until_text(".notice", "did you mean 'grad'?")

    def test_rows_that_come_late_are_shown(self):
        go = f"{self.daemon.dir}/go"
        script = ("printf '{\"iteration\":1,\"bonus\":5}\\n{\"iteration\":1000,\"bonus\":6}\\n' >>$MGPU_METRICS; until [ -e \"$GO\" ]; do sleep 0.1; done; "
                  "echo '{\"iteration\":3,\"bonus\":2}' >>$MGPU_METRICS; sleep 600")
        number = self.daemon.submit("late", script, env={"GO": go})
        self.addCleanup(self.daemon.cancel_all)
        until(lambda: self.daemon.api("GET", f"/v1/jobs/{number}/values")["rows"][1:], "the first rows are stored")
        self.show(f"jobs={number}&of=bonus")
        self.until_label("bonus, 1 curve. ")
        self.assertIn("first 5, last 6, lowest 5", self.label())
        with open(go, "w", encoding="ascii"):
            pass
        self.until_label("first 5, last 6, lowest 2")
        self.one(".chart-values summary").click()
        until(lambda: self.all(".chart-values td"), "the table")
        self.assertEqual(self.js("return [...document.querySelectorAll('.chart-values tbody tr')].map(r => r.children[2].textContent)"),
                         ["5", "2", "6"])

    def test_many_points_are_all_drawn(self):
        # Each has a level of its own, and turns at each pixel.
        rows = ("awk -v level={} 'BEGIN {{ for (i = 1; i <= 1000; i++) "
                "printf \"{{\\\"iteration\\\":%d,\\\"loss\\\":%d}}\\n\", i, 10 * level + i % 3 }}' >>$MGPU_METRICS")
        jobs = [self.daemon.submit(f"level{i}", rows.format(i)) for i in range(1, 6)]
        for number in jobs:
            self.daemon.wait_state(number, "COMPLETED")
        self.show(f"jobs={','.join(map(str, jobs))}")
        self.until_label("loss, 5 curves. ")
        found = self.js("""
            const c = document.querySelector('.chart-base'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
            for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add(`${d[i]} ${d[i + 1]} ${d[i + 2]}`);
            return [...document.querySelectorAll('.chart-legend .swatch')].map(s => seen.has(getComputedStyle(s).backgroundColor.match(/\\d+/g).join(' ')));""")
        self.assertEqual(found, [True] * 5)

    def metric(self, name):
        field = self.one("[data-field=of]")
        field.clear()
        field.send_keys(f"{name}\t")

    def test_a_sweep_is_all_of_its_tasks(self):
        self.show(f"sweep={self.sweep}")
        self.until_label("loss, 3 curves")
        head, *rows = self.table()
        self.assertEqual([r[head.index("policy.priority")] for r in rows], ["1", "2", "3"])
        self.assertEqual([r[0] for r in rows], [f"{self.sweep}_{k} sweep" for k in range(3)])

    def test_a_curve_is_hidden_and_a_job_removed(self):
        self.show(f"jobs={self.first},{self.second}")
        self.until_label("2 curves")
        self.one(".chart-legend button").click()
        self.until_label("1 curve.")
        self.one(f"[aria-label='Remove job {self.first}']").click()
        until(lambda: self.link().startswith(f"#/compare?jobs={self.second}&"), "the link has one job")
        self.until_label(f"1 curve. {self.second} second")

    def test_a_job_that_there_is_not(self):
        self.may_complain = True  # the browser reports the 404
        self.show(f"jobs={self.first},999")
        self.until_text("[role=alert]", "no job 999 (NOTFOUND)")
        self.until_label("1 curve")

    def test_without_jobs_the_newest_are_offered(self):
        self.show("")
        self.one(f"[aria-label='Add job {self.second}']").click()
        self.until_label(f"1 curve. {self.second} second")

    def test_a_narrow_page_does_not_scroll_sideways(self):
        self.browser.size(360, 740)
        self.show(f"jobs={self.first},{self.second}")
        self.until_label("2 curves")
        self.assertEqual(self.wider(), 0)


if __name__ == "__main__":
    unittest.main()
