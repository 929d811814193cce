"""test_access.py - who gets the page, and what a page of another origin gets."""
import http.client
import socket
import unittest

from harness import PageTest, Web


class AccessTest(PageTest):
    @classmethod
    def jobs(cls):
        cls.held = cls.daemon.submit("held", hold=True)
        cls.host = cls.web.origin.removeprefix("http://")
        cls.cookie = "; ".join(f"{c['name']}={c['value']}" for c in cls.driver.get_cookies())

    def ask(self, method, path, body=None, **headers):
        """(status, headers, text) of a request outside the browser."""
        c = http.client.HTTPConnection(self.host, timeout=60)
        try:
            c.request(method, path, body, headers={k.replace("_", "-"): v for k, v in headers.items()})
            reply = c.getresponse()
            return reply.status, reply.headers, reply.read().decode()
        finally:
            c.close()

    def test_the_token_has_left_the_address(self):
        self.open("queue")
        self.until_names("held")
        self.assertNotIn("token", self.driver.current_url)
        self.assertEqual(self.js("return document.cookie"), "", "scripts cannot read the cookie")
        self.assertEqual(self.js("return Object.keys(localStorage).length"), 0)

    def test_without_the_token_there_is_nothing(self):
        wrong = self.web.url[:-1] + ("0" if self.web.url[-1] != "0" else "1")
        path = wrong.removeprefix(self.web.origin)
        for ask in ((path, {}), ("/", {}), ("/v1/jobs", {}), ("/app.js", {}), ("/", {"Cookie": "mgpu=no"})):
            status, headers, text = self.ask("GET", ask[0], **ask[1])
            self.assertEqual(status, 403, ask)
            self.assertIsNone(headers["Set-Cookie"], ask)
            self.assertNotIn("held", text)

    def test_a_window_without_the_cookie_says_where_to_get_it(self):
        self.may_complain = True  # the browser logs the status 403
        self.driver.delete_all_cookies()
        try:
            self.driver.get(self.web.origin + "/")
            self.until_text("body", "mgpu-web")
            self.assertEqual(self.all("main"), [])
        finally:
            self.driver.get(self.web.url)
        self.until_names("held")

    def test_log_out_ends_the_cookie_and_what_is_shown(self):
        self.may_complain = True  # the browser logs the status 403
        self.open("queue")
        self.until_names("held")
        self.one("#logout").click()
        self.until_text("#view", "You are logged out.")
        self.assertEqual(self.all("[data-row]"), [])
        self.js("location.hash = '#/cluster'")
        self.driver.execute_async_script("setTimeout(arguments[0], 300)")  # a view would be there
        self.until_text("#view", "You are logged out.")
        self.assertEqual(self.all("#view h1"), [])
        self.assertEqual(self.ask("GET", "/v1/jobs", Cookie=self.cookie)[0], 403)
        self.driver.get(self.web.origin + "/")
        self.assertEqual(self.all("main"), [])
        self.driver.get(self.web.url)
        self.until_names("held")
        type(self).cookie = "; ".join(f"{c['name']}={c['value']}" for c in self.driver.get_cookies())

    def test_what_the_files_come_with(self):
        status, headers, _ = self.ask("GET", "/", Cookie=self.cookie)
        self.assertEqual(status, 200)
        policy = headers["Content-Security-Policy"]
        for part in ("default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"):
            self.assertIn(part, policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        self.assertEqual(self.ask("GET", "/../../etc/passwd", Cookie=self.cookie)[0] // 100, 4)

    def test_other_hosts_and_origins_change_nothing(self):
        self.assertEqual(self.ask("GET", "/v1/jobs", Cookie=self.cookie, Host="example.org")[0], 403)
        path, body = f"/v1/jobs/{self.held}/update", '{"time_limit_s": 3600}'
        ours = {"Cookie": self.cookie, "X_Mgpu_Web": "1", "Origin": self.web.origin}
        for change in ({"Origin": "http://example.org"}, {"X_Mgpu_Web": "0"}, {"Cookie": ""}):
            self.assertEqual(self.ask("POST", path, body, **{**ours, **change})[0], 403, change)
        self.assertFalse(self.daemon.job(self.held)["limit_s"])
        self.assertEqual(self.ask("POST", path, body, **ours)[0], 200, "as it is, it is done")
        self.assertEqual(self.daemon.job(self.held)["limit_s"], 3600)

    def test_the_browser_keeps_scripts_of_others_out(self):
        self.may_complain = True  # the browser logs what it refuses
        self.open("queue")
        self.js("const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);"
                "const d = document.createElement('div'); d.innerHTML = '<img src=x onerror=\"window.ran = 2\">';"
                "document.body.append(d)")
        self.assertIsNone(self.js("return window.ran || null"))
        # A server that would get it: the policy refuses it, nothing else.
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            url = f"http://127.0.0.1:{server.getsockname()[1]}/"
            refused = self.driver.execute_async_script(
                "const [url, done] = arguments, why = []; document.addEventListener('securitypolicyviolation', (e) => why.push("
                "e.effectiveDirective)); fetch(url, {mode: 'no-cors'}).then(() => 'sent', () => 'refused')"
                ".then((what) => setTimeout(() => done([what, ...why]), 0))", url)
            self.assertEqual(refused, ["refused", "connect-src"])
            with self.assertRaises(BlockingIOError):
                server.accept()
        self.browser.requests()  # the one that was refused


class ReadOnlyAccessTest(PageTest):
    options = ("--read-only",)

    def test_a_post_is_refused(self):
        held = self.daemon.submit("held", hold=True)
        self.may_complain = True
        self.open("queue")
        status = self.js("return fetch(arguments[0], {method: 'POST', headers: {'X-Mgpu-Web': '1'}, body: '{}'})"
                         ".then(r => r.status)", f"/v1/jobs/{held}/cancel")
        self.assertEqual(status, 403)
        self.assertEqual(self.daemon.job(held)["state"], "HELD")


class SecondPageTest(PageTest):
    def test_the_cookie_of_one_page_does_not_open_another(self):
        second = Web(self.daemon)
        try:
            cookie = "; ".join(f"{c['name']}={c['value']}" for c in self.driver.get_cookies())
            c = http.client.HTTPConnection(second.origin.removeprefix("http://"), timeout=60)
            c.request("GET", "/v1/jobs", headers={"Cookie": cookie})
            self.assertEqual(c.getresponse().status, 403)
            c.close()
        finally:
            second.close()
        self.open("queue")
        self.until_text(".none", "No active job.")


if __name__ == "__main__":
    unittest.main(verbosity=2)
