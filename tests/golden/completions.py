#!/usr/bin/env python3
"""Write tests/golden/completions.jsonl: rows of a prompt and a completion as
TRL's SFTTrainer tokenises and labels them.

Needs transformers 5.24. TRL itself is not needed: tokenize() and add_eos() are
its rules, of github huggingface/trl f2cd5771, trl/trainer/sft_trainer.py. TEMPLATES
as for chat.py.

The first line has the formats and tokenizers of the conversations, as in
chat.jsonl. Of each a line "messages" has a hash of the ids and behind it one of
the ids with -1 for what does not count; null: the template refuses the
conversation. A line "texts" has the same for each tokenizer of TEXTS, then the
same with a label for each token, and the tokens of the prompt alone; of the
latter +100 says that they are not the first ones of the whole.

usage: completions.py TEMPLATES
"""
import json
import os
import random
import sys

from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from chat import EDGES, PUBLISHED, SENTENCE, TOKENIZERS
from token_ids import fnv

OUT = "tests/golden/completions.jsonl"
TEXTS = ["llama2", "llama3", "mistral", "qwen2", "smollm2", "words"]


def opened(name):
    """The tokenizer, which puts bos before a text as the published ones do."""
    bos, eos = EDGES.get(name, ("<s>", "</s>"))
    t = Tokenizer.from_file(f"tests/golden/hf_tokenizers/{name}/tokenizer.json")
    if bos:
        t.post_processor = TemplateProcessing(single=bos + " $A", special_tokens=[(bos, t.token_to_id(bos))])
    return PreTrainedTokenizerFast(tokenizer_object=t, bos_token=bos, eos_token=eos)


def add_eos(completion, eos):
    return completion if completion.endswith(eos) else completion + eos


def hashes(ids, n):
    labels = [-1] * min(n, len(ids)) + ids[n:]
    return fnv(ids)[:8] + fnv([x & 0xFFFFFFFF for x in labels])[:8]


def texts(t, prompt, completion):
    head = t(text=prompt)["input_ids"]
    ids = t(text=prompt + add_eos(completion, t.eos_token))["input_ids"]
    n = len(head)
    return [hashes(ids, n), hashes(ids, 0), n + (0 if ids[:n] == head else 100)]


def messages(t, template, prompt, completion):
    how = {"chat_template": template, "date_string": "26 Jul 2024", "return_dict": False}
    try:
        head = t.apply_chat_template(prompt, add_generation_prompt=True, **how)
        ids = t.apply_chat_template(prompt + completion, **how)
    except Exception as why:  # raise_exception() of the template
        assert "raise" in repr(why) or "supported" in repr(why) or "alternate" in repr(why), why
        return None
    return hashes(ids, len(head))


def rows():
    rng = random.Random(47)
    parts = ["the job", " ends", "GPU 7", "\n", "\n\n", "  ", " ", "caf\u00e9", "\u4e2d\u6587", "\U0001f600", "x = 3.14", "It's", "\t", "\u00a0", "!", "a",
             "b", "ing", "12", "</s", "user"]

    def text(least, most=8):
        return "".join(rng.choices(parts, k=rng.randint(least, most)))

    fixed = [("Q: one\nA:", " two"), ("Q: one\nA: ", "two"), ("the jo", "b ends"), ("", "all of it"), (" ", " x"), ("1", "23"), ("\n", "\nx"),
             ("ends", " in its end</s>"), ("ends", "in another<|endoftext|>"), ("so", "<|end_of_text|>")]
    plain = fixed + [(text(0), "ok" + text(0)) for _ in range(60)] + [(text(1), text(1) + "k") for _ in range(60)]
    talks = []
    for _ in range(40):
        prompt = [] if rng.random() < 0.6 else [{"role": "system", "content": text(1)}]
        for _ in range(rng.choice([0, 0, 1, 2])):
            prompt += [{"role": "user", "content": text(0)}, {"role": "assistant", "content": text(1)}]
        prompt.append({"role": "user", "content": text(0)})
        completion = [{"role": "assistant", "content": text(0) + "k"}]
        if rng.random() < 0.2:
            completion += [{"role": "user", "content": text(1)}, {"role": "assistant", "content": "ok" + text(0)}]
        talks.append((prompt, completion))
    return plain, talks


def main():
    formats = {}
    for name, (form, _, path) in PUBLISHED.items():
        with open(path if name == "ours" else os.path.join(sys.argv[1], name + ".jinja"), encoding="utf-8", newline="") as f:
            formats.setdefault(form, []).append(f.read())
    tokenizers = {name: opened(name) for name in TEXTS}
    pairs = [(form, t) for form in formats for t in TOKENIZERS.get(form, SENTENCE)]
    plain, talks = rows()
    with open(OUT, "w", encoding="ascii") as f:
        def put(**line):
            f.write(json.dumps(line, separators=(",", ":")) + "\n")
        put(kind="names", of=[[form.lower(), t] for form, t in pairs], texts=TEXTS)
        for prompt, completion in plain:
            put(kind="texts", prompt=prompt, completion=completion, of=[texts(tokenizers[t], prompt, completion) for t in TEXTS])
        for prompt, completion in talks:
            of = []
            for form, t in pairs:
                got = {messages(tokenizers[t], template, prompt, completion) for template in formats[form]}
                assert len(got) == 1, (form, got)
                of.append(got.pop())
            put(kind="messages", prompt=prompt, completion=completion, of=of)


if __name__ == "__main__":
    main()
