#!/usr/bin/python3
"""Write adapters of many ranks, and tests/golden/patterns.txt.

usage: patterns.py TREE    (PyTorch 2.15, transformers 5.24, peft 0.21.2)

PEFT makes and saves tests/data/llama-mistral/ADAPTER: "adapter-patterns"
has rank_pattern and alpha_pattern, by ends of names and by expressions, with
rslora and an output layer; "adapter-layers" has layers_to_transform;
"adapter-named" has an expression for target_modules, of one layer.
patterns.txt has, of each, the lines of archs.txt of "adapter": logits, loss,
gradients, curve1 and merge. Its batches are those of archs.txt.
"""
import contextlib
import io
import os
import sys

import arch_double
import numpy as np
import torch
from transformers import AutoConfig

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
       "down_proj"]
ADAPTERS = {
    "adapter-patterns": dict(
        r=4, lora_alpha=8, use_rslora=True, target_modules=ALL + ["lm_head"],
        rank_pattern={r".*\.1\..*(up|down)_proj": 6, "k_proj": 1,
                      "layers.0.self_attn.q_proj": 2, "lm_head": 3},
        alpha_pattern={r"^model\.layers\.[01]\.mlp\.gate_proj": 3.5,
                       "o_proj": 5, r"layers\.\d+\.self_attn\.(?:q|k)_proj": 7,
                       "proj": 100}),
    "adapter-layers": dict(
        r=3, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"],
        layers_to_transform=[1], layers_pattern="layers",
        rank_pattern={"v_proj": 5}),
    "adapter-named": dict(
        r=2, lora_alpha=4, target_modules=r".*layers\.0\..*(v|up)_proj",
        alpha_pattern={"up_proj": 1}),
}


def write_adapter(path, name, draw):
    model = arch_double.wrap(arch_double.load(path), **ADAPTERS[name])
    with torch.no_grad():
        for n, p in sorted(model.named_parameters()):
            if "lora_" in n:
                v = draw.standard_normal(tuple(p.shape)) / p.shape[1] ** 0.5
                p.copy_(torch.from_numpy(v).float())
    model.peft_config["default"].base_model_name_or_path = path.split("/")[-1]
    for n, p in model.named_parameters():
        p.data = p.data.float()
    with contextlib.redirect_stdout(io.StringIO()):
        model.save_pretrained(path + "/" + name, save_embedding_layers=False)
    os.remove(path + "/" + name + "/README.md")


def main():
    tree, = sys.argv[1:]
    sys.modules["llama_double"] = arch_double
    path = os.path.join(tree, "tests/data/llama-mistral")
    with open(os.path.join(tree, "tests/golden/archs.py"),
              encoding="utf-8") as f:
        archs = {"__name__": "archs"}
        exec(compile(f.read().removesuffix("main()\n"), "archs", "exec"),
             archs)
    llama = archs["functions"](tree, "llama.py")
    draw = np.random.RandomState(3)
    vocab = AutoConfig.from_pretrained(path).vocab_size
    batches = [llama["draw_batch"](vocab, draw) for _ in range(4)]
    S = batches[0][0].shape[1]
    at = [r * S + n - 1 for r, n in enumerate(batches[0][1])]
    draw = np.random.RandomState(11)
    with open(os.path.join(tree, "tests/golden/patterns.txt"), "w",
              encoding="utf-8") as out, contextlib.redirect_stdout(out):
        for name in ADAPTERS:
            write_adapter(path, name, draw)

            def adapted():
                m = arch_double.load_adapter(arch_double.load(path),
                                             path + "/" + name)
                for n, p in m.named_parameters():
                    p.requires_grad_("lora_" in n)
                return m

            what = "mistral " + name
            llama["gradients"](adapted(), what, batches, at)
            m = adapted()
            with torch.no_grad():
                for n, p in llama["trained"](m):
                    if "lora_B" in n:
                        p.zero_()
            llama["line"](what + " curve1", llama["curve"](m, batches, 1))
            with torch.no_grad():
                m = adapted()
                for key, p in m.merge_and_unload().state_dict().items():
                    v = p.flatten()
                    print("%s float32 %s:" % (what, key),
                          *("%.17g" % v[k * (len(v) - 1) // 3].item()
                            for k in range(4)))


main()
