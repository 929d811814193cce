"""test_parts.py - functions of the page's modules, called in the browser: texts of
durations and numbers, YAML, and curves on other axes."""
import unittest

from harness import PageTest


class PartsTest(PageTest):
    def call(self, module, expression, *arguments):
        """The value of an expression in which m is the module, a the arguments;
        what it throws is {error, hint}."""
        return self.driver.execute_async_script(
            f"const done = arguments[arguments.length - 1], a = [...arguments].slice(0, -1);"
            f"import('/{module}').then((m) => done((() => {{ {expression} }})()))"
            f".catch((e) => done({{error: e.message, hint: e.hint || null}}))", *arguments)

    def test_the_text_of_a_time_limit_is_read_as_the_same_limit(self):
        for seconds, text in ((1800, "0:30:00"), (59, "0:00:59"), (5400, "1:30:00"), (86400, "1-00:00:00"), (604799, "6-23:59:59")):
            self.assertEqual(self.call("job_parts.js", "return m.limitText(a[0])", seconds), text)
            self.assertEqual(self.call("job_parts.js", "return m.secondsOf(a[0])", text), seconds)
        for text, seconds in (("90s", 90), ("1h30m", 5400), ("2d", 172800)):
            self.assertEqual(self.call("job_parts.js", "return m.secondsOf(a[0])", text), seconds)

    def test_an_ambiguous_time_limit_is_refused(self):
        for text, what, hint in (("30:00", "is ambiguous", "30:00:00, or 0:30:00"), ("4:30", "is ambiguous", "4:30:00, or 0:04:30"),
                                 ("90", "has no unit", "90m"), ("soon", "is no duration", "1h30m"), ("1:75:00", "is no duration", "1h30m")):
            error = self.call("job_parts.js", "return m.secondsOf(a[0])", text)
            self.assertIn(what, error["error"])
            self.assertIn(hint, error["hint"])

    def test_numbers(self):
        texts = self.call("format.js", "return a.map(m.number)", 0, 0.5, 12345.6, 1e-7, -2)
        self.assertEqual(texts, ["0", "0.5", "1.235e+4", "1e-7", "-2"])

    def test_a_text_that_yaml_takes_for_another_value_is_quoted(self):
        spec = {"a": "-", "b": "on", "c": "-5", "d": "@x", "e": "1.5", "f": "No", "on": "x", "path": "/data/a-b", "model": "org/net-1.5", "g": "~"}
        self.assertCountEqual(self.call("job_parts.js", "return m.yamlOf(a[0])", spec).split("\n"), [
            'a: "-"', 'b: "on"', 'c: "-5"', 'd: "@x"', 'e: "1.5"', 'f: "No"', '"on": x', "path: /data/a-b", "model: org/net-1.5", 'g: "~"'])

    def test_only_the_last_events_are_shown_and_no_wrong_count(self):
        text = self.call("job_parts.js", "const d = document.createElement('div'); d.append(...m.eventsOf(Array.from({length: 501}, () => "
                         "({at: '2026-01-01T00:00:00Z', event: 'x', attempt: 0, uid: null}))).filter(Boolean)); return d.firstChild.textContent")
        self.assertTrue(text.startswith("The last 500 events;"), text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
