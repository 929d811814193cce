"""calls.py - functions that tests send to jobs by their names."""

import os
import sys
import time


def add(a, b=1):
    print("adding")
    return a + b


def fail(name):
    raise FileNotFoundError(2, "no such data", name)


class Odd(Exception):
    """Cannot be rebuilt from its args."""

    def __init__(self, one, two):
        Exception.__init__(self, one)


def fail_oddly():
    raise Odd("oddly", 2)


def leave():
    sys.exit(7)


def stream():
    return (i for i in range(3))


def die():
    os._exit(9)


def wait(path):
    """Until the file is there."""
    while not os.path.exists(path):
        time.sleep(0.05)
    return "waited"


def rank():
    return int(os.environ["MGPU_RANK"])


def fail_beyond_rank_0():
    if rank() > 0:
        raise ValueError("rank %d" % rank())
    return 0


def variable(name):
    return os.environ.get(name), os.getcwd()
