#!/usr/bin/python3
"""Write tests/golden/mobilenet.txt: what PyTorch computes for MobileNetV2.

usage: mobilenet.py > mobilenet.txt      (PyTorch 1.13, torchvision 0.14)

No weights are stored. Both sides draw them from MT19937: NumPy's
RandomState(seed).random_sample() is jobs/base/rng.h's rng_uniform(). For
each case one stream gives, in this order, the tensors of the state_dict
(value_of below; tests/unit/worker/cv_golden.c has the same table), then for
each step the images [n, C, S, S] and the labels.

A line is "name: value value ...". Losses are means over the batch. Of the
gradients of the first step, of all tensors after the last one, and of the
mean of the weights (torch's AveragedModel, decay EMA), there are sums and
sums of squares, two numbers per tensor. Lines "shape I NAME" list
the state_dict, lines "params WIDTH CLASSES" the number of parameters.

What 16 bits make of the first pass: every tensor between two layers, its
gradient, and every weight, is rounded to the type, and the arithmetic is in
float, as ours (PyTorch has no half convolutions on a CPU). Of the gradients,
the error is written: differences by what they should be, roots of the sums of
squares, and of those of all tensors with two dimensions and more the root of
the mean square. SCALE keeps fp16's within its range.

SGD's rate is small because the drawn weights have gradients of 1e4, and the
comparison is meant to see mistakes, not chaos: at 1e-3 two correct programs
have nothing in common after eight steps. At 1e-5 the losses still move by
tens of percent.
"""
import copy

import numpy as np
import torch
import torchvision
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel

ROWS, CLASSES = 4, 10  # of the logits that are written
PER_EPOCH, WARMUP, EMA = 3, 4, 0.9
SCALE = 2 ** -6  # of the loss, in 16 bits


def after_warmup(opt, rest):
    """What torchvision's recipes do; theirs starts above 0."""
    rise = lr_scheduler.LambdaLR(opt, lambda i: i / WARMUP)
    return lr_scheduler.SequentialLR(opt, [rise, rest], milestones=[WARMUP])


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-5, momentum=0.9,
                                     weight_decay=0.1, nesterov=True),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-5, momentum=0.9,
                                          weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-4, alpha=0.9, eps=1e-3,
                                             weight_decay=1e-2, momentum=0.9),
}
SCHEDULES = {
    # name: (scheduler, steps between two of its steps)
    "constant": (lambda o, n: lr_scheduler.LambdaLR(o, lambda i: 1), 1),
    "cosine": (lambda o, n: after_warmup(
        o, lr_scheduler.CosineAnnealingLR(o, n - WARMUP)), 1),
    "step": (lambda o, n: lr_scheduler.StepLR(o, 2, 0.5), PER_EPOCH),
    "multistep": (lambda o, n: lr_scheduler.MultiStepLR(o, [1, 4], 0.3),
                  PER_EPOCH),
}
CASES = [
    # name, width, image size, classes, channels, batch, steps, optimizer,
    # schedule, label smoothing
    ("sgd_1.0_32", 1.0, 32, 10, 3, 16, 10, "sgd", "constant", 0),
    ("sgd_0.5_28", 0.5, 28, 7, 3, 16, 10, "sgd", "constant", 0),
    ("adamw_0.5_32", 0.5, 32, 10, 3, 16, 10, "adamw", "constant", 0),
    ("gray_1.0_28", 1.0, 28, 10, 1, 16, 4, "momentum", "constant", 0.1),
    ("one_0.5_28", 0.5, 28, 1, 3, 8, 2, "sgd", "constant", 0),
    ("thousand_1.0_100", 1.0, 100, 1000, 3, 4, 2, "sgd", "constant", 0.1),
    ("thousand_0.5_224", 0.5, 224, 1000, 3, 2, 2, "sgd", "constant", 0),
    ("sgd_20_steps", 0.25, 32, 10, 3, 16, 20, "momentum", "step", 0.1),
    ("nesterov_20_steps", 0.25, 32, 10, 3, 16, 20, "sgd", "multistep", 0),
    ("adamw_20_steps", 0.25, 32, 10, 1, 16, 20, "adamw", "cosine", 0),
    ("rmsprop_20_steps", 0.25, 32, 10, 3, 16, 20, "rmsprop", "cosine", 0),
]


def value_of(name, shape, rs):
    """Every tensor far from its initial value, so that nothing cancels."""
    u = rs.random_sample(int(np.prod(shape))).reshape(shape)
    if name.startswith("classifier"):
        return (2 * u - 1) * 0.1
    if len(shape) == 4:
        fan_out = shape[0] * shape[2] * shape[3]
        return (2 * u - 1) * np.sqrt(6 / fan_out)
    if name.endswith("bias") or name.endswith("running_mean"):
        return (2 * u - 1) * 0.3
    return 0.5 + u  # gamma, running_var


def batch_of(rs, size, classes, channels, batch):
    x = 3 * rs.random_sample((batch, channels, size, size)) - 1.5
    label = (rs.random_sample(batch) * classes).astype(np.int64)
    return torch.from_numpy(x), torch.from_numpy(label)


def put(name, values):
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    print(name + ":" + "".join(" %.12g" % v for v in flat))


def model_of(width, classes, channels):
    model = torchvision.models.mobilenet_v2(
        num_classes=classes, width_mult=width, dropout=0.0)
    if channels != 3:
        old = model.features[0][0]
        model.features[0][0] = torch.nn.Conv2d(
            channels, old.out_channels, 3, 2, 1, bias=False)
    return model


def logits(z):
    return z.detach().numpy()[:ROWS, :CLASSES]


def eval_logits(model, x):
    model.eval()
    with torch.no_grad():
        z = model(x)
    model.train()
    return logits(z)


def sums(tensors):
    return [v for t in tensors for v in (t.sum().item(), (t ** 2).sum().item())]


def state_sums(model):
    return sums(t for t in model.state_dict().values()
                if t.dtype == torch.float64)


class Cut(torch.autograd.Function):
    """A tensor, and its gradient, rounded to a type."""

    @staticmethod
    def forward(ctx, t, dtype):
        ctx.dtype = dtype
        return t.to(dtype).float()

    @staticmethod
    def backward(ctx, d):
        return d.to(ctx.dtype).float(), None


def rounded(model, dtype):
    """A copy in float whose values between two layers are of dtype."""
    model = copy.deepcopy(model).float()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype).float())
    for m in model.modules():
        if hasattr(m, "inplace"):
            m.inplace = False
        if not list(m.children()) or hasattr(m, "use_res_connect"):
            m.register_forward_hook(lambda m, i, z: Cut.apply(z, dtype))
    return model


def grads_of(model, x, label, smoothing):
    z = model(x)
    loss = torch.nn.functional.cross_entropy(z, label,
                                             label_smoothing=smoothing)
    (SCALE * loss).backward()
    return z, [p.grad.double() for p in model.parameters() if p.dim() > 1]


def first_pass_of_16_bits(name, model, x, label, smoothing):
    exact = grads_of(copy.deepcopy(model), x, label, smoothing)[1]
    for word, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        m = rounded(model, dtype)
        z, grads = grads_of(m, x.to(dtype).float(), label, smoothing)
        put(name + " train " + word, logits(z))
        if z.shape[1] == 1:  # no loss, no gradient
            continue
        off = [((g - e).norm() / e.norm()).item() ** 2
               for g, e in zip(grads, exact)]
        put(name + " grads " + word, [np.sqrt(np.mean(off))])


def run(name, width, size, classes, channels, batch, steps, optimizer,
        schedule, smoothing, seed):
    rs = np.random.RandomState(seed)
    model = model_of(width, classes, channels).double()
    for key, t in model.state_dict().items():
        if t.dtype == torch.float64:
            t.copy_(torch.from_numpy(value_of(key, tuple(t.shape), rs)))
    opt = OPTIMIZERS[optimizer](model.parameters())
    scheduler, every = SCHEDULES[schedule]
    scheduler = scheduler(opt, steps)
    mean = AveragedModel(
        model, avg_fn=lambda a, p, n: EMA * a + (1 - EMA) * p
        if a.dtype == torch.float64 else p, use_buffers=True)
    model.train()
    losses, twenty = [], steps == 20
    for step in range(steps):
        x, label = batch_of(rs, size, classes, channels, batch)
        if step == 0:
            put(name + " eval first", eval_logits(model, x))
            first_pass_of_16_bits(name, model, x, label, smoothing)
        opt.zero_grad()
        z = model(x)
        loss = torch.nn.functional.cross_entropy(z, label,
                                                 label_smoothing=smoothing)
        loss.backward()
        if step == 0:
            put(name + " train first", logits(z))
        if step == 0 and not twenty:
            put(name + " grads", sums(p.grad for p in model.parameters()))
        opt.step()
        if (step + 1) % every == 0:
            scheduler.step()
        mean.update_parameters(model)
        losses.append(loss.item())
    put(name + " losses", losses)
    put(name + " eval last", eval_logits(model, x))
    if steps >= 10:
        put(name + " state", state_sums(model))
    if twenty:
        put(name + " mean", state_sums(mean.module))


def shapes():
    """Names and shapes in order, and how many parameters other widths have."""
    model = torchvision.models.mobilenet_v2(num_classes=10)
    for i, (name, t) in enumerate(model.state_dict().items()):
        put("shape %d %s" % (i, name), list(t.shape))
    for width in (0.1, 0.25, 0.35, 0.5, 0.75, 1.0, 1.3, 1.4, 2.0):
        for classes in (10, 1000):
            model = torchvision.models.mobilenet_v2(num_classes=classes,
                                                    width_mult=width)
            put("params %g %d" % (width, classes),
                sum(p.numel() for p in model.parameters()))


def main():
    torch.set_num_threads(1)
    shapes()
    for seed, case in enumerate(CASES):
        run(*case, seed=100 + seed)


main()
