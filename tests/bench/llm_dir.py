"""llm_dir.py - write a Llama with drawn weights, as Hugging Face stores it.

  llm_dir.py DIR SHAPE

SHAPE is hidden, ffn, layers, heads, kv_heads, vocabulary. The values, fp32, are
a million normal ones of 0.02, repeated; norms are one. Needs no library.
"""

import array
import json
import os
import random
import struct
import sys

DRAWN = 1 << 20


def tensors(hidden, ffn, layers, heads, kv_heads, vocab):
    kv = hidden // heads * kv_heads
    yield "model.embed_tokens.weight", (vocab, hidden)
    for i in range(layers):
        at = f"model.layers.{i}."
        for name, shape in (
            ("self_attn.q_proj", (hidden, hidden)),
            ("self_attn.k_proj", (kv, hidden)),
            ("self_attn.v_proj", (kv, hidden)),
            ("self_attn.o_proj", (hidden, hidden)),
            ("mlp.gate_proj", (ffn, hidden)),
            ("mlp.up_proj", (ffn, hidden)),
            ("mlp.down_proj", (hidden, ffn)),
            ("input_layernorm", (hidden,)),
            ("post_attention_layernorm", (hidden,)),
        ):
            yield f"{at}{name}.weight", shape
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (vocab, hidden)


def main(path, text):
    shape = [int(x) for x in text.split(",")]
    hidden, ffn, layers, heads, kv_heads, vocab = shape
    os.makedirs(path, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float32",
    }
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(config, f, indent=2)
    header, at, counts = {}, 0, []
    for name, dims in tensors(*shape):
        n = dims[0] * (dims[1] if len(dims) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": dims, "data_offsets": [at, at + 4 * n]}
        at += 4 * n
        counts.append((n, len(dims)))
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 8)
    random.seed(1)
    drawn = array.array("f", (random.gauss(0, 0.02) for _ in range(DRAWN))).tobytes()
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(words)) + words)
        for n, dims in counts:
            if dims == 1:
                f.write(array.array("f", [1.0]).tobytes() * n)
                continue
            for first in range(0, n, DRAWN):
                f.write(drawn[: 4 * min(DRAWN, n - first)])


main(*sys.argv[1:])
