#!/usr/bin/python3
"""Write the rows of jobs/examples/story-names/ from TinyStories.

usage: story_names.py TEXT TOKENIZER OUT_DIR      (sentencepiece)

Takes the sentences of TEXT that are shorter than 160 characters and have
exactly one "named NAME", in the order of the text: the first 75 are trained
on, the rest is for evaluation. A row asks who the story is about:

    train-text.jsonl, val-text.jsonl  {"instruction", "input", "output"}
    train.jsonl, val.jsonl            {"input_ids", "labels"}

The ids are id 1, the prompt, the answer, id 1: id 1 begins and ends a
document of stories260K. The labels are the ids, and -100 (not labelled) in the
prompt; as Hugging Face has it, they are not shifted. Prompt and answer are
encoded apart, so that a prompt alone has the same ids.
"""
import json
import os
import re
import sys

import sentencepiece

TRAIN, LONGEST, END, NOT_LABELLED = 75, 160, 1, -100
INSTRUCTION = "Who is the story about?"
PROMPT = "### Instruction:\n%s\n\n### Input:\n%s\n\n### Response:\n"


def sentences(text):
    for line in text.split("\n"):
        for s in re.findall(r'[^.!?]+[.!?]+"?', line):
            names = re.findall(r"\bnamed ([A-Z][a-z]+)", s)
            s = s.strip()
            if len(s) < LONGEST and len(names) == 1 and s.count("named") == 1:
                yield s, "The story is about %s." % names[0]


def write(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        for r in rows:
            f.write(json.dumps(r, ensure_ascii=False) + "\n")


def main():
    text, tokenizer, out = sys.argv[1:]
    sp = sentencepiece.SentencePieceProcessor(model_file=tokenizer)
    with open(text, encoding="utf-8") as f:
        found = list(sentences(f.read()))
    if {s for s, _ in found[:TRAIN]} & {s for s, _ in found[TRAIN:]}:
        sys.exit("a sentence is in both parts")
    os.makedirs(out, exist_ok=True)
    for part, rows in (("train", found[:TRAIN]), ("val", found[TRAIN:])):
        ids = []
        for sentence, answer in rows:
            asked = [END] + sp.encode(PROMPT % (INSTRUCTION, sentence))
            told = sp.encode(answer) + [END]
            ids.append({"input_ids": asked + told,
                        "labels": [NOT_LABELLED] * len(asked) + told})
        write(os.path.join(out, part + ".jsonl"), ids)
        write(os.path.join(out, part + "-text.jsonl"),
              [{"instruction": INSTRUCTION, "input": s, "output": a}
               for s, a in rows])


main()
