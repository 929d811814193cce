#!/usr/bin/python3
"""Write tests/golden/qat.txt: 8da4w as torchao rounds it, and QAT's losses.

usage: qat.py TREE       (torchao 0.9.0, PyTorch, transformers 4.57, peft 0.17)

Tensors: the shapes of SHAPES in fp32, fp16 and bf16. Value i is drawn as in
qlora.py, but rows differ in scale and sign, some are zero, and some are tiny.

int4 RxC/G TYPE   FNV-1a of the bytes that torchao's fake quantiser of weights
                  leaves, in groups of G: two halves, the high one first
int8 RxC TYPE     the same of that of activations
straight          of torchao's gradients of both, where they are not those of
                  the values themselves: 0

Models: tests/data/llama-tied and llama-untied, and "wide", whose weights are
drawn by wide() below: hidden 256, ffn 512. All in fp64. torchao does not take
fp64, and its gradients of activations are fp32; so a linear here computes with
torchao's values of the fp32 of its weights and inputs, and the gradient goes
straight through.

MODEL SET G loss    as in llama.txt: sum over batch 0, and its mean
MODEL SET G curve1  20 losses, as in llama.txt; of "wide" 10
MODEL SET G later   of SET full: 6 losses, the first 3 without rounding
MODEL SET G grad    sum and sum of squares of the gradient of each tensor that
                    is trained, in the order of names

SET is "full", all weights, or a directory of adapters beside a base that is
rounded. A linear is rounded if G divides its inputs; an output layer that is
the embedding is not.

wide batchI ids, lengths, labels  as in llama.txt
"""
import os
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import save_file
from torchao.quantization.qat.fake_quantizer import FakeQuantizer
from torchao.quantization.qat.linear import (_get_8da4w_activation_config,
                                             _get_8da4w_weight_config)

SHAPES = [(64, 256, 256), (48, 512, 256), (40, 96, 32), (33, 40, 8),
          (7, 172, 172), (16, 1024, 128)]
TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
WIDE = dict(hidden_size=256, intermediate_size=512, num_attention_heads=4,
            num_key_value_heads=2, head_dim=64, num_hidden_layers=1,
            vocab_size=64, tie_word_embeddings=False, rms_norm_eps=1e-5,
            max_position_embeddings=128, rope_theta=10000.0, bos_token_id=1,
            eos_token_id=2, architectures=["LlamaForCausalLM"])
SETS = [("tied", "full", 32), ("tied", "full", 16), ("untied", "full", 8),
        ("tied", "adapter", 32), ("untied", "adapter-output", 8),
        ("wide", "full", 256)]


def draw(number, rows, cols):
    """About normal; multiples of 2^-20."""
    n = rows * cols
    u = np.random.RandomState(number).random_sample(4 * n).reshape(n, 4)
    v = np.rint((u.sum(axis=1) - 2) * 32768) / 32768
    r = np.arange(n) // cols % 7
    v = np.select([r == 1, r == 2, r == 3, r == 4, r == 5],
                  [abs(v), -abs(v), 0 * v, v / 2 ** 24, v * 512], v / 8)
    return torch.from_numpy(v).reshape(rows, cols)


def weights(w, group):
    return FakeQuantizer(_get_8da4w_weight_config(group, torch.float32))(w)


def activations(x):
    return FakeQuantizer(_get_8da4w_activation_config(torch.float32))(x)


def fnv(t):
    h = 14695981039346656037
    for b in t.detach().contiguous().view(torch.uint8).numpy().tobytes():
        h = (h ^ b) * 1099511628211 % 2 ** 64
    return [h >> 32, h & 0xffffffff]


def line(name, values):
    print(name + ":", *("%.17g" % v for v in values))


def tensors():
    bent = 0
    for number, (rows, cols, group) in enumerate(SHAPES):
        for name, dtype in TYPES.items():
            x = draw(number, rows, cols).to(dtype).requires_grad_()
            for fake, what in ((lambda v: weights(v, group),
                                "int4 %dx%d/%d" % (rows, cols, group)),
                               (activations, "int8 %dx%d" % (rows, cols))):
                y = fake(x)
                line("%s %s" % (what, name), fnv(y))
                grad, = torch.autograd.grad(y, x, torch.ones_like(y))
                bent += int((grad != 1).sum())
    line("straight", [bent])


class Linear(torch.nn.Module):
    """y = x W^T with both rounded; the gradient sees neither."""

    def __init__(self, linear, group, switch):
        super().__init__()
        self.weight, self.group, self.switch = linear.weight, group, switch

    def forward(self, x):
        w = self.weight
        if self.switch["is_on"]:
            w = w + (weights(w.detach().float(), self.group).double() -
                     w).detach()
            x = x + (activations(x.detach().float()).double() - x).detach()
        return x @ w.T


def prepare(model, group, tied):
    """Returns the switch, and how many linears are rounded; those of an
    adapter's own stay."""
    switch, n = {"is_on": True}, 0
    for name, m in list(model.named_modules()):
        if not isinstance(m, torch.nn.Linear) or "lora_" in name or \
                m.in_features % group or (tied and "lm_head" in name):
            continue
        owner = model.get_submodule(name.rpartition(".")[0])
        setattr(owner, name.rpartition(".")[2], Linear(m, group, switch))
        n += 1
    return switch, n


def wide(path, config):
    """Weights that C draws, too: tensor k of the file's order from seed k."""
    config(**WIDE, dtype=torch.float64).save_pretrained(path)
    H, F, V = 256, 512, 64
    at = "model.layers.0."
    shapes = [("model.embed_tokens", (V, H)),
              (at + "input_layernorm", (H,)),
              (at + "self_attn.q_proj", (H, H)),
              (at + "self_attn.k_proj", (H // 2, H)),
              (at + "self_attn.v_proj", (H // 2, H)),
              (at + "self_attn.o_proj", (H, H)),
              (at + "post_attention_layernorm", (H,)),
              (at + "mlp.gate_proj", (F, H)), (at + "mlp.up_proj", (F, H)),
              (at + "mlp.down_proj", (H, F)), ("model.norm", (H,)),
              ("lm_head", (V, H))]
    tensors_ = {}
    for k, (name, shape) in enumerate(shapes):
        n = int(np.prod(shape))
        u = torch.from_numpy(np.random.RandomState(k).random_sample(n))
        v = 0.75 + u / 2 if len(shape) == 1 else (u - 0.5) * 2 / shape[1] ** .5
        tensors_[name + ".weight"] = v.reshape(shape)
    save_file(tensors_, path + "/model.safetensors", {"format": "pt"})


def models(tree, llama, tmp):
    double = llama["llama_double"]
    for name, kind, group in SETS:
        path = tmp if name == "wide" else os.path.join(
            tree, "tests/data/llama-" + name)
        draws = np.random.RandomState(3)
        vocab = double.load(path).config.vocab_size
        batches = [llama["draw_batch"](vocab, draws) for _ in range(4)]
        if name == "wide":
            for i, (ids, lengths, labels) in enumerate(batches):
                line("wide batch%d ids" % i, ids.flatten().tolist())
                line("wide batch%d lengths" % i, lengths)
                line("wide batch%d labels" % i, labels.flatten().tolist())

        def fresh(path=path, kind=kind, group=group, tied=name == "tied"):
            m = double.load(path)
            if kind != "full":
                m = double.load_adapter(m, path + "/" + kind)
                for n, p in m.named_parameters():
                    p.requires_grad_("lora_" in n)
            return m, *prepare(m, group, tied)

        what = "%s %s %d" % (name, kind, group)
        m, _, n = fresh()
        sys.stderr.write("%s: %d linears\n" % (what, n))
        nll, labelled, _ = llama["loss_of"](m, batches[0])
        line(what + " loss", [nll.item(), nll.item() / labelled])
        m.zero_grad()
        (nll / labelled).backward()
        line(what + " grad",
             [v for _, p in sorted(llama["trained"](m))
              for v in (p.grad.sum().item(), (p.grad ** 2).sum().item())])
        llama["STEPS"] = 10 if name == "wide" else 20
        m, _, _ = fresh()
        if kind != "full":
            with torch.no_grad():
                for n, p in llama["trained"](m):
                    p.mul_("lora_A" in n)
        line(what + " curve1", llama["curve"](m, batches, 1))
        if kind == "full" and name != "wide":
            m, switch, _ = fresh()
            line(what + " later", later(llama, m, switch, batches))


def later(llama, model, switch, batches):
    opt = torch.optim.AdamW([p for _, p in llama["trained"](model)], lr=1e-3,
                            betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    ret = []
    for u in range(6):
        switch["is_on"] = u >= 3
        nll, n, _ = llama["loss_of"](model, batches[u % 4])
        opt.zero_grad()
        (nll / n).backward()
        opt.step()
        ret.append(nll.item() / n)
    return ret


def main():
    tree, = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    # The functions of llama.py; what it writes is not written again.
    text = open(os.path.join(here, "llama.py"), encoding="utf-8").read()
    llama = {"__name__": "llama"}
    exec(compile(text.removesuffix("main()\n"), "llama.py", "exec"), llama)
    with tempfile.TemporaryDirectory() as tmp, \
            open(os.path.join(tree, "tests/golden/qat.txt"), "w",
                 encoding="utf-8") as sys.stdout:
        wide(tmp, llama["LlamaConfig"])
        tensors()
        models(tree, llama, tmp)


main()
