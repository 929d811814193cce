"""test_results.py - results that are not believed; a daemon that is away."""

import json
import os
import pickle
import shutil
import stat
import unittest
from unittest import mock

import calls
import daemon
import mgpu


class Results(daemon.DaemonTest):
    def done(self, value):
        future = mgpu.submit_function(calls.add, value)
        self.assertEqual(future.result(), value + 1)
        return future

    def refused(self, future, words):
        error = mgpu.future(future.job.id).exception()
        self.assertIsInstance(error, mgpu.NoResult)
        self.assertIn(words, error.message)

    def evil(self):
        """A file that makes another one when it is unpickled."""
        class Evil:
            def __reduce__(self):
                return open, (mark, "w")
        mark = os.path.join(self.work, "unpickled")
        path = os.path.join(self.work, "evil")
        with open(path, "wb") as out:
            out.write(json.dumps({"python": mgpu._version(), "ok": True})
                      .encode() + b"\n" + pickle.dumps(Evil()))
        return path, mark

    def test_a_result_swapped_for_a_link(self):
        future = self.done(1)
        result = os.path.join(future._directory, "result.0.0")
        evil, mark = self.evil()
        os.remove(result)
        os.symlink(evil, result)
        self.refused(future, "is not a plain file")
        os.remove(result)
        os.mkfifo(result)
        self.refused(future, "is not a plain file")
        self.assertFalse(os.path.exists(mark))

    def test_a_directory_swapped_for_a_link(self):
        future = self.done(1)
        os.rename(future._directory, future._directory + ".old")
        os.symlink(future._directory + ".old", future._directory)
        self.refused(future, "is no directory")
        os.remove(future._directory)
        self.refused(future, "has left no result")

    def test_a_result_of_somebody_else(self):
        future = self.done(1)
        result = os.path.join(future._directory, "result.0.0")
        fstat = os.fstat

        def of_another(fd):
            found = fstat(fd)
            if stat.S_ISREG(found.st_mode):
                found = os.stat_result(found[:4] + (54321,) + found[5:])
            return found
        with mock.patch("os.fstat", of_another):
            with self.assertRaisesRegex(mgpu.NoResult, "belongs to uid 54321"):
                mgpu._read_result(future._directory, 0)
        with mock.patch("os.geteuid", lambda: 54321):
            with self.assertRaisesRegex(mgpu.NoResult, "belongs to uid"):
                mgpu._read_result(future._directory, 0)
        if os.geteuid() == 0:
            evil, mark = self.evil()
            shutil.copy(evil, result)
            os.chown(result, 65534, 65534)
            self.refused(future, "belongs to uid 65534, not to you")
            os.chown(result, 0, 0)
            os.chown(future._directory, 65534, 65534)
            self.refused(future, "belongs to uid 65534, not to you")
            self.assertFalse(os.path.exists(mark))

    def test_a_result_that_others_may_write(self):
        future = self.done(1)
        result = os.path.join(future._directory, "result.0.0")
        for path, mode in ((result, 0o620), (result, 0o602),
                           (future._directory, 0o770),
                           (future._directory, 0o707)):
            before = os.stat(path).st_mode
            os.chmod(path, mode)
            self.refused(future, "others may write to " + path)
            os.chmod(path, before)
        self.assertEqual(mgpu.future(future.job.id).result(), 2)

    def test_a_damaged_or_missing_result(self):
        future = self.done(1)
        result = os.path.join(future._directory, "result.0.0")
        with open(result, "wb") as out:
            out.write(b"\x80nonsense")
        self.refused(future, "is damaged")
        os.remove(result)
        self.refused(future, "has left no result")

    def test_a_call_that_others_may_write(self):
        future = mgpu.submit_function(calls.add, 1, hold=True)
        os.chmod(os.path.join(future._directory, "call"), 0o666)
        future.job.release()
        error = future.exception()
        self.assertIsInstance(error, mgpu.RemoteError)
        self.assertIn("others may write to", error.message)

    def test_a_daemon_that_is_away(self):
        future = mgpu.submit_function(calls.wait, "go")
        daemon.until(future.running)
        self.daemon.stop()
        with mock.patch.object(mgpu, "PATIENCE_S", 0):
            error = future.exception()
        self.assertIsInstance(error, mgpu.Unavailable)
        with self.assertRaises(mgpu.Unavailable):
            mgpu.submit_function(calls.add, 1)
        self.daemon.start()
        again = mgpu.future(future.job.id)
        with open("go", "w", encoding="utf-8"):
            pass
        self.assertEqual(again.result(), "waited")

    def test_a_call_over_a_restart(self):
        future = mgpu.submit_function(calls.wait, "then")
        daemon.until(future.running)
        self.daemon.stop()
        with open("then", "w", encoding="utf-8"):
            pass
        self.daemon.start()
        self.assertEqual(future.result(), "waited")


if __name__ == "__main__":
    unittest.main()
