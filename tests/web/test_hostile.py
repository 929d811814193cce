"""test_hostile.py - what mgpu-web answers to requests that no browser sends: by the
byte, on a socket. tests/cli/web.bats has the tokens, hosts, origins and paths."""
import re
import select
import socket
import unittest

from harness import PATIENCE_S, Daemon, Web, until


class HostileTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.close)
        cls.held = cls.daemon.submit("held", hold=True)
        cls.web = Web(cls.daemon)
        cls.addClassCleanup(cls.web.close)
        cls.host = cls.web.origin.removeprefix("http://")
        first = cls.send(f"GET {cls.web.url.removeprefix(cls.web.origin)} HTTP/1.1\r\nHost: {cls.host}\r\nConnection: close\r\n\r\n")
        cls.cookie = re.search(r"Set-Cookie: ([^;\r]+)", first)[1]
        cls.known = f"Host: {cls.host}\r\nCookie: {cls.cookie}\r\n"

    @classmethod
    def send(cls, text, n=1):
        """What comes back until the server ends, or n replies have begun."""
        with socket.create_connection(("127.0.0.1", int(cls.web.origin.rsplit(":", 1)[1])), PATIENCE_S) as s:
            s.sendall(text.encode("latin-1"))
            got = b""
            while got.count(b"HTTP/1.") < n or b"\r\n\r\n" not in got:
                try:
                    piece = s.recv(65536)
                except ConnectionResetError:
                    break
                if not piece:
                    break
                got += piece
            return got.decode("latin-1")

    @staticmethod
    def answer(s, among):
        among.remove(s)
        try:
            return s.recv(100).decode("latin-1")
        except ConnectionResetError:  # it ended with our bytes unread
            return ""

    def status(self, text):
        reply = self.send(text)
        self.assertRegex(reply, r"^HTTP/1\.[01] \d{3} ", text)
        return int(reply.split(" ", 2)[1])

    def get(self, path, more="", version="1.1"):
        return f"GET {path} HTTP/{version}\r\n{self.known}{more}\r\n"

    def post(self, more, body):
        return (f"POST /v1/jobs/{self.held}/cancel HTTP/1.1\r\n{self.known}Origin: {self.web.origin}\r\nX-Mgpu-Web: 1\r\n"
                f"{more}\r\n{body}")

    def tearDown(self):
        self.assertEqual(self.status(self.get("/v1/status")), 200, "it answers as before")
        self.assertEqual(self.daemon.job(self.held)["state"], "HELD", "nothing was done")

    def test_a_body_has_one_length(self):
        inner = self.post("Content-Length: 2\r\n", "{}")
        for more in ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                     "Content-Length: 2\r\nContent-Length: 400\r\n", "Transfer-Encoding: xchunked\r\n",
                     "Content-Length: -1\r\n", "Content-Length: +2\r\n", "Content-Length: 2x\r\n"):
            reply = self.send(self.post(more, "0\r\n\r\n" + inner), 2)
            self.assertRegex(reply, r"^HTTP/1\.1 400 ", more)
            self.assertEqual(reply.count("HTTP/1.1 "), 1, "no second request is seen")

    def test_a_chunk_has_a_length(self):
        for size in ("ffffffffffffffff", "-1"):
            self.assertEqual(self.status(self.post("Transfer-Encoding: chunked\r\n", f"{size}\r\nx")), 413, size)

    def test_a_request_names_one_host_of_ours(self):
        for text in (f"GET /v1/jobs HTTP/1.0\r\nCookie: {self.cookie}\r\n\r\n", f"GET /v1/jobs HTTP/1.1\r\nCookie: {self.cookie}\r\n\r\n"):
            self.assertEqual(self.status(text), 403)
        for text in (f"GET /v1/jobs HTTP/1.1\r\nHost: example.org\r\n{self.known}\r\n", f"GET /v1/jobs HTTP/1.1\r\n{self.known}Host: example.org\r\n\r\n",
                     self.get("http://example.org/v1/jobs"), self.get("/v1/jobs", "X-A: 1\r\n Host: example.org\r\n")):
            self.assertEqual(self.status(text), 400, text)

    def test_a_path_adds_no_header(self):
        for path in ("/v1/jobs%0d%0aX-Evil:%201", "/v1/jobs%00", "/v1/jobs\nX-Evil: 1", "/v1/../v1/admin/log", "/v1/%2e%2e/x"):
            reply = self.send(self.get(path))
            self.assertRegex(reply, r"^HTTP/1\.1 400 ", path)
            self.assertNotIn("\r\nX-Evil", reply)
        self.assertNotIn("\r\nX-Evil", self.send(self.get("/v1/jobs?name=%0d%0aX-Evil:%201")))
        self.assertEqual(self.status(self.get("//v1/status")), 404)

    def test_requests_that_follow_are_answered_in_turn(self):
        end = self.get("/v1/status", "Connection: close\r\n")
        reply = self.send(self.get("/v1/status") + self.get("/nothing") + end, 4)
        self.assertEqual(re.findall(r"HTTP/1\.1 (\d+)", reply), ["200", "404", "200"])

    def test_a_cookie_of_another_name_or_value_is_none(self):
        name, value = self.cookie.split("=")
        for cookie in (f"{name}x={value}", f"x{name}={value}", f"{name}={value}0", f"{name}=", f"a=\"{self.cookie}\""):
            self.assertEqual(self.status(f"GET /v1/jobs HTTP/1.1\r\nHost: {self.host}\r\nCookie: {cookie}\r\n\r\n"), 403, cookie)
        self.assertEqual(self.status(f"GET /v1/jobs HTTP/1.1\r\nHost: {self.host}\r\nCookie: a=b; {self.cookie}; c=d\r\n\r\n"), 200)

    def test_many_connections_are_bounded_and_leave(self):
        port = int(self.web.origin.rsplit(":", 1)[1])
        many = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(500)]
        try:
            for i, s in enumerate(many):
                try:
                    s.sendall((self.get("/v1/watch") if i % 2 else "GET /v1/wa").encode())
                except OSError:  # refused already
                    pass
            halves = many[::2]  # of those only one too many has this answer
            until(lambda: any(" 503 " in self.answer(s, halves) for s in select.select(halves, [], [], 1)[0]), "one is refused")
        finally:
            for s in many:
                s.close()
        until(lambda: self.status(self.get("/v1/status")) == 200, "it answers again")


if __name__ == "__main__":
    unittest.main(verbosity=2)
