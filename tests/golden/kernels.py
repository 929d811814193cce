#!/usr/bin/python3
"""Write tests/golden/kernels.txt: PyTorch's own operators, and back.

usage: kernels.py > kernels.txt      (PyTorch 1.13)

A block is what the fused kernels make together: a 1x1 convolution, batch
norm, ReLU6, a depthwise 3x3 convolution, batch norm and a sum with a skip;
then the gradients of sum(y * g) by autograd. A loss is cross-entropy over
rows, some of them without a label, with smoothed labels or not.

Everything is drawn from NumPy's RandomState(seed).random_sample(), which is
jobs/base/rng.h's rng_uniform(), in the order of draw() below and in our
layouts; tests/unit/kernels/golden.c draws the same.

A line is "name TYPE what: value value ...", of a tensor each EACH-th value.
fp64 is exact. For fp16 and bf16 the inputs and all tensors between two
operators, forwards and backwards, are rounded to the type, and the
arithmetic is in float: what such a type costs at the least.
"""
import numpy as np
import torch
import torch.nn.functional as F

EACH = 7
N, H, W, K, M = 3, 6, 5, 5, 8
ROWS, CLASSES = 9, 11
TYPES = {"fp64": None, "fp16": torch.float16, "bf16": torch.bfloat16}


class Cut(torch.autograd.Function):
    """To the type and back, in both directions."""

    @staticmethod
    def forward(ctx, x, dtype):
        ctx.dtype = dtype
        return x.to(dtype).float()

    @staticmethod
    def backward(ctx, g):
        return g.to(ctx.dtype).float(), None


def cut_to(dtype):
    return (lambda t: t) if dtype is None else (lambda t: Cut.apply(t, dtype))


def leaf(values, dtype):
    t = torch.from_numpy(values)
    return (t if dtype is None else t.to(dtype).float()).requires_grad_()


def put(name, values):
    flat = values.detach().double().numpy().reshape(-1)[::EACH]
    print(name + ":" + "".join(" %.12g" % v for v in flat))


def block(name, stride, dtype, seed):
    rs = np.random.RandomState(seed)
    oh, ow = (H - 1) // stride + 1, (W - 1) // stride + 1
    draw = lambda shape, lo, hi: leaf(
        lo + (hi - lo) * rs.random_sample(shape), dtype)
    x = draw((N, H, W, K), -2, 2)
    w1, g1, b1 = draw((M, K), -1, 1), draw(M, 0.5, 2), draw(M, -1, 1)
    w2, g2, b2 = draw((3, 3, M), -1, 1), draw(M, 0.5, 2), draw(M, -1, 1)
    skip, g = draw((N, oh, ow, M), -1, 1), draw((N, oh, ow, M), -1, 1)
    nchw = lambda t: t.permute(0, 3, 1, 2)
    nhwc = lambda t: t.permute(0, 2, 3, 1)
    cut = cut_to(dtype)
    running = [torch.zeros(M).to(x.dtype), torch.ones(M).to(x.dtype),
               torch.zeros(M).to(x.dtype), torch.ones(M).to(x.dtype)]
    z1 = cut(F.conv2d(nchw(x), w1[:, :, None, None]))
    u = cut(F.batch_norm(z1, running[0], running[1], g1, b1, True).clamp(0, 6))
    z2 = cut(F.conv2d(u, w2.permute(2, 0, 1)[:, None], None, stride, 1,
                      groups=M))
    y = cut(F.batch_norm(z2, running[2], running[3], g2, b2, True)
            + nchw(skip))
    (y * nchw(g)).sum().backward()
    put(name + " y", nhwc(y))
    put(name + " running", torch.cat(running))
    for word, t in (("dx", x), ("dw1", w1), ("dgamma1", g1), ("dbeta1", b1),
                    ("dw2", w2), ("dgamma2", g2), ("dbeta2", b2)):
        put(name + " " + word, cut(t.grad))


def loss(name, smooth, dtype, seed):
    rs = np.random.RandomState(seed)
    z = leaf(8 * rs.random_sample((ROWS, CLASSES)) - 4, dtype)
    label = torch.tensor([-1 if r % 4 == 3 else r * 7 % CLASSES
                          for r in range(ROWS)])
    each = F.cross_entropy(z, label, ignore_index=-1, label_smoothing=smooth,
                           reduction="none")
    (each.sum() * 0.5).backward()
    put(name + " loss", each)
    put(name + " dz", cut_to(dtype)(z.grad))


def main():
    torch.set_num_threads(1)
    for word, dtype in TYPES.items():
        for stride in (1, 2):
            block("block%d %s" % (stride, word), stride, dtype, 10 + stride)
        for i, smooth in enumerate((0, 0.1)):
            loss("loss%d %s" % (i, word), smooth, dtype, 20 + i)


main()
