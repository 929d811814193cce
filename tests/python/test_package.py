"""test_package.py - the wheel, the installed file, and docs/python.md."""

import csv
import hashlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import daemon
import mgpu

sys.path.insert(0, daemon.PYTHON_DIR)
import wheel  # noqa: E402


class Wheel(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.dir = made.name
        self.path = wheel.write(self.dir)

    def test_its_record_and_metadata(self):
        with zipfile.ZipFile(self.path) as file:
            files = {n: file.read(n) for n in file.namelist()}
        info = "mgpu-%s.dist-info/" % mgpu.__version__
        self.assertEqual(os.path.basename(self.path),
                         "mgpu-%s-py3-none-any.whl" % mgpu.__version__)
        record = {row[0]: row[1:] for row in csv.reader(
            io.StringIO(files[info + "RECORD"].decode()))}
        self.assertEqual(set(record), set(files))
        self.assertEqual(record.pop(info + "RECORD"), ["", ""])
        for name, (digest, size) in record.items():
            self.assertEqual(int(size), len(files[name]))
            self.assertEqual(digest, wheel.digest(files[name]))
        head = files[info + "METADATA"].decode().split("\n\n")[0]
        self.assertIn("\nName: mgpu\nVersion: %s\n" % mgpu.__version__, head)
        self.assertIn("\nRequires-Python: >=3.9\n", head)
        with open(mgpu.__file__, "rb") as file:
            self.assertEqual(files["mgpu.py"], file.read())

    def test_it_is_the_same_each_time(self):
        with open(self.path, "rb") as one:
            first = hashlib.sha256(one.read()).hexdigest()
        with open(wheel.write(self.dir), "rb") as two:
            self.assertEqual(hashlib.sha256(two.read()).hexdigest(), first)

    def test_pip_installs_it(self):
        if not importlib.util.find_spec("pip"):
            self.skipTest("no pip")
        root = os.path.join(self.dir, "root")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--no-index", "--quiet",
             "--disable-pip-version-check", "--root-user-action=ignore",
             "--target", root, self.path],
            capture_output=True, encoding="utf-8", check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = subprocess.run(
            [sys.executable, "-c", "import mgpu; print(mgpu.__file__)"],
            cwd="/", env=dict(os.environ, PYTHONPATH=root),
            capture_output=True, encoding="utf-8", check=True)
        self.assertEqual(said.stdout.strip(), os.path.join(root, "mgpu.py"))

    def test_its_version_is_that_of_the_tree(self):
        with open(os.path.join(daemon.SRC, "jobs/base/version.h"),
                  encoding="utf-8") as file:
            self.assertIn('MGPU_VERSION "%s"' % mgpu.__version__, file.read())

    def test_the_words_of_all_errors(self):
        """Each code of the tools has a class or is a Failure."""
        with open(os.path.join(daemon.SRC, "jobs/base/error.h"),
                  encoding="utf-8") as file:
            codes = re.findall(r"^    X\((\w+), \d+\)", file.read(), re.M)
        self.assertGreater(len(codes), 10)
        for code in codes:
            error = mgpu._error(code, "words")
            self.assertEqual(error.code, code)
            self.assertIsInstance(error, mgpu.Error)
        self.assertFalse(set(mgpu._CLASSES) - set(codes))


class Docs(daemon.DaemonTest):
    """Each example of docs/python.md, in its order. A block whose first line
    is `# FILE.py` is that file; a block of sh is run; the others are one
    notebook, whose cells share their names. A comment `# prints X` is what is
    printed, in that order."""

    def test_the_examples(self):
        with open(os.path.join(daemon.SRC, "docs/python.md"),
                  encoding="utf-8") as file:
            text = file.read()
        blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
        cells, files = [], 0
        for kind, block in blocks:
            named = re.match(r"# (\w+\.(?:py|yaml))\n", block)
            if named:
                files += 1
                with open(named.group(1), "w", encoding="utf-8") as out:
                    out.write(block)
            elif kind == "python":
                cells.append(block)
            elif kind == "sh":
                cells.append("import subprocess\nsubprocess.run(%r, "
                             "shell=True, check=True)\n" % block)
            else:
                self.fail("what is %r?" % kind)
        self.assertGreater(len(cells), 8)
        self.assertGreater(files, 2)
        for name, body in (
                ("transformers", FAKE_TRANSFORMERS),
                ("pandas", "class DataFrame(dict):\n    pass\n")):
            with open(name + ".py", "w", encoding="utf-8") as out:
                out.write(body)
        os.symlink(mgpu.__file__, "mgpu.py")  # as if it were installed
        path = os.pathsep.join((daemon.BIN, os.path.dirname(sys.executable),
                                os.environ["PATH"]))
        said = self.script("\n".join(cells), PATH=path, PYTHONPATH=self.work)
        expected = re.findall(r"# prints (.*)", "".join(cells))
        self.assertGreater(len(expected), 8)
        lines = [line for line in said.splitlines()
                 if not line.startswith(("job ", "submitted "))]
        self.assertEqual(lines, expected)


FAKE_TRANSFORMERS = """
class TrainerCallback:
    pass

class State:
    is_world_process_zero = True
    max_steps = 2
    num_train_epochs = 1
    global_step = 0

class Trainer:
    def __init__(self, callbacks):
        self.callbacks = callbacks

    def to_dict(self):
        return {}

    def train(self):
        state = State()
        for c in self.callbacks:
            c.on_train_begin(self, state, None)
            for state.global_step in (1, 2):
                c.on_log(self, state, None, logs={"loss": 1.0, "epoch": 0.5})
            c.on_train_end(self, state, None)
"""

if __name__ == "__main__":
    unittest.main()
