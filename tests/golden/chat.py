#!/usr/bin/env python3
"""Write tests/golden/chat.jsonl, conversations in the chat formats of published
models, and worker/data/chat/chat_known.def, by which mgpu recognises these.

Needs transformers 5.24. TEMPLATES is a directory with the chat_template of each
row of PUBLISHED, exactly as its source has it: NAME.jinja. The texts are not
ours, but for tests/golden/chat_ours.jinja, so the tree has their digests alone: SHA-256 over the length of the text
without white space, 8 bytes, and that text (jobs/http/digest_ssl.h).

The first line of chat.jsonl has the formats and tokenizers, the latter of
tests/golden/hf_tokenizers/. Each other line is a conversation and, for each of
these, a hash of the ids of apply_chat_template() and behind it one of the ids
with -1 for each token that is not of an answer. null: the template
refuses the conversation. Which characters are an answer's is found by putting
another answer in its place; a token with one of them counts.

tests/golden/chat_asks.jsonl has conversations whose last message is the user's, and a
hash of the ids of each with add_generation_prompt. Some answers have a thought.

usage: chat.py TEMPLATES
"""
import hashlib
import json
import os
import random
import sys

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from token_ids import fnv

OUT = "tests/golden/chat.jsonl"
ASKS = "tests/golden/chat_asks.jsonl"
KNOWN = "worker/data/chat/chat_known.def"
JS = "github huggingface/huggingface.js fe42e680, packages/"
E2E, MAP = JS + "jinja/test/e2e.test.js", JS + "ollama-utils/src/chat-template-automap.ts"
TRL = "github huggingface/trl f2cd5771, trl/chat_templates/"
# file without .jinja: format, model, where the text stands. All were read on 2026-11-29.
READ = "2026-11-29"
PUBLISHED = {
    "ours": ("HERMES", "mgpu", "tests/golden/chat_ours.jinja"),
    "hermes": ("HERMES", "teknium/OpenHermes-2.5-Mistral-7B",
               "github abetlen/llama-cpp-python 3691546f, llama_cpp/llama_chat_format.py"),
    "hermes-dolphin": ("HERMES", "cognitivecomputations/dolphin-2.5-mixtral-8x7b", E2E),
    "qwen3-2507": ("HERMES", "Qwen3-Instruct-2507", TRL + "qwen3_instruct_2507.jinja"),
    "hermes3": ("HERMES3", "Hermes 3 (ollama hermes3:70b)", MAP),
    "qwen2": ("QWEN2", "Qwen2 (ollama qwen2:0.5b)", MAP),
    "qwen2_5": ("QWEN2_5", "Qwen/Qwen2.5-7B-Instruct", E2E),
    "qwen2_5-small": ("QWEN2_5", "Qwen2.5 (ollama qwen2.5:0.5b)", MAP),
    "qwen3": ("QWEN3", "Qwen/Qwen3-0.6B", E2E),
    "qwen3-trl": ("QWEN3", "Qwen3", TRL + "qwen3.jinja"),
    "smollm2": ("SMOLLM2", "SmolLM2 (ollama smollm2:135m)", MAP),
    "llama2": ("LLAMA2", "Llama 2 (ollama llama2:7b)", MAP),
    "llama3": ("LLAMA3", "meta-llama/Meta-Llama-3-8B-Instruct", TRL + "llama3.jinja"),
    "llama3_1": ("LLAMA3_1", "meta-llama/Llama-3.1-8B-Instruct", E2E),
    "llama3_2": ("LLAMA3_1", "Llama 3.2", TRL + "llama3_2.jinja"),
    "mistral": ("MISTRAL", "mistralai/Mixtral-8x7B-Instruct-v0.1", E2E),
    "mistral_v0_1": ("MISTRAL_V0_1", "mistralai/Mistral-7B-Instruct-v0.1", E2E),
    "mistral_v0_3": ("MISTRAL_V0_3", "mistralai/Mistral-7B-Instruct-v0.3", E2E),
    "mistral_v1": ("MISTRAL_V1", "Mixtral 8x7B (ollama mixtral:8x7b)", MAP),
    "mistral_v3": ("MISTRAL_V3", "Mixtral 8x22B (ollama mixtral:8x22b)", MAP),
    "mistral_nemo": ("MISTRAL_NEMO", "mistralai/Mistral-Nemo-Instruct-2407", E2E),
    "zephyr": ("ZEPHYR", "HuggingFaceH4/zephyr-7b-beta", E2E),
}
TOKENIZERS = {"HERMES": ["smollm2", "qwen2"], "HERMES3": ["qwen2"], "QWEN2": ["qwen2"], "QWEN2_5": ["qwen2", "smollm2"],
              "QWEN3": ["qwen2"], "SMOLLM2": ["smollm2"], "LLAMA2": ["llama2", "words"], "LLAMA3": ["llama3"],
              "LLAMA3_1": ["llama3"], "ZEPHYR": ["llama2", "mistral"]}
SENTENCE = ["llama2", "mistral"]
EDGES = {"llama3": ("<|begin_of_text|>", "<|end_of_text|>"), "qwen2": (None, "<|endoftext|>"), "smollm2": (None, "<|endoftext|>")}
ENDS = {"LLAMA3": "<|eot_id|>", "LLAMA3_1": "<|eot_id|>"}
ENDS.update({f: "<|im_end|>" for f in ("HERMES", "HERMES3", "QWEN2", "QWEN2_5", "QWEN3", "SMOLLM2")})
OTHER = "zqz"


def conversations():
    rng = random.Random(46)
    words = ["the job", " ends", "GPU 7", "\n", "\n\n", "  ", " ", "caf\u00e9", "e\u0301", "\u4e2d\u6587", "\U0001f600", "x = 3.14", "It's", "\t",
             "Stra\u00dfe", "\u00a0", "\u3000", "- a\n- b", "{{ x }}", "{% y %}", "!", "[", "<<", "'", '"', "user", "assistant", "<think>", "</s"]

    def text(least):
        return "".join(rng.choices(words, k=rng.randint(least, 9)))

    fixed = [
        [("user", "Hello"), ("assistant", "Hi there")],
        [("system", ""), ("user", "Hello"), ("assistant", "Hi there ")],
        [("system", " be kind \n"), ("user", "\nHello "), ("assistant", "\n\n Hi there \n")],
        [("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"), ("user", "e")],
        [("user", ""), ("assistant", "b")],
        [("user", " "), ("assistant", " b"), ("user", "c"), ("assistant", "d\n")],
        [("system", "  "), ("user", ""), ("assistant", "b")],
    ]
    out = [[{"role": r, "content": c} for r, c in one] for one in fixed]
    while sum(one[0]["role"] == "user" for one in out) < 60:  # some formats have no system
        kind, turns = rng.choice(["none", "none", "none", "empty", "text"]), rng.randint(1, 4)
        one = [] if kind == "none" else [{"role": "system", "content": "" if kind == "empty" else text(1)}]
        for i in range(turns):
            one.append({"role": "user", "content": text(0)})
            one.append({"role": "assistant", "content": text(0) if i + 1 < turns else "ok" + text(0)})
        if rng.random() < 0.2:
            one.append({"role": "user", "content": text(1)})
        out.append(one)
    return out


def questions():
    """Conversations that the model is to go on."""
    thoughts = ["<think>\nLet me see.\n</think>\n\nIt is 7.", "<think>\n\n</think>\n\n Yes\n", "</think>a</think>\n\nb", "no thought"]
    out = [one + [{"role": "user", "content": "And\nthen? "}] for one in conversations() if one[-1]["role"] == "assistant"][:32]
    for i, a in enumerate(thoughts):
        one = [{"role": "user", "content": "Which GPU?"}, {"role": "assistant", "content": a}, {"role": "user", "content": "Why?"}]
        out.append(one)
        out.append([{"role": "system", "content": "s"}] + one[:2] + [{"role": "user", "content": " b"}, {"role": "assistant", "content": thoughts[i - 1]}, one[2]])
    return out


class Format:
    def __init__(self, name, texts):
        self.name, self.texts = name, texts
        self.tokenizers = {}
        for t in TOKENIZERS.get(name, SENTENCE):
            bos, eos = EDGES.get(t, ("<s>", "</s>"))
            self.tokenizers[t] = PreTrainedTokenizerFast(
                tokenizer_file=f"tests/golden/hf_tokenizers/{t}/tokenizer.json", bos_token=bos, eos_token=eos)

    def render(self, tokenizer, messages, asks=False):
        """The text, or None. All templates of the format agree."""
        got = set()
        for text in self.texts:
            try:
                got.add(tokenizer.apply_chat_template(messages, chat_template=text, tokenize=False, add_generation_prompt=asks, date_string="26 Jul 2024"))
            except Exception as why:  # raise_exception() of the template
                assert "raise" in repr(why) or "supported" in repr(why) or "alternate" in repr(why), why
                got.add(None)
        assert len(got) == 1, (self.name, got)
        return got.pop()

    def answers(self, tokenizer, messages, text):
        """Which characters count: from an answer to the token that ends it."""
        end = ENDS.get(self.name, "</s>")
        spans = []
        for i, m in enumerate(messages):
            if m["role"] != "assistant":
                continue
            other = self.render(tokenizer, messages[:i] + [{"role": "assistant", "content": OTHER}] + messages[i + 1:])
            start = other.index(OTHER)
            rest = len(other) - start - len(OTHER)
            spans.append((start, text.index(end, len(text) - rest) + len(end)))
        return spans

    def ask(self, tokenizer, messages):
        if self.render(tokenizer, messages, True) is None:
            return None
        return fnv(tokenizer.apply_chat_template(messages, chat_template=self.texts[0], date_string="26 Jul 2024", return_dict=False,
                                                 add_generation_prompt=True))[:8]

    def line(self, tokenizer, messages):
        text = self.render(tokenizer, messages)
        if text is None:
            return None
        ids = tokenizer.apply_chat_template(messages, chat_template=self.texts[0], date_string="26 Jul 2024", return_dict=False)
        got = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        assert got["input_ids"] == ids
        spans = self.answers(tokenizer, messages, text)
        labels = [t if any(a < end and b > start for start, end in spans) else -1 for t, (a, b) in zip(ids, got["offset_mapping"])]
        return fnv(ids)[:8] + fnv([x & 0xFFFFFFFF for x in labels])[:8]


def digest(text):
    # ASCII white space, as chat_template.c has it
    bare = b"".join(text.encode().split())
    return hashlib.sha256(len(bare).to_bytes(8, "big") + bare).hexdigest()


def main():
    texts, formats = {}, {}
    for name in PUBLISHED:
        path = PUBLISHED[name][2] if name == "ours" else os.path.join(sys.argv[1], name + ".jinja")
        with open(path, encoding="utf-8", newline="") as f:
            texts[name] = f.read()
        formats.setdefault(PUBLISHED[name][0], []).append(texts[name])
    with open(KNOWN, "w", encoding="ascii") as f:
        f.write("/* chat_known.def - rows of chat_template.c: digests of published chat templates.\n"
                " * tests/golden/chat.py writes it. */\n")
        for name, (prompt, model, source) in PUBLISHED.items():
            f.write(f'/* src  {source} */\n{{"{digest(texts[name])}",\n PROMPT_{prompt}, "{model}", "{READ}"}},\n')
    formats = [Format(name, t) for name, t in formats.items()]
    with open(ASKS, "w", encoding="ascii") as f:
        pairs = [(one, t) for one in formats for t in one.tokenizers]
        f.write(json.dumps({"kind": "names", "of": [[one.name.lower(), t] for one, t in pairs]}, separators=(",", ":")) + "\n")
        for messages in questions():
            line = {"kind": "chat", "messages": messages, "of": [one.ask(one.tokenizers[t], messages) for one, t in pairs]}
            f.write(json.dumps(line, ensure_ascii=True, separators=(",", ":")) + "\n")
    with open(OUT, "w", encoding="ascii") as f:
        pairs = [(one, t) for one in formats for t in one.tokenizers]
        names = {"kind": "names", "of": [[one.name.lower(), t] for one, t in pairs]}
        f.write(json.dumps(names, separators=(",", ":")) + "\n")
        for messages in conversations():
            line = {"kind": "chat", "messages": messages, "of": [one.line(one.tokenizers[t], messages) for one, t in pairs]}
            f.write(json.dumps(line, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
