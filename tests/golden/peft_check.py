#!/usr/bin/python3
"""Print the logits of PEFT for a model and adapters that mgpu wrote.

usage: peft_check.py MODEL_DIR ADAPTER_DIR|- ID...
       (PyTorch 2.6, transformers 4.57, peft 0.17)

One line a token, vocabulary values of 17 digits each, all computed in fp64;
"-" is the model alone. Says on standard error how many tensors the adapter
has, and fails unless PEFT uses all of them and needs no other.
"""
import sys

import llama_double
import torch
from safetensors import safe_open


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    model = llama_double.load(sys.argv[1])
    if sys.argv[2] != "-":
        model = llama_double.load_adapter(model, sys.argv[2])
        have = model.state_dict()
        path = sys.argv[2] + "/adapter_model.safetensors"
        with safe_open(path, "pt") as f:
            for name in f.keys():
                at = name.removesuffix(".weight") + ".default.weight"
                if at not in have:
                    sys.exit("%s: PEFT has no such tensor" % name)
                if not have[at].equal(f.get_tensor(name).double()):
                    sys.exit("%s: not what PEFT has loaded" % name)
            print("%d tensors" % len(list(f.keys())), file=sys.stderr)
        if sum("lora_" in n for n in have) != len(list(safe_open(
                path, "pt").keys())):
            sys.exit("%s: PEFT has adapters that are not in it" % path)
    with torch.no_grad():
        ids = torch.tensor([[int(i) for i in sys.argv[3:]]])
        for row in model(ids, use_cache=False).logits[0].tolist():
            print(*("%.17g" % v for v in row))


main()
