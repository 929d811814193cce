#!/usr/bin/python3
"""Write tests/golden/data.txt: shuffles, resizing and optimizer steps.

usage: data.py MNIST_DIR > data.txt      (PyTorch 1.13, torchvision 0.14)

A line is "name: value value ...".
"""
import gzip
import sys

import numpy as np
import torch
import torchvision.transforms.functional as F
from torch.utils.data.distributed import DistributedSampler


def put(name, values):
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    print(name + ":" + "".join(" %.17g" % v for v in flat))


def randperm():
    for n, seed in ((1, 0), (2, 1), (10, 0), (10, 42), (100, 2**32 + 7)):
        g = torch.Generator()
        g.manual_seed(seed)
        put("randperm %d %d" % (n, seed), torch.randperm(n, generator=g))


def sampler():
    for n, size in ((10, 1), (10, 2), (10, 3), (11, 3), (2, 5), (13, 4)):
        for seed, epoch, shuffle in ((0, 0, 1), (42, 3, 1), (7, 1, 0)):
            for rank in range(size):
                s = DistributedSampler(range(n), size, rank, bool(shuffle),
                                       seed)
                s.set_epoch(epoch)
                put("sampler %d %d %d %d %d %d"
                    % (n, size, rank, seed, epoch, shuffle), list(s))


def digest(values):
    v = [int(x) for x in values]
    return [len(v), v[0], v[1], v[2], v[-1], sum(v),
            sum(x * (i % 1009 + 1) for i, x in enumerate(v))]


def digests():
    for n, seed in ((1000, 3), (60000, 0), (60000, 1234567)):
        g = torch.Generator()
        g.manual_seed(seed)
        put("randperm digest %d %d" % (n, seed),
            digest(torch.randperm(n, generator=g)))
    for n in (100, 257):
        for size in (1, 2, 4, 7):
            for shuffle in (0, 1):
                for drop in (0, 1):
                    s = DistributedSampler(range(n), size, size - 1,
                                           bool(shuffle), 11, bool(drop))
                    for epoch in (0, 1, 5):
                        s.set_epoch(epoch)
                        put("epochs %d %d %d 11 %d %d %d"
                            % (n, size, size - 1, epoch, shuffle, drop),
                            digest(s))


def resize(path):
    """The first training digit; sums with weights that see a swap."""
    raw = gzip.open(path + "/train-images-idx3-ubyte.gz").read()
    digit = np.frombuffer(raw[16:16 + 784], np.uint8).reshape(1, 28, 28)
    digit = torch.from_numpy(digit.astype(np.float64))
    for size in (28, 32, 100, 224):
        y = F.resize(digit, [size, size], antialias=False).numpy()[0]
        y = (y / 255 - 0.1307) / 0.3081
        i, j = np.indices(y.shape)
        put("resize %d" % size,
            [y.sum(), (y * y).sum(), (y * (i % 13)).sum(),
             (y * (j % 11)).sum()])
        put("resize %d row" % size, y[size // 2, ::size // 28])


def optim():
    start = [0.5, -1.25, 3.0, 0.0, -0.001]
    for name, make in (
            ("sgd", lambda p: torch.optim.SGD(
                p, lr=0.1, momentum=0.9, weight_decay=0.01)),
            ("nesterov", lambda p: torch.optim.SGD(
                p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)),
            ("adamw", lambda p: torch.optim.AdamW(
                p, lr=0.1, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1))):
        p = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        opt = make([p])
        for step in range(4):
            p.grad = torch.tensor([np.sin(3.0 * step + i) for i in range(5)],
                                  dtype=torch.float64)
            opt.step()
            put("optim %s %d" % (name, step), p.detach().numpy())


def main():
    randperm()
    sampler()
    digests()
    resize(sys.argv[1])
    optim()


main()
