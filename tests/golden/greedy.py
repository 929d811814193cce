#!/usr/bin/python3
"""Write tests/golden/greedy.txt: what the small models generate.

usage: greedy.py TREE > greedy.txt    (PyTorch 2.6, transformers 4.57, peft 0.17)

For tests/data/llama-{tied,untied}, alone ("-") and with its adapters, in fp64:

MODEL ADAPTER prompt   6 ids
MODEL ADAPTER greedy   the 24 ids that follow
"""
import os
import sys

import llama_double
import torch

PROMPT, MOST = [1, 17, 5, 60, 33, 9], 24


@torch.no_grad()
def main():
    for name in ["tied", "untied"]:
        path = os.path.join(sys.argv[1], "tests/data/llama-" + name)
        for adapter in ["-", "adapter"]:
            model = llama_double.load(path)
            if adapter != "-":
                model = llama_double.load_adapter(
                    model, os.path.join(path, adapter))
            ids = list(PROMPT)
            for _ in range(MOST):
                logits = model(torch.tensor([ids]), use_cache=False).logits
                ids.append(int(logits[0, -1].argmax()))
            print("%s %s prompt:" % (name, adapter), *PROMPT)
            print("%s %s greedy:" % (name, adapter), *ids[len(PROMPT):])


main()
