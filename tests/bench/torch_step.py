"""torch_step.py - PyTorch's side of tests/bench/cv.sh: one training step.

  torch_step.py THREADS SIZE BATCH [fp32|bf16]

torchvision's MobileNetV2 in fp32, or wholly in bf16, channels last, SGD with
Nesterov momentum, on random images that are there already. Prints images per
second, the best of five rounds of at least half a second, as cv_step does.
"""

import sys
import time

import torch
import torchvision

threads, size, batch = (int(a) for a in sys.argv[1:4])
dtype = torch.bfloat16 if sys.argv[4:] == ["bf16"] else torch.float32
torch.set_num_threads(threads)
torch.manual_seed(1)
model = torchvision.models.mobilenet_v2(num_classes=10)
model = model.to(memory_format=torch.channels_last, dtype=dtype).train()
sgd = torch.optim.SGD(
    model.parameters(), lr=0.01, momentum=0.9, weight_decay=4e-5, nesterov=True
)
x = torch.randn(batch, 3, size, size)
x = x.to(memory_format=torch.channels_last, dtype=dtype)
y = torch.randint(0, 10, (batch,))
loss_of = torch.nn.CrossEntropyLoss()


def step():
    sgd.zero_grad(set_to_none=True)
    loss_of(model(x), y).backward()
    sgd.step()


def run(steps):
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return time.perf_counter() - began


step()
steps = max(1, int(0.5 / run(1)) + 1)
print(f"{max(steps * batch / run(steps) for _ in range(5)):.1f}")
