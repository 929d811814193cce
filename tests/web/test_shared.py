"""test_shared.py - the page of a cluster: the queue and the nodes, and no more."""
import os
import tempfile

from harness import PageTest


class SharedTest(PageTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="mgpu-web-shared-")
        cls.addClassCleanup(folder.cleanup)
        config = os.path.join(folder.name, "mgpu.yaml")
        with open(config, "w", encoding="ascii") as f:
            f.write("version: 1\ncluster: lab\ncontroller: {web_listen: '127.0.0.1:0'}\n")
        cls.options = ("--cluster", "--config", config)
        super().setUpClass()
        cls.web.origin = cls.web.url.rstrip("/")

    @classmethod
    def jobs(cls):
        cls.running = cls.daemon.submit("runs", labels={"team": "hush"})
        cls.daemon.wait_state(cls.running, "RUNNING")
        cls.held = cls.daemon.submit("held", hold=True)
        cls.sweep = cls.daemon.submit("grid", hold=True, sweep={"grid": {"env.I": [0, 1]}})

    def test_the_queue_has_no_controls(self):
        self.open("queue")
        self.until_text("[data-row] .c-name", "runs")
        self.until_text("#who", "read-only")
        self.until_text("#cluster", "lab")
        self.until_text(".head-line, .head", "1 running")
        self.assertEqual([a.text for a in self.all("nav a")], ["Queue", "Cluster"])
        self.assertEqual(self.all("#logout"), [])
        self.assertNotIn("hush", self.js("return document.body.innerText"))
        self.row(self.held).find_element("css selector", "[data-act='why']").click()
        self.assertEqual([b.text for b in self.all("dialog[open] .dialog-buttons button")], ["Close"])
        self.button("Close").click()
        for number in (self.held, self.sweep - 0.5):  # they have no view here
            self.assertEqual(self.row(number).find_elements("css selector", "a[href]"), [])

    def test_the_cluster_shows_who_has_which_gpu(self):
        self.open("cluster")
        self.until_text(".tile", str(self.running))

    def test_a_job_has_no_view(self):
        for link in (f"job/{self.running}", "policy", f"compare?jobs={self.running}"):
            self.open(link)
            self.until_text("#view", "run mgpu-web yourself")
