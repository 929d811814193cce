#!/usr/bin/python3
"""Write tests/data/llama-MODEL/ of other architectures, tests/golden/archs.txt
and tests/golden/archs_dpo.txt.

usage: archs.py TREE       (PyTorch 2.15, transformers 5.24, peft 0.21.2)

Small models of drawn weights, fp32 in their files, each with an adapter of
the seven linears. Where a layer has a window, rows are longer than it.
archs.txt has the lines of llama.txt, of "full" and of "adapter" without curve2,
and "adapter nf4", whose lines are those of qlora.txt; rope NAME is the factor of sin and cos, and the angle per position of each pair.
The lines of greedy.txt and, of a base in fp32, of merge.txt are there, too;
archs_dpo.txt has those of dpo.txt, without label smoothing. All of it is
computed in fp64, by transformers and PEFT. Labels of pairs, rows and losses are
drawn and computed as in llama.py, qlora.py and dpo.py.
"""
import json
import math
import os
import sys

import arch_double
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

BETA, PAIRS = 0.1, 3
MODELS = {
    "qwen2": dict(
        model_type="qwen2", architectures=["Qwen2ForCausalLM"],
        num_key_value_heads=2, tie_word_embeddings=True,
        head_dim=8, use_sliding_window=True, sliding_window=4,
        max_window_layers=1, rope_theta=100.0,
        rope_scaling=dict(type="yarn", factor=4.0, beta_fast=8, beta_slow=0.5,
                          truncate=False,
                          original_max_position_embeddings=16)),
    "biases": dict(
        model_type="llama", architectures=["LlamaForCausalLM"],
        num_key_value_heads=4, head_dim=6, tie_word_embeddings=False,
        attention_bias=True, mlp_bias=True,
        rope_parameters=dict(rope_type="linear", factor=2.0,
                             rope_theta=10000.0)),
    "mistral": dict(
        model_type="mistral", architectures=["MistralForCausalLM"],
        num_key_value_heads=2, head_dim=10, tie_word_embeddings=False,
        sliding_window=5, rope_theta=1000.0,
        rope_scaling=dict(type="dynamic", factor=2.0)),
    "qwen3": dict(
        model_type="qwen3", architectures=["Qwen3ForCausalLM"],
        num_key_value_heads=2, head_dim=20, tie_word_embeddings=False,
        attention_bias=True, use_sliding_window=False, sliding_window=None,
        max_window_layers=2, rope_theta=1000000.0),
}
# Of a head of 64 and 32,768 positions; the first is that of Qwen2.5.
ROPES = {
    "yarn": dict(type="yarn", factor=4.0, rope_theta=1000000.0,
                 original_max_position_embeddings=32768),
    "whole": dict(rope_type="yarn", factor=8.0, rope_theta=10000.0,
                  original_max_position_embeddings=4096, beta_fast=16,
                  beta_slow=2, truncate=False, attention_factor=1.25),
    "scales": dict(rope_type="yarn", factor=40.0, rope_theta=5000.0,
                   mscale=0.707, mscale_all_dim=1.0),
    "linear": dict(rope_type="linear", factor=4.0, rope_theta=10000.0),
    "dynamic": dict(rope_type="dynamic", factor=2.0, rope_theta=10000.0),
    "llama3": dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                   high_freq_factor=4.0, rope_theta=500000.0,
                   original_max_position_embeddings=8192),
}
BOTH = dict(hidden_size=16, intermediate_size=24, num_attention_heads=4,
            num_hidden_layers=2, vocab_size=80, rms_norm_eps=1e-5,
            max_position_embeddings=128, hidden_act="silu", bos_token_id=1,
            eos_token_id=2)


def functions(tree, name):
    """Those of another script, which is not run."""
    with open(os.path.join(tree, "tests/golden", name), encoding="utf-8") as f:
        text = f.read()
    ret = {"__name__": name}
    exec(compile(text.removesuffix("main()\n"), name, "exec"), ret)
    return ret


def write_model(path, config, draw):
    """Draws the tensors in the order of their names."""
    os.makedirs(path, exist_ok=True)
    with open(path + "/config.json", "w", encoding="utf-8") as f:
        f.write(json.dumps(dict(config, **BOTH), indent=2, sort_keys=True))
        f.write("\n")
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path))
    tensors = {}
    for name, p in sorted(model.named_parameters()):
        v = torch.from_numpy(draw.standard_normal(tuple(p.shape)))
        if name.endswith(".bias"):
            v *= 0.3
        elif p.dim() == 1:
            v = 1 + 0.2 * v
        elif name == "model.embed_tokens.weight":
            v *= 0.3
        else:
            v /= p.shape[1] ** 0.5
        tensors[name] = v.float()
    save_file(tensors, path + "/model.safetensors", {"format": "pt"})


def write_lines(path, name, llama, qlora):
    def adapted(base):
        m = arch_double.load_adapter(base, path + "/adapter")
        for n, p in m.named_parameters():
            p.requires_grad_("lora_" in n)
        return m

    def curve(m):
        with torch.no_grad():
            for n, p in llama["trained"](m):
                if "lora_B" in n:
                    p.zero_()
        return llama["curve"](m, batches, 1)

    line = llama["line"]
    draw = np.random.RandomState(3)
    config = AutoConfig.from_pretrained(path)
    line(name + " frequencies", arch_double.frequencies(config).tolist())
    batches = [llama["draw_batch"](config.vocab_size, draw) for _ in range(4)]
    for i, (ids, lengths, labels) in enumerate(batches):
        line("%s batch%d ids" % (name, i), ids.flatten().tolist())
        line("%s batch%d lengths" % (name, i), lengths)
        line("%s batch%d labels" % (name, i), labels.flatten().tolist())
    S = batches[0][0].shape[1]
    at = [r * S + n - 1 for r, n in enumerate(batches[0][1])]
    line(name + " at", at)
    llama["gradients"](arch_double.load(path), name + " full", batches, at)
    line(name + " full curve1", curve(arch_double.load(path)))
    llama["gradients"](adapted(arch_double.load(path)), name + " adapter",
                       batches, at)
    line(name + " adapter curve1", curve(adapted(arch_double.load(path))))

    base = arch_double.load(path)
    qlora["quantise"](base, True)
    m = adapted(base)
    what = name + " adapter nf4"
    nll, n, _ = llama["loss_of"](m, batches[0])
    line(what + " loss", [nll.item(), nll.item() / n])
    m.zero_grad()
    (nll / n).backward()
    line(what + " grad",
         [v for _, p in sorted(llama["trained"](m))
          for v in (p.grad.sum().item(), (p.grad ** 2).sum().item())])
    line(what + " curve1", curve(m))


@torch.no_grad()
def write_more(path, name):
    """What is generated, and merged."""
    for adapter in ("-", "adapter"):
        model = arch_double.load(path)
        if adapter != "-":
            model = arch_double.load_adapter(model, path + "/" + adapter)
        ids = [1, 17, 5, 60, 33, 9]
        print("%s %s prompt:" % (name, adapter), *ids)
        for _ in range(24):
            logits = model(torch.tensor([ids]), use_cache=False).logits
            ids.append(int(logits[0, -1].argmax()))
        print("%s %s greedy:" % (name, adapter), *ids[6:])
    model = model.merge_and_unload()
    for key, p in model.state_dict().items():
        v = p.flatten()
        if key != "lm_head.weight" or not model.config.tie_word_embeddings:
            print("%s adapter float32 %s:" % (name, key),
                  *("%.17g" % v[k * (len(v) - 1) // 3].item()
                    for k in range(4)))


def draw_pairs(vocab, draw):
    """Answers and their labels: chosen, rejected, chosen ..."""
    ids, labels = [], []
    for _ in range(PAIRS):
        prompt = draw.randint(1, vocab, draw.randint(2, 6))
        for _ in range(2):
            row = np.concatenate(
                (prompt, draw.randint(1, vocab, draw.randint(2, 9))))
            label = np.append(row[1:], -1)
            label[:len(prompt) - 1] = -1
            ids.append(torch.from_numpy(row))
            labels.append(torch.from_numpy(label))
    return ids, labels


def answers(model, batch):
    """log p of each, and its mean logit over the labelled tokens."""
    p, z = [], []
    for ids, labels in zip(*batch):
        logits = model(input_ids=ids[None], use_cache=False).logits[0]
        on = labels >= 0
        p.append(logits.log_softmax(-1)[on].gather(
            -1, labels[on][:, None]).sum())
        z.append(logits[on].mean().detach())
    return torch.stack(p), torch.stack(z)


def dpo(model, batch, ref):
    p, z = answers(model, batch)
    chosen, rejected = (BETA * (p - ref)[k::2] for k in (0, 1))
    loss = -torch.nn.functional.logsigmoid(chosen - rejected).mean()
    p, chosen, rejected = p.detach(), chosen.detach(), rejected.detach()
    return loss, [v.mean().item() for v in (
        chosen, rejected, (chosen > rejected).double(), chosen - rejected,
        p[0::2], p[1::2], z[0::2], z[1::2])]


def write_pairs(path, name, line, trained):
    draw = np.random.RandomState(5)
    batches = [draw_pairs(80, draw) for _ in range(4)]
    for i, (ids, labels) in enumerate(batches):
        at = "%s pairs%d " % (name, i)
        line(at + "ids", torch.cat(ids).tolist())
        line(at + "lengths", [len(r) for r in ids])
        line(at + "labels", torch.cat(labels).tolist())
    with torch.no_grad():
        base = arch_double.load(path)
        refs = [answers(base, b)[0] for b in batches]
    for what in ("adapter", "full"):
        def fresh():
            m = arch_double.load(path)
            if what == "full":
                return m
            m = arch_double.load_adapter(m, path + "/adapter")
            for n, p in m.named_parameters():
                p.requires_grad_("lora_" in n)
            return m

        m, at = fresh(), "%s %s 0" % (name, what)
        with torch.no_grad():
            for _, p in trained(m):
                p.mul_(1.01 if what == "full" else 1)
        loss, values = dpo(m, batches[0], refs[0])
        line(at + " first", [loss.item()] + values)
        loss.backward()
        for n, p in trained(m):
            line("%s grad %s" % (at, n.replace(".default.", ".")),
                 [p.grad.sum().item(), (p.grad * p.grad).sum().item()])
        m = fresh()
        with torch.no_grad():
            for n, p in trained(m):
                if "lora_B" in n:
                    p.zero_()
        opt = torch.optim.AdamW([p for _, p in trained(m)], lr=1e-3,
                                betas=(0.9, 0.999), eps=1e-8,
                                weight_decay=0.01)
        losses = []
        for u in range(20):
            loss, _ = dpo(m, batches[u % 4], refs[u % 4])
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        if abs(losses[0] - math.log(2)) > 1e-12:
            sys.exit("the model is not its reference at first")
        line(at + " curve", losses)


def main():
    tree, = sys.argv[1:]
    sys.modules["llama_double"] = arch_double
    llama = functions(tree, "llama.py")
    sys.modules["torchao"] = sys.modules["torchao.dtypes"] = sys
    sys.modules["torchao.dtypes.nf4tensor"] = type(sys)("none")
    sys.modules["torchao.dtypes.nf4tensor"].NF4Tensor = None
    qlora = functions(tree, "qlora.py")
    llama["ADAPTERS"] = {"adapter": llama["SEVEN"]}
    draw = np.random.RandomState(1)
    for name, config in MODELS.items():
        path = "tests/data/llama-" + name
        write_model(os.path.join(tree, path), config, draw)
        llama["write_adapter"](path, tree, "adapter", draw)
    def lines(path, name):
        write_lines(path, name, llama, qlora)
        write_more(path, name)

    def pairs(path, name):
        write_pairs(path, name, llama["line"], llama["trained"])

    def ropes():
        for name, rope in ROPES.items():
            c = AutoConfig.for_model(
                "llama", head_dim=64, max_position_embeddings=32768,
                rope_parameters=dict(rope))
            c.standardize_rope_params()
            arch_double.check_rotation(c)
            f, by = arch_double.rotation(c)
            llama["line"]("rope " + name, [by] + f.tolist())

    for out, write in (("archs.txt", lines), ("archs_dpo.txt", pairs)):
        with open(os.path.join(tree, "tests/golden", out), "w",
                  encoding="utf-8") as sys.stdout:
            for name in MODELS:
                write(os.path.join(tree, "tests/data/llama-" + name), name)
            if out == "archs.txt":
                ropes()


main()
