#!/usr/bin/python3
"""Cut tests/data/mnist/ out of the full MNIST files.

usage: make_mnist_subset.py FULL_DIR OUT_DIR

Writes the first 10,000 training and the first 2,000 test samples as proper
IDX files under the usual names. The output is the same bytes on every run
(gzip -9 without a name or a time; for a given zlib).
"""
import gzip
import io
import os
import struct
import sys

PARTS = {"train": 10000, "t10k": 2000}
FILES = {"images-idx3-ubyte": 3, "labels-idx1-ubyte": 1}


def read(path):
    for name in (path, path + ".gz"):
        if os.path.exists(name):
            opener = gzip.open if name.endswith(".gz") else open
            with opener(name, "rb") as f:
                return f.read()
    sys.exit(path + ": no such file")


def cut(raw, dims, n):
    shape = struct.unpack(">%dI" % dims, raw[4:4 + 4 * dims])
    if raw[:4] != bytes((0, 0, 8, dims)) or shape[0] < n:
        sys.exit("not an IDX file with %d dimensions and %d items" % (dims, n))
    item = 1
    for d in shape[1:]:
        item *= d
    start = 4 + 4 * dims
    return (raw[:4] + struct.pack(">%dI" % dims, n, *shape[1:])
            + raw[start:start + n * item])


def main():
    full, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    for part, n in PARTS.items():
        for what, dims in FILES.items():
            name = "%s-%s" % (part, what)
            body = io.BytesIO()
            with gzip.GzipFile("", "wb", 9, body, 0) as f:
                f.write(cut(read(os.path.join(full, name)), dims, n))
            with open(os.path.join(out, name + ".gz"), "wb") as f:
                f.write(body.getvalue())


main()
