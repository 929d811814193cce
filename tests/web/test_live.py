"""test_live.py - the list of jobs stays right when the connection breaks, and
when the daemon comes back without what it had."""
import os
import shutil
import unittest

from harness import PageTest, until

# Keeps what each stream of jobs was asked for, and has said, and lets the test
# cut it.
TAP = """
const real = window.fetch;
window.streams = [];
window.fetch = async (path, options) => {
    if (!String(path).startsWith('/v1/watch')) return real(path, options);
    const own = new AbortController(), one = {path, lines: [], cut: () => own.abort()};
    if (options.signal) options.signal.addEventListener('abort', one.cut);
    window.streams.push(one);
    const reply = await real(path, {...options, signal: own.signal});
    let rest = '';
    const tap = new TransformStream({transform(piece, to) {
        const lines = (rest + new TextDecoder().decode(piece)).split('\\n');
        rest = lines.pop();
        one.lines.push(...lines.map((line) => JSON.parse(line)));
        to.enqueue(piece);
    }});
    return new Response(reply.body.pipeThrough(tap), {status: reply.status});
};
"""


class BreakTest(PageTest):
    @classmethod
    def jobs(cls):
        cls.held = [cls.daemon.submit(f"held{i}", hold=True) for i in range(20)]

    def streams(self):
        return self.js("return window.streams.map(({path, lines}) => ({path, ids: lines.filter(l => l.job).map(l => l.job.id),"
                       "wholes: lines.filter(l => l.cursor).map(l => l.whole)}))")

    def test_after_a_break_only_changes_are_sent(self):
        self.open("policy")
        self.js(TAP)
        self.js("location.hash = '#/queue?state=HELD'")
        until(lambda: len(self.names()) == 20, "the rows")
        until(lambda: self.streams()[0]["wholes"], "the beginning ends")
        self.js("document.querySelector('[data-row]').marked = true")
        self.js("window.streams[0].cut()")
        self.daemon.api("POST", f"/v1/jobs/{self.held[7]}/cancel", {})
        until(lambda: len(self.names()) == 19, "the job has left the held ones")
        streams = self.streams()
        self.assertEqual(streams[0]["path"], "/v1/watch?cursor=new")
        self.assertRegex(streams[-1]["path"], r"^/v1/watch\?cursor=[0-9a-f]+\.[0-9]+$")
        self.assertEqual({number for s in streams[1:] for number in s["ids"]}, {self.held[7]})
        self.assertNotIn(True, [whole for s in streams[1:] for whole in s["wholes"]])
        self.assertTrue(self.js("return document.querySelector('[data-row]').marked"), "rows are not made anew")


class RestoredTest(PageTest):
    """The daemon comes back with the jobs of another one."""

    @classmethod
    def jobs(cls):
        cls.daemon.submit("first", hold=True)
        cls.daemon.submit("lost", hold=True)
        ended = cls.daemon.submit("ended", script="exit 3")
        cls.daemon.wait_state(ended, "FAILED")

    def test_jobs_that_are_gone_leave_the_page(self):
        self.may_complain = True  # the browser logs requests that fail
        self.open("queue")
        self.until_names("first", "lost", "ended")
        self.daemon.stop()
        self.until_text("#connection", "connection lost")
        shutil.rmtree(os.path.join(self.daemon.dir, "state"))
        self.daemon.start()
        fresh = self.daemon.submit("fresh", hold=True)
        self.until_names("fresh")
        self.daemon.api("POST", f"/v1/jobs/{fresh}/cancel", {})
        until(lambda: "CANCELLED" in self.row(fresh).text, "its changes come")


if __name__ == "__main__":
    unittest.main(verbosity=2)
