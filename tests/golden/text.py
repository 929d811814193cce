#!/usr/bin/env python3
"""Write tests/golden/text.jsonl: token ids of strings, of Alpaca rows, and packs.

Needs torch, torchtune 0.6.1 with torchao 0.9.0, and sentencepiece 0.1.97,
which is Debian's; the last release of torchtune. The strings are those of
golden_tok512.jsonl (MIT) without the ones from data sets, and of
gsm_8k_train_alpaca_format.json (MIT).

usage: text.py GOLDEN_TOK512 GSM8K > text.jsonl
"""
import json
import sys

from torchtune.data import AlpacaToMessages
from torchtune.datasets import PackedDataset
from torchtune.datasets._sft import SFTTransform
from torchtune.models.llama2 import llama2_tokenizer

MODELS = {
    "stories260K": "tests/data/stories260K/tokenizer.model",
    "torchtune": "tests/data/torchtune/m.model",
}
FOREIGN = {"alpaca", "jfleg", "samsum"}
ROWS = [
    {"instruction": "Give three words.", "input": "", "output": "One, two, three."},
    {"instruction": "Say it again.", "input": "a cat", "output": "a cat"},
    {"instruction": "Without the key", "output": "There is no input."},
    {"instruction": "Null", "input": None, "output": "Nor here."},
    {"instruction": " white \n", "input": "\tspace ", "output": "  in front, behind   "},
    {"instruction": "100 %s %d", "input": "{input} {instruction}", "output": "{output} %n"},
    {"instruction": "Größe", "input": "日本語", "output": "😀 e\u0301 \u00a0"},
    {"instruction": "No answer", "input": "", "output": ""},
    {"instruction": "New line", "input": "", "output": "\nbegins and ends\n"},
    {"instruction": "<s> is text", "input": "</s>", "output": "<unk></s> <0x41>"},
]
PACKS = {
    "mixed": (8, [3, 5, 1, 4, 4, 8, 2, 7, 1]),
    "alone": (4, [4, 3, 4, 2, 4]),
    "one": (32, [5, 6, 7]),
    "exact": (6, [2, 2, 2, 2, 2, 2]),
}


class Lengths:
    """Documents whose tokens count on."""

    def __init__(self, lengths):
        self.lengths = lengths

    def __len__(self):
        return len(self.lengths)

    def __iter__(self):
        at = 0
        for n in self.lengths:
            ids = list(range(at, at + n))
            at += n
            yield {"tokens": ids, "labels": list(ids)}


def tokens_of(model, row, train_on_input, max_seq_len):
    tokenizer = llama2_tokenizer(MODELS[model], max_seq_len, prompt_template=None)
    transform = SFTTransform(AlpacaToMessages(train_on_input), tokenizer)
    got = transform(dict(row))
    ids = [int(x) for x in got["tokens"]]
    assert all(x in (i, -100) for x, i in zip(got["labels"], ids))
    return ids, "".join("-" if x == -100 else "+" for x in got["labels"])


def limits(model, row):
    """Without one, and such as cut the row everywhere around its answer."""
    ids, labelled = tokens_of(model, row, False, None)
    prompt = labelled.count("-")
    near = {prompt - 3, prompt, prompt + 1, len(ids) - 1, len(ids)}
    return [None] + sorted(near)


def main():
    strings, gsm = sys.argv[1:]
    with open(strings, encoding="utf-8") as f:
        texts = [r["text"] for r in map(json.loads, f) if r["cat"] not in FOREIGN]
    with open(gsm, encoding="utf-8") as f:
        more = json.load(f)[:12]
    texts += [r["instruction"] for r in more] + [r["output"] for r in more]
    spm = {m: llama2_tokenizer(p) for m, p in MODELS.items()}
    rows = ROWS + more[:2]
    def put(kind, **values):
        line = {"kind": kind, **values}
        print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))

    for text in texts:
        ids = {m: t.encode(text, False, False) for m, t in spm.items()}
        back = {m: spm[m].decode(i) for m, i in ids.items()}
        put("string", text=text, ids=ids, decoded={m: b for m, b in back.items() if b != text})
    for row in rows:
        for m in MODELS:
            for most in limits(m, row):
                for on_input in (True, False):
                    ids, labelled = tokens_of(m, row, on_input, most)
                    put("alpaca", row=row, model=m, max_seq_len=most or 0,
                        train_on_input=on_input, ids=ids, labelled=labelled)
    for name, (most, lengths) in PACKS.items():
        packs = PackedDataset(Lengths(lengths), max_seq_len=most).packs
        put("packs", name=name, max_seq_len=most, lengths=lengths,
            seq_lens=[p["seq_lens"].tolist() for p in packs],
            tokens=[p["tokens"].tolist() for p in packs],
            input_pos=[p["input_pos"].tolist() for p in packs])


if __name__ == "__main__":
    main()
