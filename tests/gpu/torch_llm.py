"""torch_llm.py - PyTorch's side of tests/bench/llm_step.c: training steps.

  torch_llm.py cuda|cpu SHAPE ROWS TOKENS fp32|fp16|bf16 keep|again
               [lora8|full|lora|dpo|full8 [DOCUMENTS [eager|compile]]]
  torch_llm.py code

SHAPE is hidden, ffn, layers, heads, kv_heads, vocabulary. For each line of its
input it works for half a second at least, waits for the device and prints
tokens/s, tokens per second of CPU time, and the MiB that the process had in
memory at most, or `- ` and why not. `code` prints whose products these are.

transformers' Llama, weights drawn in place, attention by SDPA, TF32 off, AdamW.
With PEFT's LoRA of rank 8 at q, v, o and the MLP, adapters in fp32 (lora8); or
of rank 16 at all linears of the layers, adapters in the model's type (lora),
with the loss of preference pairs (dpo: two documents a row, the reference is
the model without its adapters); or all of it (full; full8: AdamW of
bitsandbytes in 8 bits where that is installed). A row holds DOCUMENTS
documents, 4 if nothing is said and 2 with dpo, which the positions tell apart;
each token but a document's last has a label. `again`: gradient checkpointing.
`compile`: by torch.compile.
"""

import os
import re
import resource
import subprocess
import sys
import time

TURN_S = 0.5
BETA = 0.1
EVERY = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SOME = [name for name in EVERY if name != "k_proj"]


def packed(torch, vocab, rows, tokens, documents, device):
    ids = torch.randint(0, vocab, (rows, tokens), device=device)
    pos = torch.arange(tokens, device=device) % (tokens // documents)
    pos = pos.expand(rows, tokens)
    labels = ids.masked_fill(pos == 0, -100)  # the model shifts them
    return {"input_ids": ids, "position_ids": pos, "labels": labels}


def llama(torch, shape, dtype, device, again, method):
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
    if method.startswith("full"):
        return model.train()
    import peft

    if method == "lora8":
        lora = peft.LoraConfig(r=8, lora_alpha=16, target_modules=SOME)
        return peft.get_peft_model(model, lora).train()
    lora = peft.LoraConfig(r=16, lora_alpha=32, target_modules=EVERY)
    return peft.get_peft_model(model, lora, autocast_adapter_dtype=False).train()


def fused(torch, cuda):
    """Whether there is a fused AdamW; since 2.4 the host has it, too."""
    version = re.match(r"(\d+)\.(\d+)", torch.__version__)
    return cuda or (int(version[1]), int(version[2])) >= (2, 4)


def adamw_of(torch, model, cuda, method):
    trained = [p for p in model.parameters() if p.requires_grad]
    if method == "full8" and cuda:
        try:
            import bitsandbytes

            return bitsandbytes.optim.AdamW8bit(trained, lr=1e-4)
        except ImportError:
            pass
    return torch.optim.AdamW(trained, lr=1e-4, fused=fused(torch, cuda))


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Case:
    def __init__(
        self,
        device,
        shape,
        rows,
        tokens,
        kind,
        how,
        method="lora8",
        documents=None,
        by="eager",
    ):
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
        self.pairs = method == "dpo"
        documents = int(documents or (2 if self.pairs else 4))
        self.batch = packed(
            torch, shape[5], int(rows), int(tokens), documents, device
        )
        self.bare = llama(torch, shape, dtype, device, how == "again", method)
        self.adamw = adamw_of(torch, self.bare, self.cuda, method)
        self.model = torch.compile(self.bare) if by == "compile" else self.bare
        self.run(2)
        self.steps = max(1, int(TURN_S / self.run(1)[0]) + 1)

    def answers(self):
        """Log p of each row's two documents, [rows, 2]."""
        torch, b = self.torch, self.batch
        logits = self.model(
            input_ids=b["input_ids"], position_ids=b["position_ids"]
        ).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(
            logits.float().transpose(1, 2), b["labels"][:, 1:], reduction="none"
        )
        half = b["labels"].shape[1] // 2
        return -torch.stack([loss[:, : half - 1].sum(1), loss[:, half:].sum(1)], 1)

    def loss(self):
        if not self.pairs:
            return self.model(**self.batch).loss
        torch = self.torch
        with torch.no_grad(), self.bare.disable_adapter():
            reference = self.answers()
        gain = self.answers() - reference
        return -torch.nn.functional.logsigmoid(
            BETA * (gain[:, 0] - gain[:, 1])
        ).mean()

    def run(self, steps):
        began, began_cpu = time.perf_counter(), cpu_s()
        for _ in range(steps):
            self.adamw.zero_grad(set_to_none=True)
            loss = self.loss()
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
