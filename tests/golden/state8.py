#!/usr/bin/python3
"""Write tests/golden/state8.txt: bitsandbytes' maps of eight bits, and its codes
of 10,000 values for each.

usage: state8.py > state8.txt      (bitsandbytes 0.50.2, PyTorch 2.x, CPU)

The values are v = 2u - 1 of NumPy's RandomState(seed).random_sample(), which is
jobs/base/rng.h's rng_uniform(): v^3 in float for the signed map, v^6 for the
other, so that they spread over several powers of ten. Blocks have 256 values,
the last one 16. A code is that of the nearest entry, as bitsandbytes' portable
kernel finds it; the one for CPUs takes a table of less resolution. A line is "map NAME: 256 values" or "codes NAME PART: 2,500 codes";
tests/unit/worker/train/optimizer_state8.c makes the same.
"""
import sys

sys.path.pop(0)  # kernels.py here is not the package that bitsandbytes asks for

import numpy as np
import torch
import bitsandbytes.functional as bnb

N, BLOCK, SEED, PARTS = 10000, 256, 8, 4


def main():
    for name, signed in (("signed", True), ("unsigned", False)):
        table = bnb.create_dynamic_map(signed=signed)
        u = np.random.RandomState(SEED).random_sample(N)
        v = (2 * u - 1) ** 3
        x = torch.from_numpy((v if signed else v * v).astype(np.float32))
        pad = torch.nn.functional.pad(x, (0, -N % BLOCK)).reshape(-1, BLOCK)
        most = pad.abs().max(dim=1, keepdim=True)[0]
        scaled = (pad * (1.0 / most)).reshape(-1)[:N]
        codes = torch.bucketize(scaled, (table[:-1] + table[1:]) / 2)
        print("map %s: %s" % (name, " ".join("%.9g" % t for t in table.tolist())))
        for i in range(PARTS):
            part = codes.tolist()[i * N // PARTS:(i + 1) * N // PARTS]
            print("codes %s %d: %s" % (name, i, " ".join(map(str, part))))


main()
