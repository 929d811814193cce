#!/usr/bin/python3
"""Write tests/golden/qlora.txt: NF4 as torchao makes it, and QLoRA's losses.

usage: qlora.py TREE       (torchao 0.9.0, PyTorch, transformers 4.57, peft 0.17)

Tensors: the shapes of SHAPES, in fp32 and bf16. Value i is drawn from NumPy's
RandomState(shape's number).random_sample(), which is jobs/base/rng.h's
rng_uniform(), four of them per value: draw() below. It has 12 bits, so that
a sum of scalers is exact in any order: the order in which PyTorch adds fp32
depends on the processor.

nf4 RxC TYPE    FNV-1a of the bytes of the codes, of the int8 scalers, of the
                factors, of the dequantised tensor: two halves each, the high
                one first; and the mean of the scalers

Models: tests/data/llama-tied and llama-untied with the adapters in them, in
fp64. All seven linears of a layer are what NF4 in fp32 leaves of them; their
tensors have fewer values than torchao takes, so nf4() below does the same,
and is compared with torchao above. QUANTIZER is nf4 or nf4_single.

MODEL SET QUANTIZER loss    as in llama.txt: sum over batch 0, and its mean
MODEL SET QUANTIZER curve1  20 losses, as in llama.txt
MODEL SET QUANTIZER grad    sum and sum of squares of the gradient of each
                            tensor of the adapters, in the order of names
"""
import os
import sys

import numpy as np
import torch
from torchao.dtypes.nf4tensor import NF4Tensor

SHAPES = [(64, 256), (128, 128), (16, 1024), (192, 256), (96, 512), (1024, 48)]
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
BOOK = [-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0,
        0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0]
BLOCK, GROUP = 64, 256


def draw(number, shape):
    """About normal; blocks differ in scale; multiples of 2^-15."""
    n = shape[0] * shape[1]
    u = np.random.RandomState(number).random_sample(4 * n).reshape(n, 4)
    scale = 1 + np.arange(n) // BLOCK % 7
    v = (u.sum(axis=1) - 2) * scale / 64
    return torch.from_numpy(np.rint(v * 32768) / 32768).reshape(shape)


def nf4(w, double=True):
    """codes, scalers, factors, mean, and what they stand for."""
    book = torch.tensor(BOOK, dtype=w.dtype)
    blocks = w.flatten().view(-1, BLOCK)
    absmax = blocks.abs().amax(1)
    codes = (blocks / absmax[:, None])[..., None].sub(book).abs().argmin(-1)
    scalers = factors = mean = None
    scale = absmax
    if double:
        # Rounded once, and divided: the order of a sum in fp32 is PyTorch's.
        mean = (absmax.double().sum().float() / len(absmax)).to(w.dtype)
        off = absmax - mean
        parts = off.split(GROUP)
        factors = torch.stack([256 / (2 * p.abs().max()) for p in parts])
        scalers = torch.cat([(p * f).round().clamp(-128, 127).to(torch.int8)
                             for p, f in zip(parts, factors)])
        scale = torch.cat([p / f for p, f in zip(scalers.split(GROUP),
                                                 factors)]).to(w.dtype) + mean
    flat = codes.flatten().to(torch.uint8)
    return (flat[::2] << 4 | flat[1::2], scalers, factors, mean,
            (book[codes] * scale[:, None]).reshape(w.shape))


def fnv(t):
    h = 14695981039346656037
    flat = torch.empty(t.numel(), dtype=t.dtype).copy_(t.flatten())
    for b in flat.view(torch.uint8).numpy().tobytes():
        h = (h ^ b) * 1099511628211 % 2 ** 64
    return [h >> 32, h & 0xffffffff]


def line(name, values):
    print(name + ":", *("%.17g" % v for v in values))


def tensors():
    for number, shape in enumerate(SHAPES):
        for name, dtype in TYPES.items():
            w = draw(number, shape).float().to(dtype)
            q = NF4Tensor.from_tensor(w, BLOCK, GROUP)
            got = (q.quantized_data, q.quantized_scalers,
                   q.quantization_factor, q.scaler_mean,
                   q.get_original_weight())
            for ours, theirs in zip(nf4(w), got):
                if not torch.equal(ours, theirs):
                    sys.exit("nf4() is not torchao's: %s %s" % (shape, name))
            line("nf4 %dx%d %s" % (*shape, name),
                 fnv(got[0]) + fnv(got[1]) + fnv(got[2]) + fnv(got[4]) +
                 [float(got[3])])


def quantise(model, double):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".layers." in name and "_proj.weight" in name:
                p.copy_(nf4(p.float(), double)[-1].double())


def models(tree, llama):
    double = llama["llama_double"]
    for name in ("tied", "untied"):
        path = os.path.join(tree, "tests/data/llama-" + name)
        draw_ = np.random.RandomState(3)
        vocab = double.load(path).config.vocab_size
        batches = [llama["draw_batch"](vocab, draw_) for _ in range(4)]
        for adapter, kind in (("adapter", "nf4"), ("adapter-some", "nf4"),
                              ("adapter-output", "nf4"),
                              ("adapter", "nf4_single")):
            base = double.load(path)
            quantise(base, kind == "nf4")
            m = double.load_adapter(base, path + "/" + adapter)
            for n, p in m.named_parameters():
                p.requires_grad_("lora_" in n)
            what = "%s %s %s" % (name, adapter, kind)
            nll, n, _ = llama["loss_of"](m, batches[0])
            line(what + " loss", [nll.item(), nll.item() / n])
            m.zero_grad()
            (nll / n).backward()
            line(what + " grad",
                 [v for _, p in sorted(llama["trained"](m))
                  for v in (p.grad.sum().item(), (p.grad ** 2).sum().item())])
            with torch.no_grad():
                for n, p in llama["trained"](m):
                    p.mul_("lora_A" in n)
            line(what + " curve1", llama["curve"](m, batches, 1))


def main():
    tree, = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    # The functions of llama.py; what it writes is not written again.
    text = open(os.path.join(here, "llama.py"), encoding="utf-8").read()
    llama = {"__name__": "llama"}
    exec(compile(text.removesuffix("main()\n"), "llama.py", "exec"), llama)
    with open(os.path.join(tree, "tests/golden/qlora.txt"), "w",
              encoding="utf-8") as sys.stdout:
        tensors()
        models(tree, llama)


main()
