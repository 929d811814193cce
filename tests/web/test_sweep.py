"""test_sweep.py - parallel coordinates in the comparison: axes, bounds by mouse and
by keyboard, what is faded, missing values, and the link that restores it."""
import json
import os
import unittest
import urllib.parse

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from harness import PageTest, until
from test_compare import report

SHOTS = os.environ.get("MGPU_SHOTS")
HOSTILE = "\"'><script>document.title = 'stolen'</script>"
RATES = ("1e-5", "1e-4", "1e-3", "1e-2", "1e-1", "1")


class SweepTest(PageTest):
    @classmethod
    def jobs(cls):
        d = cls.daemon
        cls.ids = [d.submit(f"run{k}", report(9, k + 1, more=f',"grad":{k}' if k != 3 else ""),
                            labels={"lr": rate, "kind": ("adam", HOSTILE)[k % 2]}) for k, rate in enumerate(RATES)]
        until(lambda: not d.live(), "all jobs have ended")

    def show(self, query=""):
        self.open(f"compare?jobs={','.join(map(str, self.ids))}{query}")
        until(lambda: self.js("return document.querySelector('#view > [data-curves]')"), "the curves were read")
        self.one(".parallel-axis")

    def axis(self, key):
        return until(lambda: next((a for a in self.all(".parallel-axis") if a.get_attribute("data-axis") == key), None), f"the axis {key}")

    def titles(self):
        return [a.get_attribute("aria-label") for a in self.all(".parallel-axis")]

    def said(self, key):
        return self.axis(key).get_attribute("aria-valuetext")

    def inside(self):
        """The jobs that are not faded in the table; the curves and lines say the same."""
        rows = self.js("return [...document.querySelectorAll('.differs [data-job]')].filter((a) => !a.closest('.faded')).map((a) => a.dataset.job)")
        return [self.ids.index(int(r)) for r in rows]

    def until_inside(self, *which):
        until(lambda: self.inside() == list(which), lambda: f"the jobs {which} are not faded, but {self.inside()}")
        drawn = f"{len(which)} of {len(self.ids)}"
        until(lambda: self.js("return document.querySelector('.sweep [data-drawn]').dataset.drawn") == drawn, f"{drawn} lines are drawn")

    def drag(self, key, start, end):
        """From a place of the axis, 0 below, 1 above, to another one."""
        axis = self.axis(key)
        self.js("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", axis)
        y = lambda place: round(46 + (1 - place) * 240 - axis.size["height"] / 2)
        ActionChains(self.driver, duration=50).move_to_element_with_offset(axis, 0, y(start)).click_and_hold() \
            .move_to_element_with_offset(axis, 0, y((start + end) / 2)).move_to_element_with_offset(axis, 0, y(end)).release().perform()

    def brush(self):
        query = urllib.parse.parse_qs(self.link().partition("?")[2])
        return json.loads(query.get("brush", ["[]"])[0])

    def test_axes(self):
        self.show()
        self.assertEqual([t for t in self.titles() if t != "command"], ["labels.kind", "labels.lr", "loss, last", "loss, lowest"])
        self.assertEqual(self.all(".parallel script"), [])
        ticks = [t.text for t in self.axis("set:labels.kind").find_elements("css selector", ".parallel-tick")]
        self.assertEqual(sorted(ticks), sorted(["adam", HOSTILE]))
        self.assertNotEqual(self.js("return document.title"), "stolen")
        self.until_inside(*range(6))

    def test_a_drag_sets_bounds_and_a_click_clears_them(self):
        self.show()
        self.drag("set:labels.lr", 0.5, 0.1)  # of five decades: 10^-4.5 to 10^-2.5
        self.until_inside(1, 2)
        until(lambda: len(self.brush()) == 1, "the link has the bounds")
        key, low, high = self.brush()[0]
        self.assertEqual(key, "set:labels.lr")
        self.assertTrue(1e-5 < low < 1e-4 and 1e-3 < high < 1e-2, self.brush())
        self.drag("set:labels.kind", 1.1, 0.9)  # one of two
        until(lambda: len(self.brush()) == 2, "the link has both")
        self.assertEqual(len(self.inside()), 1)
        self.axis("set:labels.lr").click()
        until(lambda: len(self.brush()) == 1, "one is left")
        self.one(".sweep .fields button").click()
        self.until_inside(*range(6))
        until(lambda: self.brush() == [], "the link has none")

    def test_the_keyboard_moves_bounds(self):
        self.show()
        axis = self.axis("set:labels.lr")
        self.js("arguments[0].focus()", axis)
        self.press(Keys.ARROW_UP * 2)
        self.until_inside(2, 3, 4, 5)
        self.press(Keys.SHIFT + Keys.ARROW_DOWN + Keys.NULL)
        self.until_inside(2, 3, 4)
        self.assertEqual(self.said("set:labels.lr"), "0.001 to 0.1, 3 of 6 jobs are within all bounds")
        self.press(Keys.ARROW_DOWN)
        self.until_inside(1, 2, 3, 4)
        self.press(Keys.ESCAPE)
        self.until_inside(*range(6))
        self.assertEqual(self.said("set:labels.lr"), "all")
        self.press(Keys.TAB)
        self.assertEqual(self.js("return document.activeElement.dataset.axis"), "last:loss")

    def test_the_curves_of_other_jobs_fade(self):
        self.show()
        ink = ("const c = document.querySelector('.chart-base'), g = new OffscreenCanvas(c.width, c.height).getContext('2d');"
               "g.drawImage(c, 0, 0); const p = g.getImageData(0, 0, c.width, c.height).data;"
               "let n = 0; for (let i = 3; i < p.length; i += 4) n += p[i]; return n")
        until(lambda: self.js(ink) > 0, "the curves are drawn")
        before = self.js(ink)
        self.js("arguments[0].focus()", self.axis("set:labels.lr"))
        self.press(Keys.ARROW_UP * 5)
        self.until_inside(5)
        until(lambda: self.js(ink) < before, "they are paler")
        self.press(Keys.ESCAPE)
        until(lambda: self.js(ink) == before, "they are as before")

    def test_the_link_restores_bounds_and_metrics(self):
        self.may_complain = True  # the browser reports that one job has not the metric
        bounds = [["set:labels.kind", HOSTILE, HOSTILE], ["last:grad", 0, 4]]
        self.show(f"&axes=grad&brush={urllib.parse.quote(json.dumps(bounds))}")
        self.until_inside(1)  # job 3 has no grad, job 5 has 5
        self.assertIn("none", self.axis("last:grad").text)
        self.assertEqual(self.brush(), bounds)
        self.open(self.link()[2:])
        self.until_inside(1)

    def test_a_link_of_nonsense_sets_no_bounds(self):
        for text in ("{", "7", "[[1,2,3],[],null,[\"set:labels.lr\",null,{}],[\"set:labels.kind\",\"x\",\"y\"]]", "{\"a\":1}"):
            with self.subTest(text):
                self.show(f"&brush={urllib.parse.quote(text)}")
                self.until_inside(*range(6))

    def test_a_missing_value_is_below_the_axis(self):
        self.may_complain = True
        self.show("&axes=grad")
        self.assertIn("grad, last", self.titles())
        self.assertIn("none", self.axis("last:grad").text)
        self.assertNotIn("none", self.axis("last:loss").text)
        self.drag("last:grad", 1.1, -0.1)
        self.until_inside(0, 1, 2, 4, 5)

    def test_it_scrolls_in_its_own_box(self):
        for dark in (False, True):
            self.browser.size(360, 740, dark)
            self.show()
            self.assertEqual(self.wider(), 0)
            self.assertTrue(self.js("const b = document.querySelector('.parallel'); return b.scrollWidth > b.clientWidth"))
            self.drag("best:loss", 0.25, 1.1)
            until(lambda: 0 < len(self.inside()) < 6, "some are faded")
            if SHOTS:
                os.makedirs(SHOTS, exist_ok=True)
                self.driver.save_screenshot(os.path.join(SHOTS, f"sweep-360-{'dark' if dark else 'light'}.png"))

    def test_a_wide_page(self):
        self.show()
        self.drag("set:labels.lr", 0.3, 1.1)
        self.until_inside(2, 3, 4, 5)
        if SHOTS:
            os.makedirs(SHOTS, exist_ok=True)
            self.js("document.querySelector('.sweep').scrollIntoView()")
            self.driver.save_screenshot(os.path.join(SHOTS, "sweep-1280-light.png"))


class AxesTest(PageTest):
    def call(self, expression, *arguments):
        """The value of an expression in which m is axes.js, a the arguments."""
        return self.driver.execute_async_script(
            f"const done = arguments[arguments.length - 1], a = [...arguments].slice(0, -1);"
            f"import('/compare/axes.js').then((m) => done((() => {{ {expression} }})())).catch((e) => done(String(e)))", *arguments)

    def axis(self, *values):
        return self.call("return m.axisOf('k', 'k', a[0])", list(values))

    def test_which_axes_are_logarithmic(self):
        for values, is_log in (((1, 1000), True), ((1, 100), False), ((1, 101), True), ((0, 1000), False), ((-1, 1000), False), (("1e-5", "0.1"), True)):
            self.assertEqual(self.axis(*values)["isLog"], is_log, values)

    def test_text_makes_categories_in_their_order(self):
        axis = self.axis("b10", "b9", None, "a", "b10", True)
        self.assertEqual(axis["texts"], ["a", "b9", "b10", "true"])
        self.assertEqual(axis["values"], [2, 1, None, 0, 2, 3])

    def test_places_and_values(self):
        places = self.call("const x = m.axisOf('k', 'k', [0.001, 10]); return [0.001, 0.1, 10, 99].map((v) => m.placeOf(x, v))")
        self.assertEqual([round(p, 6) for p in places], [0, 0.5, 1, 1])
        self.assertEqual(self.call("const x = m.axisOf('k', 'k', ['a', 'b', 'c']); return [0, 0.2, 0.3, 2].map((p) => m.valueAt(x, p))"), [0, 0, 1, 2])
        ends = self.call("const x = m.axisOf('k', 'k', [1e-5, 1]); return [0, 1, 2].map((p) => m.valueAt(x, p))")
        self.assertEqual(ends, [1e-5, 1, 1])
        self.assertEqual(self.call("return [m.placeOf(m.axisOf('k', 'k', [7]), 7), m.axisOf('k', 'k', [null]).values[0]]"), [0.5, None])

    def test_a_thousand_jobs(self):
        n = self.call("const v = Array.from({length: 1000}, (_, i) => i), x = m.axisOf('k', 'k', v);"
                      "return m.withinOf([x], new Map([['k', [10, 19]]]), 1000).filter(Boolean).length")
        self.assertEqual(n, 10)


if __name__ == "__main__":
    unittest.main()
