"""probe.py - what a card reaches at the shapes of Llama 3 8B, by PyTorch's
products and attention, without our kernels: block 2 of first-contact.

A line per probe: name, ms, and in the last column TFLOP/s or TB/s. A probe that
fails says why, and the others go on.
"""

import time

import torch
import torch.nn.functional as F

BF16 = torch.bfloat16
LINEARS = {"qkv": (6144, 4096), "o": (4096, 4096), "gate_up": (28672, 4096)}
LINEARS["down"] = (4096, 14336)


def median_s(run, n=20):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(n):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return sorted(times)[n // 2]


def probe(name, make):
    try:
        run, amount, unit = make()
        s = median_s(run)
        print(f"{name}\t{s * 1e3:.3f}\t{amount / s / 1e12:.2f}\t{unit}", flush=True)
    except Exception as e:  # of memory, of a version
        print(f"{name}\t- {str(e).splitlines()[0][:90]}", flush=True)
    torch.cuda.empty_cache()


def values(*shape):
    return torch.randn(*shape, device="cuda").mul_(0.1).to(BF16)


def copy():
    x = torch.empty(2 << 30, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    return lambda: y.copy_(x), 2.0 * x.numel(), "TB/s"


def product(m, n, k, a_is_turned=False, b_is_turned=True):
    def make():
        a = values(k, m).t() if a_is_turned else values(m, k)
        b = values(n, k).t() if b_is_turned else values(k, n)
        out = torch.empty(m, n, device="cuda", dtype=BF16)
        return lambda: torch.mm(a, b, out=out), 2.0 * m * n * k, "TFLOP/s"

    return make


def attention(backward):
    def make():
        q = values(8, 32, 2048, 128).requires_grad_()
        k, v = (values(8, 8, 2048, 128).requires_grad_() for _ in range(2))
        flop = 4.0 * 8 * 32 * 2048 * 2048 * 128 / 2

        def forward():
            return F.scaled_dot_product_attention(
                q, k, v, is_causal=True, enable_gqa=True
            )

        if not backward:
            return forward, flop, "TFLOP/s"
        out = forward()
        grad = torch.randn_like(out)
        return (
            lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True),
            2.5 * flop,
            "TFLOP/s",
        )

    return make


def sustained(seconds):
    a, b = values(16384, 4096), values(28672, 4096).t()
    out = torch.empty(16384, 28672, device="cuda", dtype=BF16)
    began, n = time.time(), 0
    while time.time() - began < seconds:
        for _ in range(20):
            torch.mm(a, b, out=out)
        torch.cuda.synchronize()
        n += 20
    s = (time.time() - began) / n
    rate = 2.0 * 16384 * 28672 * 4096 / s / 1e12
    print(f"sustained 16384x28672x4096\t{s * 1e3:.3f}\t{rate:.2f}\tTFLOP/s", flush=True)


print("#", torch.__version__, torch.version.cuda, torch.cuda.get_device_name())
probe("copy", copy)
for name, (n, k) in LINEARS.items():
    probe(f"{name} 16384x{n}x{k}", product(16384, n, k))
    probe(f"{name} 16384x{k}x{n}", product(16384, k, n, b_is_turned=False))
for rows in 1024, 1046, 2048:
    probe(f"head {rows}x128256x4096", product(rows, 128256, 4096))
    probe(f"head {rows}x4096x128256", product(rows, 4096, 128256, b_is_turned=False))
probe("adapter 16384x48x4096", product(16384, 48, 4096))
probe("adapter 28672x16x16384", product(28672, 16, 16384, True, False))
probe("attention, forward", attention(False))
probe("attention, backward", attention(True))
sustained(5)
