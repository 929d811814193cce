#!/usr/bin/python3
"""Write tests/golden/stories260K.txt: what stories260K generates.

usage: stories.py MODEL_DIR [REFERENCE] > stories260K.txt
       (PyTorch 2.6, transformers 4.57, sentencepiece)

Greedy decoding in fp64. For each NAME of PROMPTS:

NAME prompt   ids: id 1, and those of the text
NAME greedy   the ids that follow, at most 300, or up to id 1 (end of text)
NAME margin   by how much the logit of each of these leads the next best one

And of two texts, for a forward pass without a prompt:

docI ids      id 1 and the text
docI nll      -log p of each id but the first

REFERENCE is a JSON of the same values from another implementation (llama2.c
and NumPy): {"greedy": {"ids": [...]}, "docs": [{"ids": [...], "sum_nll"}]};
the script fails where they differ.
"""
import json
import sys

import llama_double
import sentencepiece
import torch

MOST, END = 300, 1
PROMPTS = {
    "start": "",
    "dog": "One day, a big dog",
    "names": "### Instruction:\nWho is the story about?\n\n### Input:\n"
             "One day, a boy named Tom saw a big red ball.\n\n### Response:\n",
}
DOCS = [
    "Once upon a time, there was a little car named Beep. Beep loved to go "
    "fast and play in the sun.",
    "Lily and Tom went to the park. They saw a big, red ball in the tree.",
]


def line(name, values):
    print(name + ":", *("%.12g" % v for v in values))


def greedy(model, ids):
    ids, margins = list(ids), []
    start, cache, new = len(ids), None, ids
    while len(ids) < start + MOST and (not margins or ids[-1] != END):
        out = model(torch.tensor([new]), past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        top = out.logits[0, -1].topk(2)
        margins.append(float(top.values[0] - top.values[1]))
        ids.append(int(top.indices[0]))
        new = ids[-1:]
    return ids[start:], margins


def nll(model, ids):
    logits = model(torch.tensor([ids]), use_cache=False).logits[0, :-1]
    return torch.nn.functional.cross_entropy(
        logits, torch.tensor(ids[1:]), reduction="none").tolist()


def compare(model, start, path):
    with open(path, encoding="utf-8") as f:
        want = json.load(f)
    if [END] + start != want["greedy"]["ids"]:
        sys.exit("greedy: not the ids of " + path)
    for i, d in enumerate(want["docs"]):
        if abs(sum(nll(model, d["ids"])) - d["sum_nll"]) > 1e-9 * d["sum_nll"]:
            sys.exit("doc %d: not the loss of %s" % (i, path))
    print("as in the reference: %d ids, %d texts"
          % (len(start), len(want["docs"])), file=sys.stderr)


@torch.no_grad()
def main():
    model = llama_double.load(sys.argv[1])
    sp = sentencepiece.SentencePieceProcessor(
        model_file=sys.argv[1] + "/tokenizer.model")
    for name, text in PROMPTS.items():
        prompt = [END] + sp.encode(text)
        ids, margins = greedy(model, prompt)
        if name == "start" and len(sys.argv) > 2:
            compare(model, ids, sys.argv[2])
        line(name + " prompt", prompt)
        line(name + " greedy", ids)
        line(name + " margin", margins)
        print("%s: %d ids, least margin %.3g: %r" % (
            name, len(ids), min(margins), sp.decode(ids)[:70]),
            file=sys.stderr)
    for i, text in enumerate(DOCS):
        ids = [END] + sp.encode(text)
        line("doc%d ids" % i, ids)
        line("doc%d nll" % i, nll(model, ids))


main()
