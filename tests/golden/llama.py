#!/usr/bin/python3
"""Write tests/data/llama-{tied,untied}/ and tests/golden/llama.txt.

usage: llama.py TREE       (PyTorch 2.6, transformers 4.57, peft 0.17)

Two small models of drawn weights, fp64 in their files, each with three sets
of adapters as PEFT writes them: adapter (the seven linears), adapter-some (no
k_proj), adapter-output (the seven and lm_head). B is drawn, too, so that A
has a gradient. All values below are computed in fp64.

The lines of llama.txt, each behind "tied " or "untied ":

frequencies     head_dim / 2 angles per position
batchI ids      3 rows, one behind the other, filled up with 0 to the longest
batchI lengths  of the rows, without padding
batchI labels   of each token: the next one of its row, or -1: not labelled
at              which tokens of batch 0 have their logits below
SET logits      vocab values for each of these
SET loss        sum over the labelled tokens of batch 0, and its mean
SET grad NAME   of the mean: sum, sum of squares, and the 12 elements
                k * (n - 1) / 11, k = 0..11, rounded down, of the n of a tensor
SET curve1      20 losses: each is the mean of batch u % 4 before update u
SET curve2      20 losses: the mean over the labelled tokens of batches
                2u % 4 and 2u % 4 + 1 before update u

SET is "full" (all weights are trained) or the directory of adapters; names
are those of the files. Gradients are of the adapters as they are in the
files; the curves of adapters begin with these A, and with B of 0. Training
is AdamW: lr 1e-3, betas 0.9 and 0.999, eps 1e-8, and a decay of 0.01 of all
that is trained.
"""
import json
import os
import sys

import llama_double
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig

SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
         "down_proj"]
ADAPTERS = {
    "adapter": SEVEN,
    "adapter-some": [t for t in SEVEN if t != "k_proj"],
    "adapter-output": SEVEN + ["lm_head"],
}
RANK, ALPHA, STEPS, BATCHES = 4, 8, 20, 4
MODELS = {
    "tied": dict(
        hidden_size=32, intermediate_size=48, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=96, tie_word_embeddings=True,
        max_position_embeddings=2048, rope_theta=500000.0, eos_token_id=[2, 3],
        rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                          high_freq_factor=4.0,
                          original_max_position_embeddings=256)),
    "untied": dict(
        hidden_size=24, intermediate_size=40, num_attention_heads=3,
        num_key_value_heads=3, vocab_size=80, tie_word_embeddings=False,
        max_position_embeddings=128, rope_theta=10000.0, eos_token_id=2),
}
BOTH = dict(head_dim=8, num_hidden_layers=2, rms_norm_eps=1e-5,
            bos_token_id=1, architectures=["LlamaForCausalLM"])


def write_model(path, config, draw):
    """Draws the weights in the order of their names in the file."""
    os.makedirs(path, exist_ok=True)
    c = LlamaConfig(**config, **BOTH)
    c.dtype = torch.float64
    c.save_pretrained(path)
    H, F, V = c.hidden_size, c.intermediate_size, c.vocab_size
    q, kv = (n * c.head_dim for n in (c.num_attention_heads,
                                      c.num_key_value_heads))
    shapes = {"model.embed_tokens.weight": (V, H)}
    for i in range(c.num_hidden_layers):
        at = "model.layers.%d." % i
        shapes.update({at + n + ".weight": s for n, s in {
            "input_layernorm": (H,), "self_attn.q_proj": (q, H),
            "self_attn.k_proj": (kv, H), "self_attn.v_proj": (kv, H),
            "self_attn.o_proj": (H, q), "post_attention_layernorm": (H,),
            "mlp.gate_proj": (F, H), "mlp.up_proj": (F, H),
            "mlp.down_proj": (H, F)}.items()})
    shapes["model.norm.weight"] = (H,)
    if not c.tie_word_embeddings:
        shapes["lm_head.weight"] = (V, H)
    tensors = {}
    for name, shape in shapes.items():
        v = torch.from_numpy(draw.standard_normal(shape))
        if len(shape) == 1:
            v = 1 + 0.2 * v
        elif name == "model.embed_tokens.weight":
            v *= 0.3
        else:
            v /= shape[1] ** 0.5
        tensors[name] = v
    save_file(tensors, path + "/model.safetensors", {"format": "pt"})


def write_adapter(model_path, tree, name, draw):
    lora = llama_double.wrap(
        llama_double.load(os.path.join(tree, model_path)), r=RANK,
        lora_alpha=ALPHA, lora_dropout=0.0, target_modules=ADAPTERS[name])
    with torch.no_grad():
        for n, p in sorted(lora.named_parameters()):
            if "lora_" in n:
                p.copy_(torch.from_numpy(draw.standard_normal(p.shape)) *
                        (p.shape[1] ** -0.5 if "lora_A" in n else 0.1))
    lora.peft_config["default"].base_model_name_or_path = model_path
    path = os.path.join(tree, model_path, name)
    lora.save_pretrained(path, save_embedding_layers=False)
    os.unlink(path + "/README.md")
    # PEFT writes a set, in the order of this run.
    with open(path + "/adapter_config.json", encoding="utf-8") as f:
        c = json.load(f)
    c["target_modules"].sort()
    with open(path + "/adapter_config.json", "w", encoding="utf-8") as f:
        f.write(json.dumps(c, indent=2, sort_keys=True))


def draw_batch(vocab, draw):
    """ids, lengths, labels"""
    lengths = draw.permutation([12, 7, 10]) - draw.randint(0, 4)
    ids = np.zeros((3, max(lengths)), int)
    labels = np.full(ids.shape, -1)
    for r, n in enumerate(lengths):
        ids[r, :n] = draw.randint(1, vocab, n)
        labelled = draw.random_sample(n - 1) < 0.6
        labelled[-1] = True
        labels[r, :n - 1][labelled] = ids[r, 1:n][labelled]
    return torch.from_numpy(ids), lengths, torch.from_numpy(labels)


def loss_of(model, batch):
    """Sum over the labelled tokens, their number, logits."""
    ids, _, labels = batch
    logits = model(input_ids=ids, use_cache=False).logits
    flat = logits.reshape(-1, logits.shape[-1])
    nll = torch.nn.functional.cross_entropy(
        flat, labels.reshape(-1), ignore_index=-1, reduction="sum")
    return nll, int((labels >= 0).sum()), flat


def trained(model):
    return [(n, p) for n, p in model.named_parameters() if p.requires_grad]


def curve(model, batches, accumulate):
    opt = torch.optim.AdamW([p for _, p in trained(model)], lr=1e-3,
                            betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    ret = []
    for u in range(STEPS):
        now = [loss_of(model, batches[(u * accumulate + i) % BATCHES])
               for i in range(accumulate)]
        loss = sum(nll for nll, _, _ in now) / sum(n for _, n, _ in now)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ret.append(loss.item())
    return ret


def line(name, values):
    print(name + ":", *("%.17g" % v for v in values))


def gradients(model, what, batches, at):
    nll, n, logits = loss_of(model, batches[0])
    line(what + " logits", logits[at].flatten().tolist())
    line(what + " loss", [nll.item(), nll.item() / n])
    model.zero_grad()
    (nll / n).backward()
    for name, p in trained(model):
        g = p.grad.flatten()
        some = [k * (len(g) - 1) // 11 for k in range(12)]
        line("%s grad %s" % (what, name.replace(".default.", ".")),
             [g.sum().item(), (g * g).sum().item()] + g[some].tolist())


def write_golden(path, name):
    def adapted(adapter):
        m = llama_double.load_adapter(llama_double.load(path), adapter)
        for n, p in m.named_parameters():
            p.requires_grad_("lora_" in n)
        return m

    draw = np.random.RandomState(3)
    config = LlamaConfig.from_pretrained(path)
    line(name + " frequencies", llama_double.frequencies(config).tolist())
    batches = [draw_batch(config.vocab_size, draw) for _ in range(BATCHES)]
    for i, (ids, lengths, labels) in enumerate(batches):
        line("%s batch%d ids" % (name, i), ids.flatten().tolist())
        line("%s batch%d lengths" % (name, i), lengths)
        line("%s batch%d labels" % (name, i), labels.flatten().tolist())
    S = batches[0][0].shape[1]
    at = [r * S + i for r, n in enumerate(batches[0][1])
          for i in (0, 3, n - 1)]
    line(name + " at", at)
    gradients(llama_double.load(path), name + " full", batches, at)
    for k in (1, 2):
        line("%s full curve%d" % (name, k),
             curve(llama_double.load(path), batches, k))
    for a in ADAPTERS:
        what = "%s %s" % (name, a)
        gradients(adapted(path + "/" + a), what, batches, at)
        for k in (1, 2):
            m = adapted(path + "/" + a)
            with torch.no_grad():
                for n, p in trained(m):
                    p.mul_("lora_A" in n)
            line("%s curve%d" % (what, k), curve(m, batches, k))


def main():
    tree, = sys.argv[1:]
    draw = np.random.RandomState(1)
    for name, config in MODELS.items():
        path = "tests/data/llama-" + name
        write_model(os.path.join(tree, path), config, draw)
        for adapter in ADAPTERS:
            write_adapter(path, tree, adapter, draw)
    with open(os.path.join(tree, "tests/golden/llama.txt"), "w",
              encoding="utf-8") as sys.stdout:
        for name in MODELS:
            write_golden(os.path.join(tree, "tests/data/llama-" + name), name)


main()
