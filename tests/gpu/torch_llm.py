"""torch_llm.py - PyTorch's side of tests/bench/llm_step.c: training steps.

  torch_llm.py cuda|cpu SHAPE ROWS TOKENS fp32|fp16|bf16 keep|again [full]
  torch_llm.py code

SHAPE is hidden, ffn, layers, heads, kv_heads, vocabulary. For each line of its
input it works for half a second at least, waits for the device and prints
tokens/s, tokens per second of CPU time, and the MiB that the process had in
memory at most, or `- ` and why not. `code` prints whose products these are.

transformers' Llama with PEFT's LoRA of rank 8 at q, v, o and the MLP, or with
`full` all of it; AdamW, weights drawn in place, adapters in fp32, attention by
SDPA, TF32 off. A row holds four documents, which the positions tell apart; each
token but a document's last has a label. `again`: gradient checkpointing.
"""

import os
import re
import resource
import subprocess
import sys
import time

TURN_S = 0.5
DOCUMENTS = 4


def packed(torch, vocab, rows, tokens, device):
    ids = torch.randint(0, vocab, (rows, tokens), device=device)
    pos = torch.arange(tokens, device=device) % (tokens // DOCUMENTS)
    pos = pos.expand(rows, tokens)
    labels = ids.masked_fill(pos == 0, -100)  # the model shifts them
    return {"input_ids": ids, "position_ids": pos, "labels": labels}


def llama(torch, shape, dtype, device, again, full):
    import transformers

    hidden, ffn, layers, heads, kv_heads, vocab = shape
    config = transformers.LlamaConfig(
        hidden_size=hidden,
        intermediate_size=ffn,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        vocab_size=vocab,
        rope_theta=500000.0,
        use_cache=False,
        attn_implementation="sdpa",
    )
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    if again:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if full:
        return model.train()
    import peft

    names = ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    lora = peft.LoraConfig(r=8, lora_alpha=16, target_modules=names)
    return peft.get_peft_model(model, lora).train()


def fused(torch, cuda):
    """Whether there is a fused AdamW; since 2.4 the host has it, too."""
    version = re.match(r"(\d+)\.(\d+)", torch.__version__)
    return cuda or (int(version[1]), int(version[2])) >= (2, 4)


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Case:
    def __init__(self, device, shape, rows, tokens, kind, how, full=""):
        import torch

        self.torch, self.cuda = torch, device == "cuda"
        if self.cuda and not torch.cuda.is_available():
            raise RuntimeError("this PyTorch sees no GPU")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.manual_seed(1)
        types = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
        dtype = getattr(torch, types[kind])
        shape = [int(x) for x in shape.split(",")]
        self.tokens = int(rows) * int(tokens)
        self.batch = packed(torch, shape[5], int(rows), int(tokens), device)
        self.model = llama(
            torch, shape, dtype, device, how == "again", full == "full"
        )
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.adamw = torch.optim.AdamW(
            trained, lr=1e-4, fused=fused(torch, self.cuda)
        )
        self.run(2)
        self.steps = max(1, int(TURN_S / self.run(1)[0]) + 1)

    def run(self, steps):
        began, began_cpu = time.perf_counter(), cpu_s()
        for _ in range(steps):
            self.adamw.zero_grad(set_to_none=True)
            loss = self.model(**self.batch).loss
            loss.backward()
            self.adamw.step()
        if not self.torch.isfinite(loss):  # waits for the device
            raise RuntimeError("the loss is no number")
        if self.cuda:
            self.torch.cuda.synchronize()
        return time.perf_counter() - began, cpu_s() - began_cpu

    def turn(self):
        wall, cpu = self.run(self.steps)
        done = self.steps * self.tokens
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return f"{done / wall:.1f} {done / cpu:.1f} {most:.0f}"


# oneDNN names the instructions that it takes to whoever asks for its log.
ASK = "import torch; torch.ones(64, 64).to_mkldnn()"


def code():
    import torch

    built = torch.__config__.show()
    said = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "ONEDNN_VERBOSE": "1", "DNNL_VERBOSE": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    parts = [f"PyTorch {torch.__version__}"]
    for name, pattern, text in (
        ("BLAS", r"BLAS_INFO=(\w+)", built),
        ("ATen", r"CPU capability usage: (\S+)", built),
        ("oneDNN", r"oneDNN (v[\d.]+)", said),
        ("its ISA", r"cpu,isa:(.*)", said),
    ):
        found = re.search(pattern, text)
        parts.append(f"{name} {found[1] if found else 'unknown'}")
    print(", ".join(parts))


def main():
    # What a library prints is no answer.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    case = None
    for _ in sys.stdin:
        try:
            if case is None:
                case = Case(*sys.argv[1:])
            answers.write(case.turn() + "\n")
        except Exception as e:  # of memory, of a library that is missing
            why = str(e).strip().split("\n")[0][:200] or type(e).__name__
            answers.write(f"- {why}\n")
            return


if sys.argv[1:] == ["code"]:
    code()
else:
    main()
