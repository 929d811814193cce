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

    # ---- curves: rows as /v1/jobs/:id/curve has them ----

    ROW = """const row = (first, last, epoch, more) => Object.assign([1, first, last, 1000 + last, epoch, 1, 1, 3, 2, last - first + 1, 0, 0, 0],
        more || {});"""

    def test_an_epoch_that_ends_within_a_row_is_between_known_ends(self):
        xs = self.call("curves.js", self.ROW + "const s = new m.Scale([row(1, 30, 3), row(31, 60, 6)]);"
                       "return [1, 2, 3, 4, 5, 6].map((e) => s.atEpoch('iteration', e))")
        self.assertEqual(xs, [10, 20, 30, 40, 50, 60])
        only = self.call("curves.js", self.ROW + "const feed = {x: 'epoch', rows: [row(1, 1, 1)]};"
                         "return [[], [row(1, 9, null)], [row(1, 9, 1)]].map((rows) => m.isEpochOnly(feed, new m.Scale(rows)))")
        self.assertEqual(only, [True, True, False])

    def test_a_row_that_was_joined_on_the_page_does_not_come_twice(self):
        counts = self.driver.execute_async_script(self.ROW + """
            const done = arguments[arguments.length - 1];
            let all = 2003; // iterations that the job has done
            const get = async (path) => {
                const query = new URLSearchParams(path.split('?')[1]), width = Number(query.get('width') || 1);
                const from = Number((query.get('cursor') || '1.0').split('.')[1]), rows = [];
                for (let f = Math.floor(from / width) * width; f <= all; f += width)
                    if (f + width > 1) rows.push(row(Math.max(1, f), Math.min(all, f + width - 1), 1));
                return {x: 'iteration', width, complete: true, cursor: `1.${rows[rows.length - 1][1]}`, rows};
            };
            import('/curves.js').then(async (m) => {
                const feed = new m.Feed({get, jobPath: () => '/x'}, '1', 'loss'), counts = [];
                for (const n of [2001, 2003, 2010]) {
                    all = n;
                    await feed.update();
                    counts.push(feed.rows.reduce((sum, r) => sum + r[9], 0));
                }
                done(counts);
            });""")
        self.assertEqual(counts, [2001, 2003, 2010])

    def test_a_row_that_changed_before_the_last_one_is_new(self):
        found = self.driver.execute_async_script(self.ROW + """
            const done = arguments[arguments.length - 1];
            let samples = 1; // of iteration 1: a rank is late
            const get = async () => ({x: 'iteration', width: 1, complete: true, cursor: '1.1', rows: [row(1, 1, 1, {5: samples}), row(2, 2, 1)]});
            import('/curves.js').then(async (m) => {
                const feed = new m.Feed({get, jobPath: () => '/x'}, '1', 'samples_per_s'), found = [];
                for (const n of [1, 1, 2]) {
                    samples = n;
                    found.push([await feed.update(), feed.rows[0][5]]);
                }
                done(found);
            });""")
        self.assertEqual(found, [[True, 1], [False, 1], [True, 2]])

    def test_samples_are_those_of_all_ranks(self):
        def xs(counted, its, rows="[row(1, 8, 1)]"):
            return self.call("curves.js", self.ROW + f"const s = new m.Scale({rows}, {counted}); "
                             "return [s.hasSamples, ...a[0].map((i) => s.at('samples', i))]", its)
        # A row of 4 iterations has 40 samples; then 2 of another one, and none at 7.
        self.assertEqual(xs("[row(1, 4, 1, {5: 40}), row(5, 6, 1, {5: 60}), row(8, 8, 1, {5: 7})]", [0, 1, 2, 4, 5, 6, 7, 8, 9]),
                         [True, 0, 10, 20, 40, 70, 100, 100, 107, 107])
        # Attempt 2 has half the ranks, and does iterations 5 to 8 again. Half of a thinned row counts.
        again = "[row(1, 8, 1, {5: 64}), row(9, 10, 1, {5: 16}), row(5, 6, 1, {0: 2, 5: 8}), row(7, 7, 1, {0: 2, 5: 4})]"
        self.assertEqual(xs(again, [4, 5, 6, 7, 8]), [True, 32, 36, 40, 44, 44])
        for counted in ("[]", "[row(1, 8, 1, {5: 0})]"):
            self.assertEqual(xs(counted, [1, 8]), [False, None, None])

    def test_the_last_value_says_that_it_is_not_finite(self):
        for value, text in (("null", "not a number"), ("'Infinity'", "infinite"), ("'-Infinity'", "-infinite"), ("2.5", 2.5)):
            last = self.call("curves.js", self.ROW + f"return m.figuresOf([row(1, 8, 1), row(9, 16, 1, {{8: {value}, 10: 1}})]).last")
            self.assertEqual(last, text)

    def test_what_is_not_shown_is_asked_for_one_time_in_five(self):
        asked = self.driver.execute_async_script(self.ROW + """
            const done = arguments[arguments.length - 1];
            let asked = {};
            const get = async (path) => {
                const of = path.startsWith('/values') ? 'values' : new URLSearchParams(path.split('?')[1]).get('of');
                asked[of] = (asked[of] || 0) + 1;
                if (of === 'values') return {columns: ['name', 'iteration'], rows: [['own', 1]]};
                if (of !== 'loss' && of !== 'own') throw Object.assign(new Error('no such metric'), {status: 404});
                return {x: 'iteration', width: 1, complete: true, cursor: '1.2', rows: [row(1, 1, 1), row(2, 2, 1)]};
            };
            import('/job_curves.js').then(async (m) => {
                const curves = new m.JobCurves({get, jobPath: (id, what) => `/${what}`}, '1', {}, () => {});
                await curves.update(true);
                asked = {};
                for (let i = 0; i < 5; i++) await curves.update(false);
                curves.end();
                done(asked);
            });""")
        self.assertEqual(asked, {"loss": 5, "train_loss": 5, "eval_loss": 1, "eval_accuracy": 1, "lr": 1, "samples_per_s": 1,
                                 "tokens_per_s": 1, "t_iter": 1, "gpu_mem_bytes": 1, "own": 1, "values": 1})

    def test_all_charts_follow_the_samples(self):
        found = self.driver.execute_async_script(self.ROW + """
            const done = arguments[arguments.length - 1];
            let asked = 0, samples = 0;
            const get = async (path) => {
                const of = path.startsWith('/values') ? 'values' : new URLSearchParams(path.split('?')[1]).get('of');
                if (of === 'values') return {columns: ['name', 'iteration'], rows: []};
                if (of !== 'loss' && of !== 'samples_per_s') throw Object.assign(new Error('no such metric'), {status: 404});
                if (of === 'loss') return {x: 'iteration', width: 1, complete: true, cursor: '1.2', rows: [row(1, 1, 1), row(2, 2, 1)]};
                asked++; // without t_iter no value is a number, and no chart is shown
                return {x: 'iteration', width: 1, complete: true, cursor: '1.2', rows: [row(1, 2, 1, {5: samples, 6: null, 7: null, 8: null, 10: 2})]};
            };
            import('/job_curves.js').then(async (m) => {
                const curves = new m.JobCurves({get, jobPath: (id, what) => `/${what}`}, '1', {x: 'samples'}, () => {});
                const names = [], say = () => names.push(curves.panels[0].chart.options.xName);
                await curves.update(true);
                say();
                asked = 0;
                for (let i = 0; i < 5; i++) {
                    samples = 10;
                    await curves.update(false);
                    say();
                }
                curves.end();
                done([asked, names]);
            });""")
        self.assertEqual(found, [5, ["iteration"] + ["samples"] * 5])

    # ---- efficiency ----

    def test_the_advice_is_shown_as_text(self):
        texts = self.driver.execute_async_script("""
            const done = arguments[0], job = {gpus: 2, computing: 0.5, copying: null, efficiency: 0.4};
            Promise.all([import('/dom.js'), import('/job_parts.js')]).then(([dom, m]) => done([['raise <b>a</b>', 'lower b'], []].map((notes) => {
                const node = dom.el('div', null, m.efficiencyOf({...job, notes}));
                return [[...node.querySelectorAll('dt, dd')].map((e) => e.textContent).join('|'),
                  [...node.querySelectorAll('li')].map((e) => e.textContent).join('|'), node.querySelectorAll('p').length];
            })));""")
        figures = "Computing|50 %|Efficiency|40 % of 2 times one GPU"
        self.assertEqual(texts, [[figures, "raise <b>a</b>|lower b", 0], [figures, "", 1]])

    # ---- tables ----

    def test_what_is_read_stays(self):
        steps = self.driver.execute_async_script("""
            const done = arguments[0], steps = [];
            import('/dom.js').then((m) => {
                const node = m.el('div'), make = (text) => () => m.el('button', null, text), say = () => steps.push(node.textContent);
                document.body.append(node);
                m.refresh(node, 1, make('a')); say();
                m.refresh(node, 1, make('b')); say();
                m.refresh(node, 2, make('c')); say();
                node.firstChild.focus();
                m.refresh(node, 3, make('d')); say();
                node.firstChild.blur();
                setTimeout(() => { say(); node.remove(); done(steps); }, 50);
            });""")
        self.assertEqual(steps, ["a", "a", "c", "c", "d"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
