"""test_cluster.py - the cluster and the policy: tiles of GPUs, who had them, the
order of the queue."""
import unittest

from selenium.webdriver.common.by import By

from harness import PageTest, until


class ClusterTest(PageTest):
    @classmethod
    def jobs(cls):
        cls.first = cls.daemon.submit("two", gpus=2)
        cls.daemon.wait_state(cls.first, "RUNNING")
        cls.node = cls.daemon.api("GET", "/v1/nodes")["nodes"][0]["name"]

    def tiles(self):
        return self.js("return [...document.querySelectorAll('.tile')].map(t => t.querySelector('.tile-who').textContent)")

    def test_tiles_have_the_colours_of_their_jobs(self):
        self.open("cluster")
        first = str(self.first)
        until(lambda: self.tiles() == [first, first, "idle", "idle"], "two tiles of the job")
        number = self.daemon.submit("three")
        until(lambda: self.tiles() == [first, first, str(number), "idle"], "a third tile")
        colors = self.js("return [...document.querySelectorAll('.tile')].map(t => getComputedStyle(t).backgroundColor)")
        self.assertEqual(colors[0], colors[1])
        self.assertEqual(len(set(colors)), 3)
        self.daemon.api("POST", f"/v1/jobs/{number}/cancel", {})
        until(lambda: self.tiles() == [first, first, "idle", "idle"], "the tile is idle again")
        self.until_text("#view .head", "2 allocated, 2 idle")

    def test_a_drained_node_says_why(self):
        self.daemon.api("POST", "/v1/admin/drain", {"node": self.node, "why": "<b>fans</b>"})
        try:
            self.open("cluster")
            self.until_text(".node .badge", "draining")
            self.until_text(".node .head", "0 of 4 idle")
            self.until_text("#view > * > .head", "2 allocated, 0 idle, 2 drained")
            self.assertEqual(self.all("#view b"), [])
            self.until_text(".node-why", "<b>fans</b>")
        finally:
            self.daemon.api("POST", "/v1/admin/resume", {"node": self.node})

    def test_the_canvas_has_a_table_and_leads_to_the_job(self):
        self.open("cluster?since=1h")
        self.one(".more summary").click()
        rows = until(lambda: self.all(".more tbody tr"), "rows")
        text = rows[-1].text
        for part in (str(self.first), "two", f"{self.node}:0-1", "now"):
            self.assertIn(part, text)
        drawn = self.js("const c = document.querySelector('.gantt'), d = c.getContext('2d').getImageData("
                        "c.width - 1, 8, 1, 1).data; return [...d]")
        color = self.js("return getComputedStyle(document.querySelector('.tile')).backgroundColor")
        self.assertEqual(f"rgb({drawn[0]}, {drawn[1]}, {drawn[2]})", color)

    def test_a_large_cluster_fits_on_the_canvas(self):
        self.open("cluster")
        height, shown, red, green, blue = self.js("""return import('/gantt.js').then((m) => {
            const g = new m.Gantt(() => {}), nodes = [], now = new Date(), ago = new Date(now - 3600000);
            for (let i = 0; i < 1000; i++)
                nodes.push({name: `n${i}`, gpus_from: 0, gpus_total: 8, drained: [], is_up: true, state: 'up'});
            document.getElementById('view').append(g.el);
            g.show({since: ago.toISOString(), until: now.toISOString(), nodes, holds: [
                {job: 3, display_id: '3', name: 'last', user: 'u', node: 'n999', gpus: [7], from: ago.toISOString(), to: null}]});
            const last = g.lines[g.lines.length - 1], c = g.canvas;
            return [c.height, c.clientHeight, ...c.getContext('2d').getImageData(c.width - 1, last.y, 1, 1).data];
        })""")[:5]
        self.assertLessEqual(height, 32767)
        self.assertLessEqual(shown, 32767)
        self.assertEqual((red, green, blue), (0xb5, 0x8b, 0xe0), "the last GPU is there, in the colour of its job")

    def test_the_policy_is_a_table(self):
        held = self.daemon.submit("waits", hold=True)
        self.open("policy")
        self.until_text("#view h1", "Policy")
        row = until(lambda: next((r for r in self.all("tbody tr") if "waits" in r.text), None), "the job's row")
        self.assertIn("Held: by its user", row.text)
        self.assertEqual(row.find_element(By.TAG_NAME, "a").get_attribute("href"), f"{self.web.origin}/#/job/{held}")
        self.until_text("tbody .mono", "scheduler.policy")


if __name__ == "__main__":
    unittest.main(verbosity=2)
