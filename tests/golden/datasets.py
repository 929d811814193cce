#!/usr/bin/env python3
"""Write the rows of tests/data/rows, and sums of the tokens that torchtune
makes of them.

Needs torch, torchtune 0.6.1 with torchao 0.9.0, and the files of GSM8K in the
form of Alpaca (MIT), C4_200M (CC BY 4.0 on C4) and OpenOrca in the form of
SlimOrca (MIT). The other rows are made of these, or are our own.

usage: datasets.py rows GSM8K C4_200M OPENORCA     writes tests/data/rows
       datasets.py sums > tests/golden/datasets.jsonl
       datasets.py sums DIR > DIR/datasets.jsonl   of files that we may not ship

A sum is the lower half of CRC-64/XZ over the ids of a row and its labels, as
int32, -1 where a token is not labelled: in hexadecimal, for each row.
"""
import csv
import gzip
import itertools
import json
import os
import sys

# This file has the name of a library that torchtune imports.
sys.path.pop(0)

ROWS = 200
DIR = "tests/data/rows"
SMALL = "tests/data/torchtune/small/tokenizer.model"
MODELS = {
    "stories260K": "tests/data/stories260K/tokenizer.model",
    "torchtune": "tests/data/torchtune/m.model",
    "small": SMALL,
}


def write(name, text):
    with open(f"{DIR}/{name}", "wb") as f:
        with gzip.GzipFile(fileobj=f, mode="wb", compresslevel=9, mtime=0) as z:
            z.write(text.encode("utf-8"))


def lines(rows):
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)


def chats(gsm):
    """Conversations of several turns, with and without a system message."""
    for i in range(ROWS):
        turns = 1 + i % 3
        row = [{"role": "system", "content": f" Answer briefly, {i}.\n"}] if i % 2 else []
        for k in range(turns):
            r = gsm[(i + 7 * k) % len(gsm)]
            row.append({"role": "user", "content": r["instruction"] + "  " * (k % 2)})
            row.append({"role": "assistant", "content": "\u00a0 " * (i % 5 == 0) + r["output"]})
        if i % 11 == 3:
            row.append({"role": "user", "content": "and then?"})
        yield {"messages": row}


def pairs(gsm):
    for i in range(ROWS):
        question = [{"role": "user", "content": gsm[i]["instruction"]}]
        if i % 4 == 1:
            question = [{"role": "system", "content": "Be right."}] + question
        yield {
            "chosen": question + [{"role": "assistant", "content": gsm[i]["output"]}],
            "rejected": question + [{"role": "assistant", "content": gsm[i - 1]["output"]}],
        }


def make_rows(gsm_path, c4_path, orca_path):
    with open(gsm_path, encoding="utf-8") as f:
        gsm = json.load(f)[:ROWS]
    for i, row in enumerate(gsm):
        if i % 5 == 2:
            row["input"] = f"The {i}th of them.\n"
    write("gsm8k.json.gz", json.dumps(gsm, ensure_ascii=False, indent=0))
    with open(c4_path, encoding="utf-8-sig") as f:
        kept = list(itertools.islice(csv.reader(f), ROWS + 1))
    out = []
    for row in kept:
        out.append(",".join('"' + c.replace('"', '""') + '"' for c in row) + "\r\n")
    write("c4_200m.csv.gz", "\ufeff" + "".join(out))
    with open(orca_path, encoding="utf-8") as f:
        write("openorca.jsonl.gz", "".join(itertools.islice(f, ROWS)))
    write("chat.jsonl.gz", lines(chats(gsm)))
    write("preference.jsonl.gz", lines(pairs(gsm)))
    write("talk.jsonl.gz", lines(
        {"dialogue": f"Ann: {r['instruction']}\r\nBob: It's {i}.\r\n" * (i % 9 > 0),
         "summary": f"Ann asks: {r['instruction'][:60]}"} for i, r in enumerate(gsm)))


def read(path, most=ROWS):
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as f:
        name = path.removesuffix(".gz")
        if name.endswith((".csv", ".tsv")):
            rows = csv.DictReader(f, delimiter="," if name.endswith("csv") else "\t")
            return list(itertools.islice(rows, most))
        text = f.read()
    if text.lstrip().startswith("["):
        return json.loads(text)[:most]
    return [json.loads(x) for x in itertools.islice(filter(str.strip, text.split("\n")), most)]


def crc64_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0xC96C5795D7870F42 if i & 1 else 0)
        table.append(i)
    return table


TABLE = crc64_table()


def crc64(data):
    s = 0xFFFFFFFFFFFFFFFF
    for b in data:
        s = TABLE[(s ^ b) & 255] ^ s >> 8
    return s ^ 0xFFFFFFFFFFFFFFFF


def sum_of(ids, mask):
    values = list(ids) + [-1 if m else i for i, m in zip(ids, mask)]
    return f"{crc64(b''.join(int(v).to_bytes(4, 'little', signed=True) for v in values)) & 0xFFFFFFFF:08x}"


def tokenizer_of(model, path, most, prompt):
    from torchtune.models.llama2 import Llama2ChatTemplate, llama2_tokenizer
    from torchtune.models.llama3 import Llama3Tokenizer
    from torchtune.models.llama3._tokenizer import LLAMA3_SPECIAL_TOKENS
    from torchtune.data import (ChatMLTemplate, GrammarErrorCorrectionTemplate,
                                QuestionAnswerTemplate, SummarizeTemplate)
    template = {None: lambda: None, "llama2_chat": Llama2ChatTemplate, "chatml": ChatMLTemplate,
                "grammar": GrammarErrorCorrectionTemplate, "summarize": SummarizeTemplate,
                "question_answer": QuestionAnswerTemplate}[prompt]()
    if model in ("small", "llama3"):
        with open(path, "rb") as f:
            ranks = len(f.read().split(b"\n")) - 1
        special = {k: v - 128000 + ranks for k, v in LLAMA3_SPECIAL_TOKENS.items()}
        return Llama3Tokenizer(path, special, most, template)
    t = llama2_tokenizer(path, most, prompt_template=None)
    t.prompt_template = template
    return t


def transform_of(template, on_input, columns, system):
    from torchtune.data import (AlpacaToMessages, ChosenRejectedToMessages, InputOutputToMessages,
                                OpenAIToMessages, ShareGPTToMessages)
    if template == "alpaca":
        return AlpacaToMessages(on_input, columns)
    if template == "samsum":
        columns = columns or {"input": "dialogue", "output": "summary"}
    kind = {"grammar": InputOutputToMessages, "samsum": InputOutputToMessages,
            "slimorca": ShareGPTToMessages, "chat": OpenAIToMessages,
            "preference": ChosenRejectedToMessages}[template]
    return kind(on_input, columns, system)


def sums(tokenizer, case, rows):
    from torchtune.data._utils import truncate
    from torchtune.datasets._sft import SFTTransform
    template = case["template"]
    if template == "completion":
        for row in rows:
            ids = tokenizer.encode(row[case["columns"]["text"]], add_bos=True, add_eos=True)
            if tokenizer.max_seq_len is not None:
                ids = truncate(ids, tokenizer.max_seq_len - 1)
            yield sum_of(ids, [False] * len(ids))
        return
    transform = transform_of(template, case["train_on_input"], case.get("columns"), case.get("system"))
    if template == "preference":
        for row in rows:
            got = transform(row)
            for side in ("chosen", "rejected"):
                yield sum_of(*tokenizer.tokenize_messages(got[side]))
        return
    sft = SFTTransform(transform, tokenizer)
    for row in rows:
        got = sft(row)
        yield sum_of(got["tokens"], got["mask"])


# Template, file, prompt templates, columns, a system prompt.
SHIPPED = [
    ("alpaca", "gsm8k.json.gz", [None], None, None),
    ("grammar", "c4_200m.csv.gz", [None, "grammar", "llama2_chat"],
     {"input": "input", "output": "target"}, None),
    ("grammar", "gsm8k.json.gz", ["question_answer"],
     {"input": "instruction", "output": "output"}, " Count. "),
    ("samsum", "talk.jsonl.gz", [None, "summarize"], None, None),
    ("slimorca", "openorca.jsonl.gz", [None, "llama2_chat"], None, None),
    ("chat", "chat.jsonl.gz", [None, "chatml", "llama2_chat"], None, None),
    ("chat", "chat.jsonl.gz", [None], None, "Be kind.\n"),
    ("completion", "gsm8k.json.gz", [None], {"text": "output"}, None),
    ("preference", "preference.jsonl.gz", [None], None, None),
]
# Of a directory with files that we may not ship, and Meta's tokenizers.
FOREIGN = [
    ("alpaca", "alpaca/alpaca_random_9k.json", [None], None, None),
    ("samsum", "samsum/train.jsonl.gz", [None, "summarize"], None, None),
]
# Rows whose roles keep torchtune's masks: a row's own system message is never
# labelled here, and is in torchtune with train_on_input.
NO_INPUT = {"slimorca", "chat", "preference"}


def cases(listed, models):
    for template, file, prompts, columns, system in listed:
        for prompt, model in itertools.product(prompts, models):
            both = template not in NO_INPUT | {"completion"}
            for on_input, most in itertools.product((False, True) if both else (False,), (None, 60)):
                yield {"template": template, "file": file, "model": model, "prompt": prompt,
                       "columns": columns, "system": system, "train_on_input": on_input,
                       "max_seq_len": most or 0}


def make_sums(folder):
    models, listed, base = MODELS, SHIPPED, DIR
    if folder:
        models = {"llama2": f"{folder}/llama2-tokenizer/tokenizer.model",
                  "llama3": f"{folder}/llama3-tokenizer/tokenizer.model"}
        listed, base = FOREIGN, folder
    for case in cases(listed, models):
        t = tokenizer_of(case["model"], models[case["model"]], case["max_seq_len"] or None, case["prompt"])
        rows = read(f"{base}/{case['file']}")
        print(json.dumps({**case, "sums": list(sums(t, case, rows))}, separators=(",", ":")))


if __name__ == "__main__":
    if sys.argv[1] == "rows":
        make_rows(*sys.argv[2:])
    else:
        make_sums(sys.argv[2] if len(sys.argv) > 2 else None)
