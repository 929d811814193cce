"""torch_step.py - PyTorch's side of tests/gpu/bench.sh: one training step.

  torch_step.py cuda|cpu SIZE BATCH fp32|fp16|bf16 data|nodata eager|compile

torchvision's MobileNetV2 for 10 classes, channels last, SGD with Nesterov
momentum; fp16 and bf16 by autocast, fp16 with a GradScaler; TF32 off in fp32.
`nodata`: on random images that are there already. `data`: 28x28 images as a
DataLoader gives them: resized and turned into numbers by its workers, in
pinned memory, copied without blocking. Prints images per second, the best of
five rounds of at least 0.3 s, which end with a synchronisation.
"""

import os
import sys
import time

import torch
import torchvision
from torchvision.transforms import functional as F

device, size, batch, precision, data, how = sys.argv[1:7]
size, batch = int(size), int(batch)
cuda = device == "cuda"
if cuda and not torch.cuda.is_available():
    sys.exit("this PyTorch sees no GPU")
types = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}
amp = types[precision]
if amp is torch.float16 and not cuda:
    sys.exit("PyTorch has no fp16 autocast on the CPU")
torch.manual_seed(1)
torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False

model = torchvision.models.mobilenet_v2(num_classes=10).to(device)
model = model.to(memory_format=torch.channels_last).train()
if how == "compile":
    if not hasattr(torch, "compile"):
        sys.exit("this PyTorch has no torch.compile")
    model = torch.compile(model)
sgd = torch.optim.SGD(
    model.parameters(), lr=0.01, momentum=0.9, weight_decay=4e-5, nesterov=True
)
loss_of = torch.nn.CrossEntropyLoss()
scaler = torch.cuda.amp.GradScaler(enabled=cuda and amp is torch.float16)


class Digits(torch.utils.data.Dataset):
    """What MNIST with Resize and ToTensor gives, three channels."""

    def __init__(self, n):
        self.images = torch.randint(0, 256, (n, 1, 28, 28), dtype=torch.uint8)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        x = F.resize(self.images[i], [size, size], antialias=True)
        return x.expand(3, -1, -1).float().div_(255), i % 10


def batches():
    workers = max(1, min(32, len(os.sched_getaffinity(0)) - 1))
    loader = torch.utils.data.DataLoader(
        Digits(max(4096, 4 * batch)),
        batch_size=batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=cuda,
        persistent_workers=True,
    )
    while True:
        for x, y in loader:
            yield x.to(
                device, non_blocking=True, memory_format=torch.channels_last
            ), y.to(device, non_blocking=True)


def resident():
    x = torch.randn(batch, 3, size, size, device=device)
    x = x.to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (batch,), device=device)
    while True:
        yield x, y


feed = batches() if data == "data" else resident()


def step():
    x, y = next(feed)
    sgd.zero_grad(set_to_none=True)
    with torch.autocast(device, dtype=amp, enabled=amp is not None):
        loss = loss_of(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(sgd)
    scaler.update()


def run(steps):
    began = time.perf_counter()
    for _ in range(steps):
        step()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - began


run(4)
steps = max(1, int(0.3 / run(1)) + 1)
print(f"{max(steps * batch / run(steps) for _ in range(5)):.1f}")
