#!/usr/bin/python3
"""Write tests/golden/merge.txt: what PEFT's merge_and_unload makes.

usage: merge.py TREE > merge.txt      (PyTorch 2.6, transformers 4.57, peft 0.17)

For each of tests/data/llama-{tied,untied}, its adapters, and a TYPE that the
base is first rounded to, of each tensor that the merged model has:

MODEL ADAPTER TYPE NAME   the elements k * (n - 1) / 3, k = 0..3, rounded down,
                          of its n, computed in fp64

An adapter of the output layer of a tied model is merged into an output layer
of its own: PEFT by itself would change the embedding, too.
"""
import os
import sys

import llama_double
import torch

ADAPTERS = ["adapter", "adapter-some", "adapter-output"]
TYPES = ["float64", "float32", "float16", "bfloat16"]


def merged(path, adapter, dtype):
    model = llama_double.load(path)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype).double())
    if adapter == "adapter-output":
        model.lm_head.weight = torch.nn.Parameter(
            model.lm_head.weight.detach().clone())
        model.config.tie_word_embeddings = False
    lora = llama_double.load_adapter(model, os.path.join(path, adapter))
    return lora.merge_and_unload()


def main():
    for name in ["tied", "untied"]:
        path = os.path.join(sys.argv[1], "tests/data/llama-" + name)
        for adapter in ADAPTERS:
            for dtype in TYPES:
                model = merged(path, adapter, getattr(torch, dtype))
                ties = model.config.tie_word_embeddings
                for key, p in model.state_dict().items():
                    v = p.flatten()
                    if key == "lm_head.weight" and ties or v.dim() == 0:
                        continue
                    at = [k * (len(v) - 1) // 3 for k in range(4)]
                    print("%s %s %s %s:" % (name, adapter, dtype, key),
                          *("%.17g" % v[i].item() for i in at))


main()
