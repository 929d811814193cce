#!/usr/bin/env python3
"""Write tests/golden/token_ids.jsonl: ids of our own strings.

Needs tiktoken 0.14 and tokenizers 0.22. Names: ranks is tiktoken_small.model
with Meta's expression and cuts, json is tiny_bpe, ranks_json is the ranks as a
tokenizer.json with their merges, as Llama 3.x has both. A string that tiny_bpe
has no bytes for has null there: HF drops such bytes, mgpu refuses them.

With --json it writes that tokenizer.json, with some names of Llama 3.0; with
--bench it prints tokens/s of one thread: MODEL is a list of ranks, JSON a
tokenizer.json of HF.

usage: token_ids.py > token_ids.jsonl
       token_ids.py --json > ../data/torchtune/small/tokenizer.json
       token_ids.py --bench TEXT MODEL [JSON]
"""
import base64
import json
import random
import sys
import time

try:
    import tiktoken
except ImportError:  # hf_tokenizers.py needs it not
    tiktoken = None
import tokenizers

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
RANKS = "tests/data/torchtune/small/tokenizer.model"
JSON = "tests/data/torchtune/tiny_bpe/tokenizer.json"
STRINGS = [
    "", "a", " ", "  ", "\n", "\r\n", "\t", "\0", "hello", "Hello world", " hello  world ",
    "It's, it'S, I'm, we'LL they've D'd 're", "'ſ 'S 'K \u212a", "1", "12", "123", "1234", "1234567 89",
    "x = 3.14159e-10;", "a\n\nb\n \n c\r\n\r\n d", "   \n   x", "trailing   ", "\n\n\n", " \t \n\t x",
    "def f(x):\n    return x ** 2\n\n\tif x:\n\t\tpass", "!!!??? ... --- *** ###\n\n", "$5.00 #tag @name a_b c-d",
    "Größe café naïve Straße", "e\u0301 cafe\u0301", "Привет, мир!", "你好，世界。", "日本語のテスト", "안녕하세요",
    "مرحبا بالعالم", "שלום עולם", "हिन्दी में", "ไทยภาษา", "😀😃 👨\u200d👩\u200d👧\u200d👦 🇩🇪",
    "x\u00a0y\u2003z\u3000w", "a\u180e!\u180e1","a\u180eb \u180e c", "x \u180e1 \u180e\u180e!", "a\u0085b", "a\u2028b\u2029c", "zero\u200bwidth \ufeff bom",
    "½ ² Ⅷ ٣٤٥ ३४५ 四五", "\x1c\x1d\x1e\x1f x", "\u1680x\u2000\u200ay", "\u202fx\u205fy", "\U0001d400\U0001d7d8",
    "<|begin_of_text|>", "a<|eot_id|>b", "<|endoftext|> <|im_start|>", "<|start_header_id|>user<|end_header_id|>",
    "</s><s>", "https://example.com/a?b=c&d=%20", "{\"k\": [1, 2.5e3, null]}", "0" * 40, "A" * 100, "ab" * 100,
    " " * 100, "\n" * 100, ".-" * 80, "the " * 60, "aaab" * 70 + "x", "I thought the patient went", "\x7f\x01\x02",
]
# As (text, times): too long for a file.
LONG = [
    ("a", 25001), ("ab", 40000), (" ", 60001), ("a ", 210000), ("é", 50001), ("\n", 25002), ("\u3000", 25001), ("\u0085", 25001), ("\x1c", 25001), ("x\n", 200001),
    ("the ", 100001), ("!", 26000), ("12", 30000),
    ("ing", 20000), ("tionent", 5000),
]


def load_ranks(path):
    with open(path, "rb") as f:
        return {base64.b64decode(t): int(r) for t, r in (line.split() for line in f)}


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def random_strings():
    """Strings of characters from many classes."""
    rng = random.Random(27)
    parts = list("aAzZ019 \n\r\t'.,!_-/<|>") + ["  ", "'s", "'LL", "é", "ß", "ж", "中", "の", "\u0301", "😀", "\u00a0", "٣", "\u3000"]
    plain = [p for p in parts if p.isascii() and p not in "\r\t"] + ["the", "ing", "tion", "ent"]
    return ["".join(rng.choices(p, k=rng.randint(1, 40))) for p in (parts, plain) for _ in range(100)]


def as_json(ranks):
    """The ranks as a tokenizer.json, in the form of Llama 3."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printed]
    letter = {b: chr(b) for b in printed} | {b: chr(256 + i) for i, b in enumerate(others)}
    write = lambda t: "".join(letter[b] for b in t)
    merges = [
        [write(t[:i]), write(t[i:])]
        for t, _ in sorted(ranks.items(), key=lambda x: x[1])
        for i in range(1, len(t)) if t[:i] in ranks and t[i:] in ranks
    ]
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    names = {0: "<|begin_of_text|>", 1: "<|end_of_text|>", 4: "<|reserved_special_token_2|>", 9: "<|eot_id|>"}
    added = [{"id": len(ranks) + i, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, name in names.items()]
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                  "vocab": {write(t): r for t, r in ranks.items()}, "merges": merges}}, separators=(",", ":"))


def cut(text, run=25000):
    """As Meta's Tokenizer._split_whitespaces_or_nonwhitespaces()."""
    length, space, start = 0, text[:1].isspace(), 0
    for i, c in enumerate(text):
        if space != c.isspace():
            length, space = 1, c.isspace()
        else:
            length += 1
            if length > run:
                yield text[start:i]
                start, length = i, 1
    yield text[start:]


def meta(encoding, text):
    ids = []
    for i in range(0, len(text), 400000):
        for part in cut(text[i:i + 400000]):
            ids += encoding.encode_ordinary(part)
    return ids


def encoding_of(path):
    return tiktoken.Encoding("ranks", pat_str=PATTERN, mergeable_ranks=load_ranks(path), special_tokens={})


def without_special(text):
    """Text never becomes a special token here."""
    root = json.loads(text)
    root["added_tokens"] = []
    return tokenizers.Tokenizer.from_str(json.dumps(root))


def fnv(ids):
    h = 0xCBF29CE484222325
    for i in ids:
        h = (h ^ i) * 0x100000001B3 & (1 << 64) - 1
    return f"{h:016x}"


def golden():
    ranks, tiny = encoding_of(RANKS), without_special(read(JSON))
    hf = without_special(as_json(load_ranks(RANKS)))
    put = lambda **v: print(json.dumps(v, ensure_ascii=True, separators=(",", ":")))
    for text in STRINGS + random_strings():
        ids = ranks.encode_ordinary(text)
        assert ids == hf.encode(text, add_special_tokens=False).ids, text
        known = tiny.encode(text, add_special_tokens=False).ids
        if tiny.decode(known) != text:
            known = None
        put(kind="string", text=text, ranks=ids, json=known)
    for text, times in LONG:
        ids = meta(ranks, text * times)
        put(kind="long", text=text, times=times, n=len(ids), fnv=fnv(ids))


def bench(text, model, *more):
    lines = read(text).split("\n\n")
    engines = {"tiktoken": encoding_of(model).encode_ordinary}
    if more:
        hf = without_special(read(more[0]))
        engines["tokenizers"] = lambda s: hf.encode(s, add_special_tokens=False).ids
    for name, encode in engines.items():
        best = 0
        for _ in range(3):
            start = time.perf_counter()
            n = sum(len(encode(line)) for line in lines)
            best = max(best, n / (time.perf_counter() - start))
        print(f"{name:<12} {n} tokens, {best:.0f} tokens/s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bench"]:
        bench(*sys.argv[2:])
    elif sys.argv[1:] == ["--json"]:
        print(as_json(load_ranks(RANKS)))
    else:
        golden()
