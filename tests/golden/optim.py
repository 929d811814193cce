#!/usr/bin/python3
"""Write tests/golden/optim.txt: 20 steps of torch.optim and its schedules.

usage: optim.py > optim.txt      (PyTorch 1.13)

The parameters are two flat tensors of N - EXEMPT and EXEMPT values, drawn
from NumPy's RandomState(seed).random_sample(), which is jobs/base/rng.h's
rng_uniform(), as 2u - 1. The gradient of a step is 2u - 1 from the same
stream plus 0.3 p: what the step before did is felt. Then come clipping, the
optimizer and the schedule. A line is "optimizer schedule: p after 20 steps",
and the lines "lr SCHEDULE" are the rates themselves; tests/unit/worker/
optimizer.c runs the same.

All of it is double. An epoch is PER_EPOCH steps; the schedules by epochs are
stepped at their end, the cosine after each step.
"""
import numpy as np
import torch
from torch.optim import lr_scheduler

STEPS, PER_EPOCH, WARMUP, N, EXEMPT, LR = 20, 3, 4, 13, 5, 0.05

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=LR, weight_decay=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9,
                                          weight_decay=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9,
                                          weight_decay=0.1, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=LR, betas=(0.8, 0.95), eps=1e-6,
                                         weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=LR, alpha=0.9, eps=1e-3,
                                             weight_decay=0.1),
    "rmsprop_momentum": lambda p: torch.optim.RMSprop(
        p, lr=LR, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=0.9),
    "rmsprop_centered": lambda p: torch.optim.RMSprop(
        p, lr=LR, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=0.9,
        centered=True),
}


def after_warmup(opt, rest):
    """What torchvision's recipes do; theirs starts above 0."""
    rise = lr_scheduler.LambdaLR(opt, lambda i: i / WARMUP)
    return lr_scheduler.SequentialLR(opt, [rise, rest], milestones=[WARMUP])


SCHEDULES = {
    # name: (scheduler, steps between two of its steps)
    "constant": (lambda o: lr_scheduler.LambdaLR(o, lambda i: 1), 1),
    "warmup": (lambda o: lr_scheduler.LambdaLR(
        o, lambda i: min(1, i / WARMUP)), 1),
    "cosine": (lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS), 1),
    "cosine_warmup": (lambda o: after_warmup(
        o, lr_scheduler.CosineAnnealingLR(o, STEPS - WARMUP)), 1),
    "step": (lambda o: lr_scheduler.StepLR(o, 2, 0.5), PER_EPOCH),
    "multistep": (lambda o: lr_scheduler.MultiStepLR(o, [1, 4], 0.3),
                  PER_EPOCH),
}


def run(make, schedule, seed, clip=None, exempt=False):
    rs = np.random.RandomState(seed)
    draw = lambda n: torch.from_numpy(2 * rs.random_sample(n) - 1)
    start = draw(N)
    p = [torch.nn.Parameter(start[:N - EXEMPT].clone()),
         torch.nn.Parameter(start[N - EXEMPT:].clone())]
    groups = [{"params": p[:1]}, {"params": p[1:]}]
    if exempt:
        groups[1]["weight_decay"] = 0
    opt = make(groups)
    scheduler, every = SCHEDULES[schedule]
    scheduler = scheduler(opt)
    rates, norms = [], []
    for step in range(STEPS):
        u = draw(N)
        for t, part in zip(p, (u[:N - EXEMPT], u[N - EXEMPT:])):
            t.grad = part + 0.3 * t.detach()
        if clip:
            norms.append(torch.nn.utils.clip_grad_norm_(p, clip).item())
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        if (step + 1) % every == 0:
            scheduler.step()
    return torch.cat([t.detach() for t in p]).numpy(), rates, norms


def put(name, values):
    print(name + ":" + "".join(" %.17g" % v for v in values))


def main():
    seed = 0
    for schedule in SCHEDULES:
        put("lr " + schedule, run(OPTIMIZERS["sgd"], schedule, 0)[1])
    for name, make in OPTIMIZERS.items():
        for schedule in SCHEDULES:
            seed += 1
            put(name + " " + schedule, run(make, schedule, seed)[0])
        put(name + " exempt", run(make, "constant", seed, exempt=True)[0])
        p, _, norms = run(make, "constant", seed, clip=1.5)
        put(name + " clipped", p)
        put(name + " norms", norms)


main()
