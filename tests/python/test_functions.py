"""test_functions.py - functions in jobs: what travels, and what comes back."""

import concurrent.futures
import functools
import importlib
import os
import stat
import types
import unittest
from unittest import mock

import calls
import daemon
import mgpu

MAIN = '''
import math
import mgpu

K = 3

class Point:
    def __init__(self, x):
        self.x = x

class Square(Point):
    def area(self):
        return self.x ** 2

def helper(x, k=K):
    return Square(x * k + math.floor(0.5))

def f(x: Point, *, y: "nonsense" = K) -> Point:
    return helper(x + y)

h = helper  # helper() is another function from here on

def helper(x):
    return h(x)

def alias(x):
    return h(x).area(), helper(x).area()

def fail():
    raise ValueError("of main")

if __name__ == "__main__":
    got = mgpu.submit_function(f, 4).result()
    print(type(got) is Square, got.area())
    print(mgpu.submit_function(alias, 2).result())
    error = mgpu.submit_function(fail).exception()
    print(repr(error), "script.py" in str(error.__cause__))
'''
RETURNED = "True 441\n(36, 36)\nValueError('of main') True\n"
REFUSED = '''
import functools
import os
import mgpu

class Point:
    pass

def decorated(f):
    f.mark = 1
    return f

def wrapped(f):
    @functools.wraps(f)
    def inner(*args):
        return f(*args)
    return inner

def closure(k):
    def inner():
        return k
    return inner

@decorated
def g(x):
    return x

def plain(x):
    return x

LOCK = __import__("threading").Lock()

def uses_lock():
    return LOCK

@wrapped
def h(x):
    return x

for fn, args in ((lambda: 1, ()), (closure(2), ()), (g, (1,)), (h, (1,)),
                 (plain, (Point(),)), (plain, ((i for i in [1]),)),
                 (uses_lock, ())):
    try:
        mgpu.submit_function(fn, *args)
        print("was sent")
    except mgpu.CannotTravel as e:
        print(e.code, e.message, "|", e.hint)
print(mgpu.jobs(state="all"), os.path.exists(os.environ["MGPU_CALLS"]))
'''
FORKED = '''
import math
import os
import mgpu

mgpu.submit_function(math.sqrt, 4, hold=True)  # its watcher runs
child = os.fork()
if child == 0:
    print(mgpu.submit_function(math.sqrt, 16).result(timeout=%g), flush=True)
    os._exit(0)
os.waitpid(child, 0)
''' % daemon.DEADLINE_S
NO_CLOUD = "sys.modules['cloudpickle'] = None\n"


class Functions(daemon.DaemonTest):
    def test_a_result(self):
        future = mgpu.submit_function(calls.add, 2, kwargs={"b": 40},
                                      time_limit="5m", name="sum")
        self.assertIsInstance(future, concurrent.futures.Future)
        self.assertEqual(future.result(), 42)
        self.assertTrue(future.done())
        self.assertFalse(future.running() or future.cancelled())
        job = future.job
        self.assertEqual(job.info["name"], "sum")
        self.assertEqual(job.info["limit_s"], 300)
        self.assertEqual(job.logs(), "adding\n")
        self.assertIn("COMPLETED", future._repr_html_())
        self.assertEqual(mgpu.future(job.id).result(), 42)
        with self.assertRaisesRegex(mgpu.Usage, "is no call"):
            other = mgpu.submit({"version": 1, "kind": "command",
                                 "command": ["true"]})
            mgpu.future(other.id)

    def test_the_place_of_a_call(self):
        os.mkdir("${x}")
        future = mgpu.submit_function(
            calls.variable, "MARK", env={"MARK": "a ${b}"}, workdir="${x}")
        self.assertEqual(future.result(), (
            "a ${b}", os.path.join(self.work, "${x}")))
        mode = os.stat(future._directory).st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o700)
        for name in os.listdir(future._directory):
            found = os.stat(os.path.join(future._directory, name))
            self.assertEqual(stat.S_IMODE(found.st_mode), 0o600)

    def test_callbacks_and_as_completed(self):
        heard = []
        futures = [mgpu.submit_function(calls.add, i) for i in range(2)]
        futures[0].add_done_callback(lambda f: heard.append(f.result()))
        done = {f.result() for f in
                concurrent.futures.as_completed(futures)}
        self.assertEqual(done, {1, 2})
        daemon.until(lambda: heard)
        self.assertEqual(heard, [1])

    def test_map_is_an_array(self):
        futures = mgpu.map(calls.add, [1, 2, 3], [10, 20, 30],
                           max_parallel=2)
        self.assertEqual([f.result() for f in futures], [11, 22, 33])
        sweep = mgpu.job(futures[0].job.id).info["sweep"]
        self.assertEqual([f.job.id for f in futures],
                         ["%d_%d" % (sweep, i) for i in range(3)])
        self.assertEqual(len({f._directory for f in futures}), 1)
        reply = futures[0].job._backend.job(sweep)
        self.assertEqual(reply["sweep"]["max_parallel"], 2)
        self.assertEqual(mgpu.future(futures[1].job.id).result(), 22)
        self.assertEqual(mgpu.map(calls.add, []), [])

    def test_an_exception_and_its_traceback(self):
        future = mgpu.submit_function(calls.fail, "x.csv")
        with self.assertRaises(FileNotFoundError) as caught:
            future.result()
        error = caught.exception
        self.assertEqual((error.errno, error.filename), (2, "x.csv"))
        self.assertIsInstance(error.__cause__, mgpu.RemoteTraceback)
        text = str(error.__cause__)
        self.assertIn("calls.py", text)
        self.assertIn("in fail", text)
        self.assertNotIn("_outcome", text)
        self.assertEqual(future.job.state, "FAILED")
        self.assertIn("FileNotFoundError", future.job.logs())

    def test_an_exception_that_cannot_be_rebuilt(self):
        error = mgpu.submit_function(calls.fail_oddly).exception()
        self.assertIsInstance(error, mgpu.RemoteError)
        self.assertEqual(error.message, "Odd: oddly")
        self.assertIn("fail_oddly", str(error.__cause__))

    def test_sys_exit_is_the_exit_code(self):
        future = mgpu.submit_function(calls.leave)
        error = future.exception()
        self.assertIsInstance(error, mgpu.RemoteError)
        self.assertEqual(error.message, "SystemExit: 7")
        self.assertEqual(future.job.exit_code, 7)

    def test_a_result_that_cannot_be_pickled(self):
        error = mgpu.submit_function(calls.stream).exception()
        self.assertIsInstance(error, mgpu.RemoteError)
        self.assertRegex(error.message, "the result, of type generator, "
                                        "cannot be pickled: .*generator")

    def test_a_job_that_dies(self):
        future = mgpu.submit_function(calls.die)
        error = future.exception()
        self.assertIsInstance(error, mgpu.JobFailed)
        self.assertIs(error.job, future.job)
        self.assertIn("FAILED, exit code 9", error.message)

    def test_cancel(self):
        future = mgpu.submit_function(calls.wait, "never")
        daemon.until(future.running)
        with self.assertRaises(concurrent.futures.TimeoutError):
            future.result(timeout=0)
        self.assertTrue(future.cancel())
        self.assertTrue(future.cancelled() and future.done())
        self.assertTrue(future.cancel())
        with self.assertRaises(concurrent.futures.CancelledError):
            future.result()
        self.assertEqual(future.job.wait(), "CANCELLED")
        done, _ = concurrent.futures.wait([future])
        self.assertEqual(done, {future})

    def test_cancelled_by_somebody_else(self):
        futures = mgpu.map(calls.wait, ["never", "never"])
        mgpu.job(futures[1].job.id).cancel()
        with self.assertRaises(concurrent.futures.CancelledError):
            futures[1].result()
        self.assertFalse(futures[0].done())

    def test_too_late_to_cancel(self):
        future = mgpu.submit_function(calls.add, 1)
        self.assertEqual(future.result(), 2)
        self.assertFalse(future.cancel())
        self.assertFalse(future.cancelled())
        # The job has ended, and its result is on its way.
        on_its_way = mgpu.Future(future.job, future._directory, 0)
        self.assertFalse(on_its_way.cancel())
        self.assertFalse(on_its_way.done())

    def test_ranks(self):
        self.assertEqual(mgpu.submit_function(
            calls.rank, gpus=2).result(), 0)
        with self.assertRaisesRegex(ValueError, "rank 1"):
            mgpu.submit_function(calls.fail_beyond_rank_0, gpus=2).result()

    def test_a_specification_with_errors_leaves_nothing(self):
        before = os.listdir(os.environ["MGPU_CALLS"])
        with self.assertRaises(mgpu.Invalid) as caught:
            mgpu.submit_function(calls.add, 1, gpus="many")
        self.assertEqual(caught.exception.findings[0]["path"],
                         "resources.gpus")
        with mock.patch.dict("sys.modules", cloudpickle=None):
            with self.assertRaises(mgpu.CannotTravel):
                mgpu.submit_function(functools.partial(calls.add, lambda: 1))
        self.assertEqual(os.listdir(os.environ["MGPU_CALLS"]), before)

    def test_another_python(self):
        future = mgpu.submit_function(calls.add, 1, hold=True)
        head, body = mgpu._read_file(future._directory, "call")
        mgpu._write_file(future._directory, "call",
                         dict(head, python="3.7"), body)
        future.job.release()
        error = future.exception()
        self.assertIsInstance(error, mgpu.RemoteError)
        self.assertIn("the function is of Python 3.7, and the job has Python "
                      + mgpu._version(), error.message)
        self.assertIn("python=", error.hint)
        other = mgpu.submit_function(calls.add, 1)
        self.assertEqual(other.result(), 2)
        head, body = mgpu._read_file(other._directory, "result.0.0")
        mgpu._write_file(future._directory, "result.0.0",
                         dict(head, python="3.7"), body)
        with self.assertRaisesRegex(mgpu.RemoteError, "of Python 3.7, and"):
            mgpu._read_result(future._directory, 0)

    def test_a_child_has_a_watcher_of_its_own(self):
        self.assertEqual(self.script(FORKED), "4.0\n")

    def test_an_error_of_one_job_is_of_its_future(self):
        asked = []

        def job(id):
            if id == 1:
                raise mgpu.Denied("not yours")
            return {"job": {"state": "RUNNING"}}

        def jobs(query):
            asked.append(query["sweep"])
            raise mgpu.Failure("no listing")
        fake = types.SimpleNamespace(url="fake:", job=job, jobs=jobs)
        futures = [mgpu.Future(mgpu.Job(i, backend=fake), "none", 0)
                   for i in (1, 2, "7_0")]
        watcher = mgpu._Watcher(fake)
        self.assertFalse(watcher.look(futures))
        self.assertIsInstance(futures[0].exception(timeout=0), mgpu.Denied)
        self.assertEqual([f.done() for f in futures], [True, False, False])
        self.assertEqual(asked, [7])
        # What may pass ends none of them.
        looks = mgpu._Looks()
        for error in (mgpu.Busy("later"), OSError(24, "too many open files"),
                      mgpu.Unavailable("away")):
            watcher.bear(looks, error, futures)
            answers = [error, "an answer"]
            with mock.patch("time.sleep"):
                self.assertEqual(mgpu._Looks().ask(
                    mock.Mock(side_effect=answers)), "an answer")
        self.assertEqual([f.done() for f in futures], [True, False, False])
        with self.assertRaises(mgpu.Denied):
            mgpu._Looks().ask(mock.Mock(side_effect=mgpu.Denied("no")))

    def test_cancelled_twice(self):
        future = mgpu.Future(mgpu.Job(1), "none", 0)
        with mock.patch.object(concurrent.futures._base.LOGGER,
                               "critical") as said:
            future._be_cancelled()
            future._be_cancelled()
        self.assertTrue(future.cancelled())
        said.assert_not_called()

    def test_the_directory_of_calls_is_absolute(self):
        with mock.patch.dict(os.environ, MGPU_CALLS="calls"):
            self.assertEqual(mgpu._calls_dir(),
                             os.path.join(os.getcwd(), "calls"))

    def test_an_interpreter_that_is_not_there(self):
        error = mgpu.submit_function(calls.add, 1,
                                     python="/nonexistent/python").exception()
        self.assertIsInstance(error, mgpu.JobFailed)

    def test_functions_of_main_as_source(self):
        said = self.script(NO_CLOUD + MAIN)
        self.assertEqual(said, RETURNED)

    def test_functions_of_main_by_cloudpickle(self):
        try:
            importlib.import_module("cloudpickle")
        except ImportError:
            self.skipTest("no cloudpickle")
        said = self.script(MAIN)
        self.assertEqual(said, RETURNED)
        said = self.script("import mgpu\nk = 5\nprint(mgpu.submit_function("
                           "lambda x: x + k, 1).result())\n")
        self.assertEqual(said, "6\n")

    def test_cloudpickle_is_missing_there(self):
        future = mgpu.submit_function(calls.add, 1, hold=True)
        head, body = mgpu._read_file(future._directory, "call")
        mgpu._write_file(future._directory, "call",
                         dict(head, how="cloudpickle"), body)
        with mock.patch.dict("sys.modules", cloudpickle=None):
            with self.assertRaisesRegex(mgpu.CannotTravel, "needs cloudpick"):
                mgpu._load(future._directory, 0)

    def test_what_cannot_travel_says_so(self):
        empty = os.path.join(self.work, "no-calls")
        said = self.script(NO_CLOUD + REFUSED, MGPU_CALLS=empty).splitlines()
        for line, words in zip(said, (
                "'<lambda>' of __main__", "'closure.<locals>.inner' of",
                "'g' of __main__ cannot be sent to a job: it has a decorator",
                "'h' of __main__ cannot be sent to a job: it uses variables",
                "class 'Point' of __main__",
                "an argument of 'plain' cannot be pickled: cannot pickle "
                "'generator'", "the global 'LOCK' cannot be pickled")):
            self.assertTrue(line.startswith("USAGE "), line)
            self.assertIn(words, line)
        self.assertEqual(said[-1].split()[-1], "False")
        self.assertEqual(len(said), 8)


if __name__ == "__main__":
    unittest.main()
