#!/usr/bin/python3
"""Check what mgpu-model export writes with the package gguf, and others.

usage: gguf_check.py MGPU_MODEL TREE [LLAMA2_TOKENIZER_MODEL
           LLAMA3_TOKENIZER_JSON]
       (PyTorch 2.15, transformers 5.24, gguf 0.19; sentencepiece 0.2.3;
       xllamacpp 2026.10, if it is there: llama.cpp itself)

Makes small models of drawn weights, exports each as f16, bf16 and q8_0, and
fails at the first difference:

  tensors    names, shapes and types by gguf.txt, whose names are those of gguf's
             own table; each byte of each tensor is what gguf.quants makes of
             the same values
  keys       all, with types and values, by gguf.txt; nothing else is there
  tokens     those of transformers or sentencepiece, special ids, merges and
             the template with gguf.SpecialVocab
  logits     of transformers, which reads the f16 file, with those of the model
             with its matrices rounded to f16
  llama.cpp  loads each file, and its log probabilities of the eight likeliest
             tokens behind 1 to 180 tokens are those of the model: within 0.05
             for f16, 0.1 for bf16, whose inputs llama.cpp rounds to bf16, too,
             and 0.2 for q8_0; and so behind texts, which it cuts
             into as many tokens as HF tokenizers or sentencepiece

Prints a line for each model.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

# The modules of this folder have names that transformers imports, too.
sys.path.pop(0)

import gguf
import numpy as np
import torch
from gguf.vocab import SpecialVocab
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

try:
    import xllamacpp
except ImportError:
    xllamacpp = None

TYPES = {"f16": ("F16", 1), "bf16": ("BF16", 32), "q8_0": ("Q8_0", 7)}
NEAR = {"f16": 0.05, "bf16": 0.1, "q8_0": 0.2}
TEXTS = ["Once upon a time, there was a boy named Tim.",
         "It's 1234 o'clock:\n\n  she said \"No!\", and they'll go...",
         "na\u00efve \u00dcber stra\u00dfe \u4f60\u597d"]
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=256, rms_norm_eps=1e-5)
LLAMA = dict(model_type="llama", architectures=["LlamaForCausalLM"])
QWEN2 = dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"])
QWEN3 = dict(model_type="qwen3", architectures=["Qwen3ForCausalLM"])
MISTRAL = dict(model_type="mistral", architectures=["MistralForCausalLM"])
# name: (configuration, dtype, tokenizer, tokenizer_config.json, its pre)
MODELS = {
    "llama-spm": (dict(LLAMA, vocab_size=512, tie_word_embeddings=True,
                       bos_token_id=1, eos_token_id=2, rope_parameters=dict(
                           rope_type="linear", factor=2.0, rope_theta=5e3)),
                  torch.float32, "stories", None, "default"),
    "llama3": (dict(LLAMA, vocab_size=640, num_hidden_layers=3,
                    bos_token_id=601, eos_token_id=[602, 605],
                    rope_parameters=dict(
                        rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                        high_freq_factor=4.0, rope_theta=5e5,
                        original_max_position_embeddings=64)),
               torch.bfloat16, "llama3",
               dict(bos_token="<|begin_of_text|>", eos_token="<|eot_id|>",
                    chat_template=TEMPLATE), "llama-bpe"),
    "llama-biases": (dict(LLAMA, vocab_size=859, attention_bias=True,
                          mlp_bias=True, bos_token_id=1, eos_token_id=2),
                     torch.float16, "llama2",
                     dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                          add_bos_token=True, add_eos_token=False), "default"),
    "llama-odd": (dict(LLAMA, vocab_size=870, hidden_size=48,
                       intermediate_size=72, num_attention_heads=3,
                       num_key_value_heads=1, bos_token_id=1, eos_token_id=2),
                  torch.float32, "llama2",
                  dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                       add_prefix_space=True), "default"),
    "smollm": (dict(LLAMA, vocab_size=608, tie_word_embeddings=True,
                    bos_token_id=1, eos_token_id=2), torch.bfloat16, "smollm2",
               dict(eos_token="<|im_end|>", pad_token="<|im_end|>"), "smollm"),
    # transformers takes a file of the architecture llama for another one where
    # its name has the word mistral, and then refuses it.
    "windowed": (dict(MISTRAL, vocab_size=864, head_dim=32,
                      sliding_window=200, bos_token_id=1, eos_token_id=2),
                 torch.bfloat16, "mistral",
                 dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>",
                      add_bos_token=True, chat_template=TEMPLATE), "default"),
    "qwen2": (dict(QWEN2, vocab_size=640, tie_word_embeddings=True,
                   use_sliding_window=True, sliding_window=200,
                   max_window_layers=1, bos_token_id=None, eos_token_id=613,
                   rope_parameters=dict(
                       rope_type="yarn", factor=4.0, rope_theta=1e4,
                       original_max_position_embeddings=64)),
              torch.float32, "qwen2",
              dict(eos_token="<|im_end|>", pad_token="<|im_end|>",
                   add_bos_token=False, chat_template=TEMPLATE), "qwen2"),
    "qwen3": (dict(QWEN3, vocab_size=640, head_dim=128, eos_token_id=613,
                   bos_token_id=None), torch.bfloat16, "qwen2",
              dict(eos_token="<|im_end|>", add_bos_token=False), "qwen2"),
}


def fail(*words):
    sys.exit("gguf_check: " + " ".join(map(str, words)))


def read_table(path):
    tensors, keys = [], []
    for line in open(path, encoding="utf-8"):
        word = line.split()
        if word and word[0] == "tensor":
            tensors.append((word[1].split(","), *word[2:]))
        elif word and word[0] == "key":
            keys.append((word[1].split(","), *word[2:]))
    return tensors, keys


def check_table(tensors, keys):
    """The names of the table are gguf's own."""
    known = {v for c in (gguf.Keys.General, gguf.Keys.LLM, gguf.Keys.Attention,
                         gguf.Keys.Rope, gguf.Keys.Tokenizer)
             for v in vars(c).values() if isinstance(v, str)}
    for _, key, *_ in keys:
        if key.replace("ARCH.", "{arch}.") not in known:
            fail(key, "is no key of gguf")
    for archs, hf, name, _ in tensors:
        for arch in archs:
            number = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch]
            to = gguf.get_tensor_name_map(number, 2).get_name(
                hf.replace("N", "1"), try_suffixes=(".weight", ".bias"))
            if to != name.replace("N", "1"):
                fail(arch, hf, "is", to, "in gguf, not", name)


def make(case, top, tree, name):
    conf, dtype, tokenizer, tokenizer_config, _ = case
    torch.manual_seed(len(name))
    at = os.path.join(top, name)
    merged = dict(SIZES, pad_token_id=None, **{
        k: v for k, v in conf.items() if k not in SIZES})
    merged.update(conf)
    config = AutoConfig.for_model(**merged)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for n, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.12 + (1 if "norm" in n else 0))
    model = model.to(dtype)
    model.save_pretrained(at)
    if tokenizer == "stories":
        shutil.copy(tree + "/tests/data/stories260K/tokenizer.model", at)
    elif "/" in tokenizer:
        shutil.copy(tokenizer, at + "/tokenizer." + tokenizer.split(".")[-1])
    else:
        shutil.copy(tree + "/tests/golden/hf_tokenizers/%s/tokenizer.json" %
                    tokenizer, at)
    if tokenizer_config is not None:
        words = dict(tokenizer_class="PreTrainedTokenizerFast",
                     **tokenizer_config)
        json.dump(words, open(at + "/tokenizer_config.json", "w"))
    return at


def pairs(x, heads):
    shape = x.shape
    return x.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(
        1, 2).reshape(shape)


def rope_factors(config, rope):
    """llama.py, generate_extra_tensors(), in double."""
    dim = head_dim(config)
    old = rope["original_max_position_embeddings"]
    freq = 1 / rope["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    out = []
    for wave in 2 * np.pi / freq:
        if wave < old / rope["high_freq_factor"]:
            out.append(1)
        elif wave > old / rope["low_freq_factor"]:
            out.append(rope["factor"])
        else:
            smooth = ((old / wave - rope["low_freq_factor"]) /
                      (rope["high_freq_factor"] - rope["low_freq_factor"]))
            out.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(out)


def head_dim(config):
    return (config.get("head_dim") or
            config["hidden_size"] // config["num_attention_heads"])


def want_tensors(tensors, arch, config, state, kind):
    """NAME: (array, type) by the table."""
    out = {}
    for archs, hf, name, what in tensors:
        for n in range(config["num_hidden_layers"] if "N" in hf else 1):
            x = state.get(re.sub("N", str(n), hf))
            if x is None or arch not in archs:
                continue
            if what.startswith("pairs") and arch == "llama":
                x = pairs(x, config["num_attention_heads" if what == "pairs-q"
                                    else "num_key_value_heads"])
            type_ = kind if x.ndim == 2 else "F32"
            if type_ == "Q8_0" and x.shape[1] % 32:
                type_ = "F16"
            out[re.sub("N", str(n), name)] = (x, type_)
    return out


def check_tensors(reader, want, factors):
    have = {t.name: t for t in reader.tensors}
    if factors is not None:
        got = have.pop("rope_freqs.weight").data
        if got.dtype != np.float32 or not np.all(
                abs(got - factors) <= 4e-7 * factors):
            fail("rope_freqs.weight", got, factors)
    if set(have) != set(want):
        fail("tensors", set(have) ^ set(want))
    for name, (x, type_) in want.items():
        t = have[name]
        if t.tensor_type.name != type_ or list(t.shape) != list(x.shape)[::-1]:
            fail(name, t.tensor_type.name, type_, t.shape, x.shape)
        raw = gguf.quants.quantize(x, t.tensor_type)
        if raw.tobytes() != np.asarray(t.data).tobytes():
            fail(name, "has other bytes than gguf's")
        if not np.array_equal(
                gguf.quants.dequantize(np.asarray(t.data), t.tensor_type),
                gguf.quants.dequantize(raw, t.tensor_type)):
            fail(name, "has other values")
    return len(reader.tensors)


def want_tokens(at, case, config):
    """Tokens and types as llama.cpp's converter has them; scores are ours."""
    size, kind = config["vocab_size"], gguf.TokenType
    tokens = ["[PAD%d]" % i for i in range(size)]
    types, scores = [int(kind.UNUSED)] * size, [-10000.0] * size
    if os.path.exists(at + "/tokenizer.model"):
        from sentencepiece import SentencePieceProcessor
        p = SentencePieceProcessor()
        p.LoadFromFile(at + "/tokenizer.model")
        for i in range(p.vocab_size()):
            tokens[i], scores[i] = p.IdToPiece(i), p.GetScore(i)
            types[i] = int(kind.UNKNOWN if p.IsUnknown(i) else
                           kind.CONTROL if p.IsControl(i) else
                           kind.UNUSED if p.IsUnused(i) else
                           kind.BYTE if p.IsByte(i) else kind.NORMAL)
        return tokens, types, scores
    tokenizer = AutoTokenizer.from_pretrained(at)
    added = tokenizer.added_tokens_decoder
    by_text = json.load(open(at + "/tokenizer.json", encoding="utf-8"))
    for text, i in tokenizer.get_vocab().items():
        tokens[i], types[i] = text, int(kind.NORMAL)
        if i in added:
            types[i] = int(kind.CONTROL if added[i].special or re.fullmatch(
                r"<\|.*\|>", text) else kind.USER_DEFINED)
    if case[4] != "default":
        return tokens, types, None
    merges = by_text["model"]["merges"]
    scores = [float(-len(merges))] * size
    for i, t in enumerate(tokens):
        if re.fullmatch("<0x[0-9A-F]{2}>", t):
            types[i] = int(kind.BYTE)
        elif t == by_text["model"]["unk_token"]:
            types[i] = int(kind.UNKNOWN)
        elif types[i] == kind.UNUSED:
            scores[i] = -10000.0
        elif i in added:
            scores[i] = -1000.0
    vocab = by_text["model"]["vocab"]
    for rank, (a, b) in reversed(list(enumerate(merges))):
        scores[vocab[a + b]] = float(-rank)
    return tokens, types, scores


def want_values(at, case, arch, config, reader, kind):
    rope = config.get("rope_parameters") or {}
    tokens, types, scores = want_tokens(at, case, config)
    special = SpecialVocab(at, load_merges=case[4] != "default",
                           n_vocab=config["vocab_size"])
    ids = special.special_token_ids
    windows = [t == "sliding_attention" for t in config.get("layer_types") or
               [config["model_type"] == "mistral" and "sliding_attention"] *
               config["num_hidden_layers"]]
    given = case[3] or {}
    scaled = rope.get("rope_type") in ("linear", "yarn")
    yarn = rope if rope.get("rope_type") == "yarn" else {}
    total = sum(int(np.prod(t.shape)) for t in reader.tensors)
    eos = config.get("eos_token_id")
    return dict(
        config, architecture=arch, model="model", directory=os.path.basename(at),
        size_label=gguf.size_label(total, total, 0, 0), file_type=TYPES[kind][1],
        quantization_version=gguf.GGML_QUANT_VERSION, head_dim=head_dim(config),
        rope_theta=rope.get("rope_theta", 10000.0),
        scaling_type=rope["rope_type"] if scaled else None,
        scaling_factor=rope["factor"] if scaled else None,
        scaling_original=yarn.get("original_max_position_embeddings"),
        attention_factor=yarn.get("attention_factor"),
        beta_fast=yarn.get("beta_fast"), beta_slow=yarn.get("beta_slow"),
        window=config.get("sliding_window") if any(windows) else None,
        window_pattern=windows if any(windows) and not all(windows) else None,
        vocab_model="llama" if case[4] == "default" else "gpt2",
        vocab_pre=case[4], tokens=tokens, token_types=types, scores=scores,
        merges=special.merges or None, bos=ids.get("bos"),
        eos=ids.get("eos", eos[0] if isinstance(eos, list) else None),
        unk=ids.get("unk", types.index(2) if 2 in types else None),
        pad=ids.get("pad"), add_bos=special.add_special_token.get("bos"),
        add_eos=special.add_special_token.get("eos"),
        add_prefix_space=given.get("add_prefix_space"),
        chat_template=special.chat_template)


def check_keys(reader, keys, arch, values):
    have = {k: f for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    for archs, key, type_, word in keys:
        key = key.replace("ARCH", arch)
        want = values.get(word) if arch in archs else None
        field = have.pop(key, None)
        if (want is None) != (field is None):
            fail(key, "should be", want, "and is", field)
        if want is None:
            continue
        is_ = field.types[-1].name + ("[]" if len(field.types) > 1 else "")
        got = field.contents()
        if "FLOAT32" in type_:
            want = np.float32(want).tolist()
        if is_ != type_ or got != want:
            fail(key, is_, got, "should be", type_, want)
    if have:
        fail("other keys:", *have)
    return len(reader.fields) - 3


def rounded(at, dtype):
    """The model, its matrices rounded to f16."""
    model = AutoModelForCausalLM.from_pretrained(at, dtype=torch.float32)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 2:
                p.copy_(p.to(dtype).float())
    return model


def check_logits(at, file):
    """transformers' reader leaves out scaled rotations, and of the architecture
    llama biases and heads of another size."""
    theirs = rounded(at, torch.float16)
    if (theirs.config.rope_parameters.get("rope_type") != "default" or
            getattr(theirs.config, "attention_bias", False) or
            theirs.config.model_type in ("llama", "mistral") and
            theirs.config.head_dim != theirs.config.hidden_size //
            theirs.config.num_attention_heads):
        return None
    ours = AutoModelForCausalLM.from_pretrained(
        os.path.dirname(file), gguf_file=os.path.basename(file),
        dtype=torch.float32)
    ids = torch.arange(3, 60)[None]
    with torch.no_grad():
        off = (ours(ids).logits - theirs(ids).logits).abs().max().item()
    if off > 1e-4:
        fail(file, "logits differ by", off)
    return off


def ids_of(at, case, text):
    """As HF tokenizers or sentencepiece have them. llama.cpp puts bos before a
    text where the file says so, or by default with two kinds of tokens."""
    if os.path.exists(at + "/tokenizer.model"):
        from sentencepiece import SentencePieceProcessor
        p = SentencePieceProcessor()
        p.LoadFromFile(at + "/tokenizer.model")
        ids = p.EncodeAsIds(text)
    else:
        ids = Tokenizer.from_file(at + "/tokenizer.json").encode(
            text, add_special_tokens=False).ids
    config = json.load(open(at + "/config.json", encoding="utf-8"))
    has = (case[3] or {}).get("add_bos_token",
                              case[4] in ("default", "llama-bpe"))
    return [config["bos_token_id"]] * has + ids


def check_llama_cpp(at, case, file, kind):
    p = xllamacpp.CommonParams()
    p.model.path = file
    p.n_ctx, p.n_parallel, p.warmup, p.verbosity = 256, 1, False, 0
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server, off, n = xllamacpp.Server(p), 0.0, 0
    model = AutoModelForCausalLM.from_pretrained(at, dtype=torch.float32)
    prompts = [[3 + 7 * i % 480 for i in range(n)] for n in (1, 7, 40, 90, 180)]
    for prompt in prompts + (TEXTS if kind == "f16" else []):
        ids = ids_of(at, case, prompt) if prompt in TEXTS else prompt
        out = server.handle_completions(
            dict(prompt=prompt, max_tokens=1, temperature=0, n_probs=8))
        if "choices" not in out:
            fail(file, "llama.cpp says", out)
        if out["usage"]["prompt_tokens"] != len(ids):
            fail(file, "llama.cpp has other tokens of", prompt, out["usage"],
                 ids)
        with torch.no_grad():
            log = torch.log_softmax(model(torch.tensor([ids])).logits[0, -1],
                                    -1)
        # A token without a text has no probabilities.
        for token in (out["choices"][0]["logprobs"] or {}).get("content", []):
            for t in token["top_logprobs"]:
                off = max(off, abs(log[t["id"]].item() - t["logprob"]))
                n += 1
    if n < 16:
        fail(file, "llama.cpp gave", n, "log probabilities")
    if not off < NEAR[kind]:
        fail(file, "llama.cpp's log probabilities differ by", off)
    return off


def check(program, top, tree, table, name, case):
    tensors, keys = table
    at = make(case, top, tree, name)
    config = json.load(open(at + "/config.json", encoding="utf-8"))
    arch = {"mistral": "llama"}.get(config["model_type"], config["model_type"])
    model = AutoModelForCausalLM.from_pretrained(at, dtype=torch.float32)
    state = {k: v.numpy() for k, v in model.state_dict().items()}
    if config.get("tie_word_embeddings"):
        state.pop("lm_head.weight", None)
    rope = config.get("rope_parameters") or {}
    factors = (rope_factors(config, rope)
               if rope.get("rope_type") == "llama3" else None)
    said = []
    for kind, (type_, _) in TYPES.items():
        file = os.path.join(top, "%s.%s.gguf" % (name, kind))
        subprocess.run([program, "-q", "export", "--gguf", kind, at, "-o", file],
                       check=True)
        reader = gguf.GGUFReader(file)
        n = check_tensors(reader, want_tensors(tensors, arch, config, state,
                                               type_), factors)
        k = check_keys(reader, keys, arch, want_values(
            at, case, arch, config, reader, kind))
        said.append("%s %d tensors, %d keys" % (kind, n, k))
        if kind == "f16":
            off = check_logits(at, file)
            said.append("logits %s" % ("not read" if off is None else
                                       "%.1e" % off))
        if xllamacpp is not None:
            said.append("llama.cpp %.1e" % check_llama_cpp(
                at, case, file, kind))
    print("%s: %s" % (name, "; ".join(said)), flush=True)


def main():
    if len(sys.argv) not in (3, 5):
        sys.exit(__doc__)
    program, tree = map(os.path.abspath, sys.argv[1:3])
    table = read_table(tree + "/tests/golden/gguf.txt")
    check_table(*table)
    models = dict(MODELS)
    if len(sys.argv) > 3:
        models["llama2-real"] = (
            dict(LLAMA, vocab_size=32000, bos_token_id=1, eos_token_id=2),
            torch.float16, sys.argv[3], None, "default")
        models["llama3-real"] = (
            dict(LLAMA, vocab_size=128256, tie_word_embeddings=True,
                 bos_token_id=128000, eos_token_id=[128001, 128009]),
            torch.bfloat16, sys.argv[4],
            dict(bos_token="<|begin_of_text|>", eos_token="<|eot_id|>"),
            "llama-bpe")
    with tempfile.TemporaryDirectory() as top:
        for name, case in models.items():
            check(program, top, tree, table, name, case)


main()
