"""torch_step.py - PyTorch's side of tests/gpu/bench.sh: training steps.

  torch_step.py cuda|cpu

For each line `SIZE BATCH fp32|fp16|bf16 data|nodata eager|compile nhwc|nchw` of
its input it works for half a second at least, waits for the device and prints
the images/s of that, or `- ` and why not. A model is kept, with what was
compiled of it, until another size, batch or precision is asked for.

torchvision's MobileNetV2 for 10 classes, channels last or contiguous (depthwise
convolutions have kernels of PyTorch's own there), SGD with Nesterov momentum,
fused where PyTorch has that; fp16 and bf16 by autocast, fp16 with a GradScaler; TF32 off in fp32.
`nodata`: on random images that are there already. `data`: 28x28 images as a
DataLoader gives them: resized and turned into numbers by its workers, in
pinned memory, copied without blocking.
"""

import gc
import os
import sys
import time

import torch
import torchvision
from torchvision.transforms import functional as F

TURN_S = 0.5
device = sys.argv[1]
cuda = device == "cuda"
types = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}
torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


class Digits(torch.utils.data.Dataset):
    """What MNIST with Resize and ToTensor gives, three channels."""

    def __init__(self, n, size):
        self.size = size
        self.images = torch.randint(0, 256, (n, 1, 28, 28), dtype=torch.uint8)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        x = F.resize(self.images[i], [self.size, self.size], antialias=True)
        return x.expand(3, -1, -1).float().div_(255), i % 10


LAYOUTS = {"nhwc": torch.channels_last, "nchw": torch.contiguous_format}


def loaded(size, batch, layout):
    workers = max(1, min(32, len(os.sched_getaffinity(0)) - 1))
    loader = torch.utils.data.DataLoader(
        Digits(max(4096, 4 * batch), size),
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
                device, non_blocking=True, memory_format=layout
            ), y.to(device, non_blocking=True)


def resident(size, batch, layout):
    x = torch.randn(batch, 3, size, size, device=device)
    x = x.to(memory_format=layout)
    y = torch.randint(0, 10, (batch,), device=device)
    while True:
        yield x, y


def sgd_of(model):
    keys = dict(lr=0.01, momentum=0.9, weight_decay=4e-5, nesterov=True)
    try:
        return torch.optim.SGD(model.parameters(), fused=True, **keys)
    except (TypeError, RuntimeError):  # an older PyTorch
        return torch.optim.SGD(model.parameters(), **keys)


def scaler_of(enabled):
    if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device, enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)


class Case:
    """One size, batch and precision: a model for each way to run it."""

    def __init__(self, size, batch, precision):
        self.size, self.batch, self.amp = size, batch, types[precision]
        if self.amp is torch.float16 and not cuda:
            raise RuntimeError("PyTorch has no fp16 autocast on the CPU here")
        self.models, self.feeds = {}, {}
        self.loss_of = torch.nn.CrossEntropyLoss()

    def model(self, how, layout):
        if (how, layout) not in self.models:
            if how == "compile" and not hasattr(torch, "compile"):
                raise RuntimeError("this PyTorch has no torch.compile")
            torch.manual_seed(1)
            model = torchvision.models.mobilenet_v2(num_classes=10).to(device)
            model = model.to(memory_format=LAYOUTS[layout]).train()
            sgd = sgd_of(model)
            if how == "compile":
                model = torch.compile(model)
            scaler = scaler_of(cuda and self.amp is torch.float16)
            self.models[how, layout] = (model, sgd, scaler)
        return self.models[how, layout]

    def feed(self, data, layout):
        if (data, layout) not in self.feeds:
            self.feeds.clear()  # workers of a loader that nobody reads
            make = loaded if data == "data" else resident
            self.feeds[data, layout] = make(self.size, self.batch, LAYOUTS[layout])
        return self.feeds[data, layout]

    def step(self, how, layout, data):
        model, sgd, scaler = self.model(how, layout)
        x, y = next(self.feed(data, layout))
        sgd.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=self.amp, enabled=self.amp is not None):
            loss = self.loss_of(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(sgd)
        scaler.update()

    def run(self, how, layout, data, steps):
        began = time.perf_counter()
        for _ in range(steps):
            self.step(how, layout, data)
        if cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - began

    def turn(self, how, layout, data):
        self.run(how, layout, data, 3)
        steps = max(1, int(TURN_S / self.run(how, layout, data, 1)) + 1)
        return steps * self.batch / self.run(how, layout, data, steps)


def forget():
    gc.collect()
    if hasattr(torch, "compile"):
        torch._dynamo.reset()
    if cuda:
        torch.cuda.empty_cache()


def main():
    # What a library prints is no answer.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    case, of = None, None
    for line in sys.stdin:
        size, batch, precision, data, how, layout = line.split()
        try:
            if cuda and not torch.cuda.is_available():
                raise RuntimeError("this PyTorch sees no GPU")
            if of != (size, batch, precision):
                case, of = None, None
                forget()
                case = Case(int(size), int(batch), precision)
                of = (size, batch, precision)
            answers.write(f"{case.turn(how, layout, data):.1f}\n")
        except Exception as e:  # of memory, of a compiler: the others go on
            why = str(e).strip().split("\n")[0][:200] or type(e).__name__
            case, of = None, None
            answers.write(f"- {why}\n")
        if case is None:
            forget()


main()
