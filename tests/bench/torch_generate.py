"""torch_generate.py - PyTorch's side of tests/bench/llm_generate.c: answers.

  torch_generate.py DIR [PROMPT [NEW [fp32|bf16]]]

The same answers by transformers' generate(), greedy, with its cache, of the
same length whatever their tokens are. For each line of its input it prints
tokens/s, tokens per second of CPU time, the MiB that the process had in memory
at most and the sum of the tokens times their places; or `- ` and why not.
"""

import os
import resource
import sys
import time

TURN_S = 0.5


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Case:
    def __init__(self, path, prompt="16", new="256", kind="fp32"):
        import torch
        import transformers

        self.torch, self.new = torch, int(new)
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[kind]
        self.model = transformers.LlamaForCausalLM.from_pretrained(path).to(dtype)
        self.model.eval()
        self.ids = torch.arange(1, int(prompt) + 1)[None]
        # Nothing ends an answer but its length.
        self.how = transformers.GenerationConfig(
            max_new_tokens=self.new, do_sample=False, use_cache=True, pad_token_id=0
        )
        self.answers(1)
        self.n = max(1, int(TURN_S / self.answers(1)[0]) + 1)

    def answers(self, n):
        began, began_cpu = time.perf_counter(), cpu_s()
        for _ in range(n):
            with self.torch.inference_mode():
                self.last = self.model.generate(
                    self.ids,
                    attention_mask=self.torch.ones_like(self.ids),
                    generation_config=self.how,
                )
        took = time.perf_counter() - began, cpu_s() - began_cpu
        made = self.last.shape[1] - self.ids.shape[1]
        if made != self.new:
            raise RuntimeError(f"{made} tokens of {self.new}")
        return took

    def turn(self):
        wall, cpu = self.answers(self.n)
        done = self.n * self.new
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        total = sum(i * x for i, x in enumerate(self.last[0].tolist()))
        return f"{done / wall:.1f} {done / cpu:.1f} {most:.0f} {total}"


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


main()
