#!/usr/bin/env python3
"""Write tests/golden/hf_tokenizers/: small tokenizer.json files in the layouts
of published models, and the ids that HF tokenizers has for 400 strings.

Needs tokenizers 0.23. The tokens are learnt from the text of README.md and
docs/, so the same tree gives the same files. Special tokens are not read in
text, as in mgpu (encode_special_tokens). Of each string ids.jsonl has for each
layout a hash of the ids, and the text that they become again where it is
another one.

usage: hf_tokenizers.py
"""
import glob
import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

from token_ids import PATTERN, STRINGS, fnv

HERE = "tests/golden/hf_tokenizers"
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPACE = "\u2581"


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated")


def special(*names):
    return [AddedToken(n, special=True, normalized=False) for n in names]


def plain(name, **how):
    return AddedToken(name, special=False, **{"normalized": False, **how})


CHATML = special("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TOOLS = [
    plain("<tool_call>"), plain("</tool_call>"), plain("<think>"), plain("<left>", lstrip=True),
    plain("<right>", rstrip=True), plain("<both>", lstrip=True, rstrip=True), plain("word", single_word=True),
    plain("<\u1112\u1161\u11ab>", normalized=True), plain("<|im_start|>x"), plain("ab ab"), plain("im_s"),
]
SENTENCE = special("<unk>", "<s>", "</s>")
REPLACE = decoders.Sequence(
    [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
# name: normalizer, pre-tokenizer, decoder, added tokens, whole tokens
LAYOUTS = {
    "llama3": (None, pre_tokenizers.Sequence([split(PATTERN), byte_level(False)]), decoders.ByteLevel(),
               special("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"), True),
    "qwen2": (normalizers.NFC(), pre_tokenizers.Sequence([split(QWEN2), byte_level(False)]), decoders.ByteLevel(),
              CHATML + TOOLS, False),
    "smollm2": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]),
                decoders.ByteLevel(), CHATML, False),
    "llama2": (normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]), None, REPLACE,
               SENTENCE, False),
    "mistral": (None, pre_tokenizers.Metaspace(SPACE, prepend_scheme="first", split=False), REPLACE,
                special("<unk>", "<s>", "</s>", "[INST]", "[/INST]") + [plain("<tool>"), plain("<n>", normalized=True, rstrip=True)], False),
    "words": (normalizers.NFC(), pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=True), REPLACE,
              SENTENCE, True),
}


def corpus():
    lines = []
    for path in ["README.md", *sorted(glob.glob("docs/*.md"))]:
        with open(path, encoding="utf-8") as f:
            lines += f.read().split("\n\n")
    return lines


def make(name):
    normal, pre, decoder, added, whole = LAYOUTS[name]
    is_bytes = isinstance(decoder, decoders.ByteLevel)
    t = Tokenizer(BPE(byte_fallback=not is_bytes, unk_token=None if is_bytes else "<unk>", fuse_unk=not is_bytes))
    if normal:
        t.normalizer = normal
    # Tokens may cross what the layout cuts (numbers, words), so that its cuts are seen.
    t.pre_tokenizer = byte_level(True) if is_bytes else pre_tokenizers.Metaspace(SPACE, prepend_scheme="always", split=False)
    first = [] if is_bytes else [a.content for a in added[:3]] + [f"<0x{b:02X}>" for b in range(256)]
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=len(first) + 600, special_tokens=first, show_progress=False, max_token_length=12, limit_alphabet=256 if is_bytes else 100,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if is_bytes else []))
    root = json.loads(t.to_str())
    root["added_tokens"] = []
    root["model"]["ignore_merges"] = whole
    if whole:  # a token that no merges make
        vocab = root["model"]["vocab"]
        vocab[next(w for w in ((SPACE if name == "words" else "") + w for w in ("thea", "word", "ing", "GPU")) if w not in vocab)] = len(vocab)
    t = Tokenizer.from_str(json.dumps(root))
    t.decoder = decoder
    if pre:
        t.pre_tokenizer = pre
    else:
        root = json.loads(t.to_str())
        root["pre_tokenizer"] = None
        t = Tokenizer.from_str(json.dumps(root))
    t.add_tokens([a for a in added if not a.special])
    t.add_special_tokens([a for a in added if a.special])
    return t


def strings():
    rng = random.Random(46)
    parts = list("aAzZ019 \n\r\t'.,!_-/<|>") + [
        "  ", "'s", "'LL", "\u00e9", "e\u0301", "\u00df", "\u0436", "\u4e2d", "\u306e", "\u0301", "\U0001f600", "\u00a0", "\u0663",
        "\u3000", SPACE, "\u212b", "\ud55c", "\u1112\u1161\u11ab", "the ", "ing", "job", "GPU", "thea", "\u00bd", "\u200d"]
    names = [a.content for layout in LAYOUTS.values() for a in layout[3]] + ["<0x41>", "<\ud55c>", "<\u1112\u1161\u11ab>", "words", "ab", "cafe\u0301"]
    out = list(STRINGS)
    while len(out) < 270:
        out.append("".join(rng.choices(parts, k=rng.randint(1, 40))))
    while len(out) < 400:
        out.append("".join(rng.choice(names if rng.random() < 0.3 else parts) for _ in range(rng.randint(1, 16))))
    return out


def main():
    all_of = {}
    for name in LAYOUTS:
        t = make(name)
        os.makedirs(f"{HERE}/{name}", exist_ok=True)
        with open(f"{HERE}/{name}/tokenizer.json", "w", encoding="utf-8") as f:
            f.write(json.dumps(json.loads(t.to_str()), ensure_ascii=True, separators=(",", ":")) + "\n")
        t.encode_special_tokens = True
        all_of[name] = t
    with open(f"{HERE}/ids.jsonl", "w", encoding="ascii") as f:
        for text in strings():
            line = {"kind": "string", "text": text, "ids": [], "back": {}}
            for name, t in all_of.items():
                ids = t.encode(text, add_special_tokens=False).ids
                back = t.decode(ids)
                line["ids"].append(fnv(ids)[:8])
                if back != text:
                    line["back"][name] = back
            f.write(json.dumps(line, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
