"""test_faults.py - what the page does when replies are late, are refused or fail:
some requests of the page are answered by the test."""
import unittest

from selenium.webdriver.common.keys import Keys

from harness import PageTest, until

# Requests whose method and path match are answered by the test: with a status and
# a document, `times` times; without a status they wait for window.release().
FAKE = """
const [pattern, status, body, times] = arguments;
window.asked = [];
const real = window.realFetch = window.realFetch || window.fetch;
let left = times;
window.fetch = async (path, options) => {
    const what = `${(options && options.method) || 'GET'} ${path}`;
    if (!new RegExp(pattern).test(what)) return real(path, options);
    window.asked.push(what);
    if (left-- <= 0) return real(path, options);
    if (!status) {
        const reply = await real(path, {...options, signal: undefined});
        await new Promise((resolve) => { window.release = resolve; });
        return reply;
    }
    return new Response(JSON.stringify(body), {status});
};
"""


def refusal(code, **more):
    return {"error": {"code": code, "message": "a refusal of the test", **more}}


class FaultsTest(PageTest):
    @classmethod
    def jobs(cls):
        row = '{"iteration":1,"epoch":1,"started_at":1000,"loss":2}\\n'
        cls.done = cls.daemon.submit("done", f"printf '{row}' >>\"$MGPU_METRICS\"")
        cls.daemon.wait_state(cls.done, "COMPLETED")
        cls.held = cls.daemon.submit("held", hold=True)

    def fake(self, pattern, status=None, body=None, times=1):
        self.js(FAKE, pattern, status, body, times)

    def asked(self):
        return self.js("return window.asked")

    def go(self, fragment):
        """Another view, in the same page."""
        self.js("location.hash = arguments[0]", f"#/{fragment}")

    def get(self, path):
        return self.driver.execute_async_script(
            "const done = arguments[1]; import('/api.js').then((m) => m.get(arguments[0]))"
            ".then((v) => done({ok: v}), (e) => done({status: e.status}))", path)

    def test_a_late_reply_of_a_view_that_was_left_changes_nothing(self):
        self.open("policy")
        self.fake(f"GET /v1/jobs/{self.done}$")
        self.go(f"job/{self.done}")
        until(lambda: self.js("return !!window.release"), "the job is asked for")
        self.go("queue")
        self.until_text("#view h1", "Queue")
        self.js("window.release()")
        self.driver.execute_async_script("setTimeout(arguments[0], 300)")  # a late view would be there
        self.assertEqual([e.text for e in self.all("#view h1")], ["Queue"])

    def test_a_get_that_the_limit_refuses_is_tried_again(self):
        self.open("policy")
        self.fake("GET /v1/status", 429, refusal("LIMIT", retry_after_s=0.05), 2)
        self.assertIn("ok", self.get("/v1/status"))
        self.assertEqual(len(self.asked()), 3)
        self.fake("GET /v1/status", 429, refusal("LIMIT", retry_after_s=61))
        self.assertEqual(self.get("/v1/status"), {"status": 429})
        self.fake("GET /v1/status", 429, refusal("LIMIT"))
        self.assertEqual(self.get("/v1/status"), {"status": 429})

    def test_a_held_enter_sends_one_request(self):
        self.open(f"job/{self.held}")
        self.one("[data-act=limit]").click()
        field = self.one("dialog[open] input")
        field.clear()
        field.send_keys("1h")
        self.fake("POST ", times=0)
        self.js("for (let i = 0; i < 3; i++) arguments[0].dispatchEvent(new KeyboardEvent('keydown',"
                "{key: 'Enter', bubbles: true, cancelable: true, repeat: i > 0}))", field)
        self.until_gone("dialog")
        self.assertEqual(self.asked(), [f"POST /v1/jobs/{self.held}/update"])

    def test_a_curve_that_could_not_be_read_is_asked_for_again(self):
        self.may_complain = True
        self.open("policy")
        self.fake("/curve.*of=loss", 500, refusal("INTERNAL"), 2)
        self.go(f"job/{self.done}")
        self.until_text(".curves [role=alert]", "a refusal of the test")
        until(lambda: not self.all(".curves [role=alert]"), "the curve was read")
        self.one("[data-chart=Loss]")

    def test_a_comparison_says_why_a_curve_is_not_there_and_asks_again(self):
        self.may_complain = True
        self.open("policy")
        self.fake("/curve.*of=loss", 500, refusal("INTERNAL"), 2)
        self.go(f"compare?jobs={self.done}")
        self.until_text("#view [role=alert]", "a refusal of the test")
        until(lambda: "last 2" in self.one(".chart-over").get_attribute("aria-label"), "the curve")
        self.until_gone("#view [role=alert]")

    def test_a_job_that_could_not_be_read_stays_in_the_link(self):
        self.may_complain = True
        self.open("policy")
        self.fake(f"GET /v1/jobs/{self.done}$", 500, refusal("INTERNAL"))
        self.go(f"compare?jobs={self.held},{self.done},999&x=time")
        self.until_text("#view [role=alert]", "a refusal of the test")
        until(lambda: "999" not in self.link(), "a job that there is not leaves the link")
        self.assertIn(str(self.done), self.link())
        until(lambda: len(self.all(".differs tbody tr")) == 2, "it is there")

    def test_another_axis_shows_all_of_it(self):
        self.open(f"compare?jobs={self.done}")
        canvas = self.one(".chart-over")
        until(lambda: "last 2" in canvas.get_attribute("aria-label"), "the curve")
        self.js("arguments[0].focus()", canvas)
        for key in ("ARROW_LEFT", "ADD"):
            self.press(getattr(Keys, key))
        until(lambda: "curve, " in canvas.get_attribute("aria-label"), "a part is shown")
        self.one("[data-field=x] option[value=time]").click()
        until(lambda: "curve. " in canvas.get_attribute("aria-label"), "all is shown")

    def test_an_older_reply_does_not_replace_a_newer_one(self):
        self.open("policy")
        self.fake("GET /v1/gpus")
        self.go("cluster")
        until(lambda: self.js("return !!window.release"), "the GPUs are asked for")
        number = self.daemon.submit("later")
        self.daemon.wait_state(number, "RUNNING")
        self.one("[aria-label=Period] option[value='1h']").click()
        until(lambda: self.all(".tile.has-job"), "the newer reply")
        self.js("window.release()")
        self.driver.execute_async_script("setTimeout(arguments[0], 300)")  # the older reply would be there
        self.assertEqual(len(self.all(".tile.has-job")), 1)
        self.daemon.api("POST", f"/v1/jobs/{number}/cancel", {})

    def test_a_queue_that_stays_open_forgets_what_ended_long_ago(self):
        self.open("policy")
        self.js("const real = window.setInterval; window.setInterval = (f, ms) => { if (ms === 60000) window.eachMinute = f; return real(f, ms); }")
        self.go("queue")
        until(lambda: "done" in self.names(), "the job that has ended")
        self.js("const now = Date.now; Date.now = () => now() + 2 * 86400000; if (window.eachMinute) window.eachMinute()")
        until(lambda: "done" not in self.names(), "it is forgotten")


class RestartTest(PageTest):
    def test_a_log_goes_on_after_the_daemon_was_started_again(self):
        self.may_complain = True  # the browser logs requests that fail
        go = f"{self.daemon.dir}/go"
        number = self.daemon.submit("prints", 'echo before; until [ -e "$GO" ]; do sleep 0.1; done; echo after; sleep 600', env={"GO": go})
        self.open(f"job/{number}")
        self.until_text(".log", "before")
        self.daemon.stop()
        self.daemon.start()
        with open(go, "w", encoding="utf-8"):
            pass
        self.until_text(".log", "after")


if __name__ == "__main__":
    unittest.main(verbosity=2)
