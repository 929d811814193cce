#!/usr/bin/python3
"""Train jobs/examples/story-names/ with PyTorch and print what is learned.

usage: story_names_train.py MODEL_DIR ROWS_DIR [SEED]
       (PyTorch 2.6, transformers 4.57, peft 0.17, sentencepiece)

The figures that a run of mgpu is compared with: LoRA of rank 8 and alpha 16
on the seven linears, AdamW at 1e-2, 10 updates of warm-up, cosine to 0 at
update 56, gradients clipped to 1, 2 packs of 512 tokens an update. Rows of a
pack do not see each other, so the rows are run as a padded batch instead.
"""
import json
import math
import sys

del sys.path[0]  # transformers would import kernels.py as its own

import numpy as np
import sentencepiece
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaForCausalLM

UPDATES, WARMUP, PACK, PACKS, LR, END = 56, 10, 512, 2, 1e-2, 1
ASKED = ("### Instruction:\nWho is the story about?\n\n### Input:\n"
         "One day, a boy named Tom saw a big red ball.\n\n### Response:\n")


def rows(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def packs(data, order):
    """First fit in the order of the epoch, without looking back."""
    ret, used = [[]], 0
    for i in order:
        n = len(data[i]["input_ids"])
        if used + n > PACK:
            ret.append([])
            used = 0
        ret[-1].append(data[i])
        used += n
    return ret


def loss_of(model, some):
    """Sum over the labelled tokens, and their number."""
    longest = max(len(r["input_ids"]) for r in some)
    ids = torch.zeros(len(some), longest, dtype=torch.long)
    labels = torch.full((len(some), longest), -100)
    for i, r in enumerate(some):
        ids[i, :len(r["input_ids"])] = torch.tensor(r["input_ids"])
        labels[i, :len(r["labels"])] = torch.tensor(r["labels"])
    logits = model(input_ids=ids).logits[:, :-1]
    nll = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1),
        ignore_index=-100, reduction="sum")
    return nll, int((labels[:, 1:] >= 0).sum())


def answer(model, ids, most):
    ids = list(ids)
    start = len(ids)
    while len(ids) < start + most:
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        if ids[-1] == END:
            break
    return ids[start:]


@torch.no_grad()
def report(model, val, sp, when):
    nll, n = loss_of(model, val)
    exact = 0
    for r in val:
        at = sum(x < 0 for x in r["labels"])
        want = r["input_ids"][at:]
        exact += answer(model, r["input_ids"][:at], len(want)) == want
    told = answer(model, [END] + sp.encode(ASKED), 60)
    print("%s: validation loss %.4f, exact answers %d of %d, %r"
          % (when, float(nll) / n, exact, len(val), sp.decode(told)))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    order = np.random.RandomState(torch.initial_seed())
    train, val = (rows("%s/%s.jsonl" % (sys.argv[2], part))
                  for part in ("train", "val"))
    sp = sentencepiece.SentencePieceProcessor(
        model_file=sys.argv[1] + "/tokenizer.model")
    model = LlamaForCausalLM.from_pretrained(sys.argv[1])
    model = get_peft_model(model, LoraConfig(
        r=8, lora_alpha=16, lora_dropout=0,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj",
                        "up_proj", "down_proj"]))
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=LR, weight_decay=0.01)
    report(model, val, sp, "before")
    todo, tokens = [], 0
    for update in range(UPDATES):
        if not todo:
            todo = packs(train, order.permutation(len(train)))
        now = [r for p in todo[:PACKS] for r in p]
        todo = todo[PACKS:]
        tokens += sum(len(r["input_ids"]) for r in now)
        at = max(0, update - WARMUP) / (UPDATES - WARMUP)
        opt.param_groups[0]["lr"] = LR * min(update / WARMUP, 1) * (
            0.5 + 0.5 * math.cos(math.pi * at))
        opt.zero_grad()
        nll, n = loss_of(model, now)
        (nll / n).backward()
        torch.nn.utils.clip_grad_norm_(params, 1)
        opt.step()
    report(model, val, sp, "after %d updates, %d tokens" % (UPDATES, tokens))


main()
