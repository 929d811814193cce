"""test_tracking.py - `import mgpu as wandb`, transformers and Lightning."""

import json
import os
import subprocess
import sys
import unittest

import daemon
import mgpu

TRAIN = '''
import mgpu as wandb

class Tensor:  # as torch has it
    def __init__(self, x):
        self.x = x
    def item(self):
        return self.x
Tensor.__module__ = "torch"

wandb.login(key="x")
run = wandb.init(project="p", name="n", config={"lr": 0.1, "z": 1},
                 entity="us", tags=["a"])
wandb.config.epochs = 3
wandb.config.update({"z": 2}, allow_val_change=True)
assert wandb.run is run and wandb.config.lr == 0.1 and run.config["z"] == 2
wandb.define_metric("loss", step_metric="epoch")
wandb.define_metric("acc")
wandb.watch(object())
for i in range(3):
    wandb.log({"loss": 3 - i, "acc": Tensor(i / 4), "ok": i == 1,
               "deep": {"er": i}, "img": wandb.Image([[0]], caption="c"),
               "text": "x", "no": None})
table = wandb.Table(columns=["a"])
table.add_data(1)
wandb.log({"table": table}, commit=False)
run.log({"a": 1}, commit=False)
run.log({"b": 2}, commit=False)
run.log({"c": 3})                 # one row, of step 3
run.log({"d": 4, "epoch": 1.75, "rank": 9}, step=7)
run.log({"e": 5}, step=7)         # one row, of step 7
run.log({"f": 6}, step=8)
run.log({"g": 7}, step=7)         # too late
run.log({"inf": float("inf")}, step=9)
wandb.alert("title", "words")
wandb.summary["best"] = 0.9
run.summary.note = "not a number"
'''


class Tracking(daemon.DaemonTest):
    def job(self, text, *, sets=None, **env):
        """A job of a Python program that has ended well."""
        path = os.path.join(self.work, "train.py")
        with open(path, "w", encoding="utf-8") as out:
            out.write("import sys\nsys.path.insert(0, %r)\n"
                      % daemon.PYTHON_DIR + text)
        job = mgpu.submit({"version": 1, "kind": "command", "env": env,
                           "command": [sys.executable, path]}, **(sets or {}))
        self.assertEqual(job.wait(), "COMPLETED", job.logs())
        return job

    def test_a_run(self):
        job = self.job(TRAIN)
        got = job.metrics()
        self.assertEqual(got["iteration"], [0, 1, 2, 3, 7, 8, 9])

        def at(name):
            return {i: v for i, v in zip(got["iteration"], got[name])
                    if v is not None}
        self.assertEqual(at("loss"), {0: 3, 1: 2, 2: 1})
        self.assertEqual(at("acc"), {0: 0, 1: 0.25, 2: 0.5})
        self.assertEqual(at("ok"), {0: 0, 1: 1, 2: 0})
        self.assertEqual(at("deep.er"), {0: 0, 1: 1, 2: 2})
        self.assertEqual([at(n) for n in "abc"], [{3: 1}, {3: 2}, {3: 3}])
        self.assertEqual([at(n) for n in ("d", "epoch", "_rank", "e", "f")],
                         [{7: 4}, {7: 1}, {7: 9}, {7: 5}, {8: 6}])
        self.assertEqual(at("inf"), {9: float("inf")})
        self.assertFalse({"g", "img", "text", "no", "step"} & set(got))
        values = job.rows("values")
        self.assertIn(("best", None, 0.9), list(zip(
            values["name"], values["iteration"], values["value"])))
        with open(os.path.join(job.info["dir"], "out/config.json"),
                  encoding="utf-8") as config:
            self.assertEqual(json.load(config),
                             {"lr": 0.1, "z": 2, "epochs": 3})
        said = job.logs().splitlines()
        self.assertEqual(said, [
            "mgpu: login() does nothing: there is no account",
            "mgpu: init() ignores entity, tags",
            "mgpu: define_metric() does nothing: charts are by step",
            "mgpu: watch() does nothing: log the norms that you want",
            "mgpu: 'img' is of type Image, which is not kept: only numbers "
            "are",
            "mgpu: 'text' is of type str, which is not kept: only numbers "
            "are",
            "mgpu: 'table' is of type Table, which is not kept: only numbers "
            "are",
            "mgpu: a step before the last is not recorded",
            "mgpu: alert: title: words",
            "mgpu: 'note' is of type str, which is not kept: only numbers "
            "are"])

    def test_each_rank_has_its_own(self):
        job = self.job("import mgpu, os\nwith mgpu.init() as run:\n"
                       "    run.log({'r': int(os.environ['MGPU_RANK'])})\n",
                       sets={"gpus": 2})
        self.assertEqual(job.metrics(rank=0)["r"], [0])
        self.assertEqual(job.metrics(rank=1)["r"], [1])

    def test_totals(self):
        job = self.job("import mgpu\nrun = mgpu.init()\n"
                       "run.totals(iterations=10, epochs=2)\n"
                       "run.log({'loss': 1}, step=10)\n")
        self.assertEqual((job.info["iterations_total"],
                          job.info["epochs_total"]), (10, 2))

    def test_a_config_of_argparse(self):
        job = self.job('''
import argparse
import mgpu
run = mgpu.init(config=argparse.Namespace(lr=0.1, depth=2))
run.config.update(argparse.Namespace(depth=3), allow_val_change=True)
run.config[(1, 2)] = {(3, 4): [{(5, 6): "x"}]}
''')
        with open(os.path.join(job.info["dir"], "out/config.json"),
                  encoding="utf-8") as config:
            self.assertEqual(json.load(config), {
                "lr": 0.1, "depth": 3,
                "(1, 2)": {"(3, 4)": [{"(5, 6)": "x"}]}})

    def test_a_row_of_many_values(self):
        job = self.job('''
import mgpu
run = mgpu.init()
run.log(dict({"v%d" % i: i for i in range(150)}, loss=0.5, lr=0.1, epoch=1,
             profile=7, iterations_total=8, epochs_total=9))
run.summary.update({"s%d" % i: i for i in range(70)})
''')
        got = job.metrics()
        self.assertEqual(got["iteration"], [0])
        for i in range(150):
            self.assertEqual(got["v%d" % i], [i])
        self.assertEqual([got[n] for n in (
            "loss", "lr", "epoch", "_profile", "_iterations_total",
            "_epochs_total")], [[0.5], [0.1], [1], [7], [8], [9]])
        self.assertEqual(len(job.rows("iterations")["loss"]), 1)
        self.assertIsNone(job.info["iterations_total"])
        ends = dict(zip(*[job.rows("values")[n] for n in ("name", "value")]))
        self.assertEqual([ends.get("s%d" % i) for i in range(70)],
                         list(range(70)))

    def test_a_child_does_not_write_again(self):
        job = self.job('''
import mgpu, os
run = mgpu.init(config={"of": "parent"})
run.summary.best = 1
run.log({"a": 1}, step=5)
child = os.fork()
if child == 0:
    run.log({"b": 2}, step=5)
    run.config["of"] = "child"
    sys.exit(0)
os.waitpid(child, 0)
assert not os.path.exists(os.path.join(run.dir, "config.json"))
''')
        values = job.rows("values")
        self.assertEqual(sorted(zip(values["name"], values["value"])), [
            ("a", 1), ("b", 2), ("best", 1)])

    def test_killed_in_the_middle(self):
        job = mgpu.submit({"version": 1, "kind": "command", "command": [
            sys.executable, "-c", "import sys, os, signal\n"
            "sys.path.insert(0, %r)\nimport mgpu\nmgpu.init()\n"
            "mgpu.log({'a': 1})\nos._exit(3)" % daemon.PYTHON_DIR]})
        self.assertEqual(job.wait(), "FAILED")
        self.assertEqual(job.metrics()["a"], [1])

    def fake(self, **modules):
        """Modules that a test has in place of what is not installed."""
        at = os.path.join(self.work, "fake")
        for name, text in modules.items():
            path = os.path.join(at, *name.split("__")) + ".py"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        return at

    def test_the_callback_of_transformers(self):
        at = self.fake(transformers="class TrainerCallback:\n    pass\n")
        job = self.job('''
import types
import mgpu
callback = mgpu.trainer_callback()
args = types.SimpleNamespace(to_dict=lambda: {"learning_rate": 0.1})
state = types.SimpleNamespace(is_world_process_zero=True, max_steps=20,
                              num_train_epochs=2, global_step=0)
callback.on_train_begin(args, state, None)
for step in (10, 20):
    state.global_step = step
    callback.on_log(args, state, None, logs={
        "loss": 1 / step, "learning_rate": 0.1, "epoch": step / 10})
callback.on_train_end(args, state, None)
callback.on_log(args, state, None, logs={"eval_loss": 0.5, "epoch": 2.0})
mgpu.log({"own": 3}, step=21)
# Another training goes on where that one ended.
again = mgpu.trainer_callback()
state.global_step = 0
again.on_train_begin(args, state, None)
state.global_step = 10
again.on_log(args, state, None, logs={"loss": 0.01})
again.on_train_end(args, state, None)
other = mgpu.trainer_callback()
state.is_world_process_zero = False
state.global_step = 30
other.on_train_begin(args, state, None)
other.on_log(args, state, None, logs={"loss": 7})
''', PYTHONPATH=at)
        self.assertEqual(job.metrics(), {
            "iteration": [10, 20, 21, 30], "epoch": [1, 2, None, None],
            "eval_loss": [None, 0.5, None, None],
            "loss": [0.1, 0.05, None, 0.01], "lr": [0.1, 0.1, None, None],
            "own": [None, None, 3, None]})
        self.assertEqual(job.info["iterations_total"], 40)

    def test_the_logger_of_lightning(self):
        at = self.fake(
            lightning____init__="", lightning__pytorch____init__="",
            lightning__pytorch__loggers="class Logger:\n    pass\n")
        job = self.job('''
import mgpu
logger = mgpu.Logger(config={"a": 1})
logger.log_hyperparams({"b": 2})
logger.log_metrics({"train_loss": 0.5, "epoch": 0}, step=4)
logger.finalize("success")  # of fit(); test() follows
logger.log_metrics({"test_loss": 0.25}, step=4)
logger.finalize("success")
assert logger.name == "mgpu" and logger.experiment.config == {"a": 1, "b": 2}
''', PYTHONPATH=at)
        self.assertEqual(job.metrics(), {
            "iteration": [4], "epoch": [0], "test_loss": [0.25],
            "train_loss": [0.5]})

    def test_what_is_not_installed_says_so(self):
        text = ("import mgpu\nfor name in ('transformers', 'lightning', "
                "'pytorch_lightning'):\n    sys.modules[name] = None\n"
                "for ask in (mgpu.trainer_callback, lambda: mgpu.Logger):\n"
                "    try:\n        ask()\n    except ImportError as e:\n"
                "        print(e)\nprint(hasattr(mgpu, 'nonsense'))\n")
        said = self.script(text).splitlines()
        self.assertIn("transformers", said[0])
        self.assertIn("needs lightning", said[1])
        self.assertEqual(said[2], "False")

    def test_the_program_alone(self):
        done = subprocess.run(
            [sys.executable, mgpu.__file__], capture_output=True,
            encoding="utf-8", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("usage: mgpu.py run DIRECTORY", done.stderr)


if __name__ == "__main__":
    unittest.main()
