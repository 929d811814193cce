#!/usr/bin/python3
"""Write tests/golden/dpo.txt and tests/data/pairs.jsonl.

usage: dpo.py TREE DPO_LOSS      (PyTorch; DPO_LOSS is torchtune 0.6.1's
                                  torchtune/rlhf/loss/dpo.py)

pairs.jsonl has 24 pairs of drawn tokens for other tests. The models and
adapters are those of llama.py. They are computed in fp64 by the
plain Llama below, which llama.txt's losses, of transformers, check first; loss
and rewards are torchtune's DPOLoss.

The lines of dpo.txt, each behind "tied " or "untied ":

pairsI ids      the answers of 3 pairs one behind the other: chosen, rejected
pairsI lengths  tokens of each
pairsI labels   of each token: the next one of its answer, or -1: not labelled
SET S first     of pairs 0, with label smoothing S: the mean loss, and the means
                of the values in the order of llama_pairs.c
SET S grad NAME of that loss: sum, and sum of squares
SET S curve     20 losses: each is the mean of pairs u % 4 before update u

SET is "full" (all weights are trained, the reference is the model of the file)
or the directory of adapters (the reference has none). The first lines are of
adapters as in their files, and of weights that are 1.01 times those of the
file; curves begin with a B of 0, and with the weights of the file. A mean logit
is over the labelled tokens of an answer. Training is AdamW as in llama.py.
"""
import importlib.util
import json
import math
import os
import struct
import sys

import numpy as np
import torch

torch.set_num_threads(1)
BETA, STEPS, BATCHES, PAIRS, RANK, ALPHA = 0.1, 20, 4, 3, 4, 8
SETS = {"tied": ["adapter", "full"],
        "untied": ["adapter-some", "adapter-output", "full"]}
SMOOTHING = [0.0, 0.1]


def read(path):
    """The tensors of a safetensors file, in fp64."""
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head, body = json.loads(f.read(n)), f.read()
    ret = {}
    for name, t in head.items():
        if name != "__metadata__":
            kind = {"F64": np.float64, "F32": np.float32}[t["dtype"]]
            begin, end = t["data_offsets"]
            v = np.frombuffer(body[begin:end], kind).reshape(t["shape"])
            ret[name] = torch.from_numpy(v.astype(np.float64))
    return ret


def frequencies(c):
    """As llama_double.py, of which transformers is no part."""
    ret = []
    for i in range(c["head_dim"] // 2):
        f = c["rope_theta"] ** (-2.0 * i / c["head_dim"])
        s = c.get("rope_scaling")
        if s:
            turns = s["original_max_position_embeddings"] * f / (2 * math.pi)
            low, high = s["low_freq_factor"], s["high_freq_factor"]
            smooth = min(1.0, max(0.0, (turns - low) / (high - low)))
            f = (1 - smooth) * f / s["factor"] + smooth * f
        ret.append(f)
    return torch.tensor(ret, dtype=torch.float64)


class Llama:
    def __init__(self, path, adapter):
        with open(path + "/config.json", encoding="utf-8") as f:
            self.c = json.load(f)
        self.w = read(path + "/model.safetensors")
        self.adapters = {}
        if adapter:
            self.adapters = read(path + "/" + adapter +
                                 "/adapter_model.safetensors")
        self.frequencies = frequencies(self.c)
        for p in self.trained().values():
            p.requires_grad_(True)

    def trained(self):
        return self.adapters or self.w

    def linear(self, w, x, name, adapted):
        y = x @ w[name + ".weight"].T
        a = "base_model.model." + name + ".lora_%s.weight"
        if adapted and a % "A" in self.adapters:
            y = y + ALPHA / RANK * (x @ self.adapters[a % "A"].T
                                    @ self.adapters[a % "B"].T)
        return y

    def logits(self, ids, w=None, adapted=True):
        """Of one document."""
        c, w = self.c, w or self.w
        H, K, D = (c["num_attention_heads"], c["num_key_value_heads"],
                   c["head_dim"])
        n = len(ids)
        angle = torch.arange(n).double()[:, None] * self.frequencies
        cos, sin = (torch.cat((f(angle), f(angle)), -1)
                    for f in (torch.cos, torch.sin))
        later = torch.ones(n, n, dtype=torch.bool).triu(1)

        def norm(x, name):
            scale = torch.rsqrt((x * x).mean(-1, keepdim=True)
                                + c["rms_norm_eps"])
            return w[name + ".weight"] * (x * scale)

        def rotate(x):
            a, b = x[..., :D // 2], x[..., D // 2:]
            return x * cos + torch.cat((-b, a), -1) * sin

        x = w["model.embed_tokens.weight"][ids]
        for i in range(c["num_hidden_layers"]):
            at = "model.layers.%d." % i

            def lin(x, name):
                return self.linear(w, x, at + name, adapted)

            h = norm(x, at + "input_layernorm")
            q, k, v = (lin(h, "self_attn.%s_proj" % p).view(n, m, D)
                       .transpose(0, 1)
                       for p, m in (("q", H), ("k", K), ("v", K)))
            k, v = (t.repeat_interleave(H // K, 0) for t in (rotate(k), v))
            s = (rotate(q) @ k.transpose(1, 2) / math.sqrt(D)).masked_fill(
                later, -math.inf)
            o = (s.softmax(-1) @ v).transpose(0, 1).reshape(n, H * D)
            x = x + lin(o, "self_attn.o_proj")
            h = norm(x, at + "post_attention_layernorm")
            g = lin(h, "mlp.gate_proj")
            x = x + lin(g / (1 + torch.exp(-g)) * lin(h, "mlp.up_proj"),
                        "mlp.down_proj")
        x = norm(x, "model.norm")
        if c["tie_word_embeddings"]:
            w = dict(w, **{"lm_head.weight": w["model.embed_tokens.weight"]})
        return self.linear(w, x, "lm_head", adapted)


def answer(logits, labels):
    """log p, and the mean logit over the labelled tokens."""
    labelled = labels >= 0
    p = logits.log_softmax(-1)[labelled].gather(-1, labels[labelled][:, None])
    return p.sum(), logits[labelled].mean().detach()


def draw_pairs(vocab, draw):
    ids, lengths, labels = [], [], []
    for _ in range(PAIRS):
        prompt = draw.randint(1, vocab, draw.randint(2, 6))
        for _ in range(2):
            told = draw.randint(1, vocab, draw.randint(2, 9))
            row = np.concatenate((prompt, told))
            label = np.append(row[1:], -1)
            label[:len(prompt) - 1] = -1
            ids.append(torch.from_numpy(row))
            lengths.append(len(row))
            labels.append(torch.from_numpy(label))
    return ids, lengths, labels


def write_rows(path, draw):
    with open(path, "w", encoding="utf-8") as f:
        for _ in range(24 // PAIRS):
            ids, _, labels = draw_pairs(80, draw)
            for k in range(0, 2 * PAIRS, 2):
                row = {}
                for side, i in (("chosen", k), ("rejected", k + 1)):
                    row[side + "_input_ids"] = ids[i].tolist()
                    row[side + "_labels"] = [-100] + [
                        -100 if v < 0 else v for v in labels[i][:-1].tolist()]
                f.write(json.dumps(row) + "\n")


def reference(path, batches):
    base = Llama(path, None)
    with torch.no_grad():
        return [[answer(base.logits(i), l)[0] for i, l in zip(ids, labels)]
                for ids, _, labels in batches]


def dpo(model, batch, ref, smoothing):
    ids, _, labels = batch
    got = [answer(model.logits(i), l) for i, l in zip(ids, labels)]
    p, z = (torch.stack([g[k] for g in got]) for k in (0, 1))
    ref = torch.stack(ref)
    losses, chosen, rejected = DPOLoss(BETA, smoothing)(
        p[0::2], p[1::2], ref[0::2], ref[1::2])
    p = p.detach()
    return losses.mean(), [
        v.mean().item() for v in (
            chosen, rejected, (chosen > rejected).double(), chosen - rejected,
            p[0::2], p[1::2], z[0::2], z[1::2])]


def line(name, values):
    print(name + ":", *("%.17g" % v for v in values))


def write_set(path, what, adapter, batches, refs, smoothing):
    m = Llama(path, adapter)
    what = "%s %g" % (what, smoothing)
    if not adapter:
        with torch.no_grad():
            for p in m.trained().values():
                p.mul_(1.01)
    loss, values = dpo(m, batches[0], refs[0], smoothing)
    line(what + " first", [loss.item()] + values)
    loss.backward()
    for name, p in m.trained().items():
        line("%s grad %s" % (what, name),
             [p.grad.sum().item(), (p.grad * p.grad).sum().item()])

    m = Llama(path, adapter)
    with torch.no_grad():
        for name, p in m.trained().items():
            if ".lora_B." in name:
                p.zero_()
    opt = torch.optim.AdamW(m.trained().values(), lr=1e-3, betas=(0.9, 0.999),
                            eps=1e-8, weight_decay=0.01)
    curve = []
    for u in range(STEPS):
        loss, _ = dpo(m, batches[u % BATCHES], refs[u % BATCHES], smoothing)
        opt.zero_grad()
        loss.backward()
        opt.step()
        curve.append(loss.item())
    line(what + " curve", curve)


def check(tree, name):
    """The plain Llama is transformers'."""
    want = {}
    with open(os.path.join(tree, "tests/golden/llama.txt"),
              encoding="utf-8") as f:
        for text in f:
            key, values = text.split(":", 1)
            want[key] = [float(v) for v in values.split()]
    ids, lengths, labels = (
        [int(v) for v in want["%s batch0 %s" % (name, k)]]
        for k in ("ids", "lengths", "labels"))
    S = len(ids) // len(lengths)
    for s in SETS[name]:
        m = Llama(os.path.join(tree, "tests/data/llama-" + name),
                  None if s == "full" else s)
        loss = 0.0
        for r, n in enumerate(lengths):
            part = slice(r * S, r * S + n)
            loss -= answer(m.logits(torch.tensor(ids[part])),
                           torch.tensor(labels[part]))[0].item()
        if abs(loss / want["%s %s loss" % (name, s)][0] - 1) > 1e-12:
            sys.exit("%s %s is not the model of transformers" % (name, s))


def main():
    global DPOLoss
    tree, source = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("dpo_loss", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    DPOLoss = module.DPOLoss
    for name in SETS:
        check(tree, name)
    draw = np.random.RandomState(5)
    with open(os.path.join(tree, "tests/golden/dpo.txt"), "w",
              encoding="utf-8") as sys.stdout:
        for name, sets in SETS.items():
            path = os.path.join(tree, "tests/data/llama-" + name)
            vocab = Llama(path, None).c["vocab_size"]
            batches = [draw_pairs(vocab, draw) for _ in range(BATCHES)]
            for i, (ids, lengths, labels) in enumerate(batches):
                at = "%s pairs%d " % (name, i)
                line(at + "ids", torch.cat(ids).tolist())
                line(at + "lengths", lengths)
                line(at + "labels", torch.cat(labels).tolist())
            refs = reference(path, batches)
            for s in sets:
                for smoothing in SMOOTHING:
                    write_set(path, "%s %s" % (name, s),
                              None if s == "full" else s, batches, refs,
                              smoothing)
    write_rows(os.path.join(tree, "tests/data/pairs.jsonl"), draw)


main()
