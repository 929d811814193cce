"""test_looks.py - each view in light and dark, wide and at 360 px: nothing is
wider than the window, text has its contrast, and a screenshot is kept."""
import os
import unittest

from harness import PageTest, until

SHOTS = os.environ.get("MGPU_SHOTS")

# A training in eight lines: it writes the metrics of 40 iterations and stays.
TRAINS = ("i=0; while [ $i -lt 40 ]; do i=$((i + 1)); echo '{\"iteration\": '$i', \"iterations_total\": 80, "
          "\"loss\": '$((400 / (i + 3)))', \"t_iter\": 0.25}' >>$MGPU_METRICS; done; echo it trains; sleep 600")

# Of all visible text whose contrast with what is below it is less than 4.5.
PALE = """
const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m.slice(0, 3), 1] : m; };
const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; })
    .reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
const groundOf = (e) => { const stack = [];
    for (let n = e; n; n = n.parentElement) { const c = parse(getComputedStyle(n).backgroundColor); stack.push(c); if (c[3] === 1) break; }
    return stack.reduceRight((below, c) => over(c, below), [255, 255, 255]); };
const pale = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
    if (!text || !e.checkVisibility() || e.closest(':disabled, noscript, .skip')) continue;
    const ground = groundOf(e), style = getComputedStyle(e), color = parse(style.color);
    color[3] *= Number(style.opacity);
    const [a, b] = [light(over(color, ground)), light(ground)].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) pale.push(`${text.slice(0, 40)}: ${((a + .05) / (b + .05)).toFixed(2)}`);
}
return pale;
"""

# Visible controls without a name for those who do not see them.
NAMELESS = """
return [...document.querySelectorAll('button, a[href], input, select, textarea')].filter((e) => e.checkVisibility()
    && !(e.textContent.trim() || e.getAttribute('aria-label') || e.title || (e.labels && e.labels.length)))
    .map((e) => e.outerHTML.slice(0, 80));
"""


class LooksTest(PageTest):
    slots = 8

    @classmethod
    def jobs(cls):
        d = cls.daemon
        cls.first = d.submit("resnet50-imagenet", script=TRAINS, gpus=4, labels={"team": "vision", "run": "baseline"})
        cls.second = d.submit("llama-lora-with-a-name-that-is-longer-than-a-row", script=TRAINS, gpus=2)
        failed = d.submit("no-luck", script="echo no such file >&2; exit 3")
        d.submit("a-large-one", gpus=8)
        d.submit("held", hold=True)
        d.wait_state(failed, "FAILED")
        for number in (cls.first, cls.second):
            d.wait_state(number, "RUNNING")
            until(lambda number=number: d.job(number)["iteration"] == 40, "its metrics are stored")

    def views(self):
        compare = f"compare?jobs={self.first},{self.second}"
        return {"queue": "queue", "cluster": "cluster?since=1h", "policy": "policy", "job": f"job/{self.first}", "compare": compare}

    def until_all_is_there(self, name):
        """data-ready says that the view is there, not what it shows."""
        if name == "queue":
            until(lambda: len(self.names()) == 5, "all rows")
            self.until_text("#view .head", "GPUs or slots")
        elif name == "cluster":
            until(lambda: len(self.all(".tile")) == self.slots and self.all(".tile.has-job"), "all tiles")
        elif name == "policy":
            self.until_text("table[aria-label='What the policy would do now'] td", "held")
            self.until_text("table[aria-label='Settings of scheduling'] td", "scheduler.policy")
        else:
            until(lambda: self.all("#view > [data-curves]"), "the curves were read")
            until(lambda: "last" in (self.one(".chart-over").get_attribute("aria-label") or ""), "a curve")
        if name == "job":
            self.one("table[aria-label=Ranks] td")
        if name == "compare":
            until(lambda: len(self.all(".differs tbody tr")) == 2, "the table")

    def look(self, name, width, dark):
        with self.subTest(view=name, width=width, dark=dark):
            mode = "dark" if dark else "light"
            self.browser.size(width, 800, dark)
            self.open(self.views()[name])
            self.until_all_is_there(name)
            if SHOTS:
                os.makedirs(SHOTS, exist_ok=True)
                self.driver.save_screenshot(os.path.join(SHOTS, f"{name}-{width}-{mode}.png"))
            self.assertLessEqual(self.wider(), 0, "the page is wider than the window")
            self.assertEqual(self.js(PALE), [], "text of little contrast")
            self.assertEqual(self.js(NAMELESS), [], "controls without a name")


def each(name):
    def test(self):
        for width in (1280, 360):
            for dark in (False, True):
                self.look(name, width, dark)
    test.__doc__ = f"The view {name}."
    return test


PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scheduler/web/page")
for view in ("queue", "cluster", "policy", "job", "compare"):
    if os.path.exists(os.path.join(PAGE, f"{view}.js")):
        setattr(LooksTest, f"test_{view}", each(view))


if __name__ == "__main__":
    unittest.main(verbosity=2)
