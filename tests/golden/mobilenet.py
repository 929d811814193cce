#!/usr/bin/python3
"""Write tests/golden/mobilenet.txt: what PyTorch computes for MobileNetV2.

usage: mobilenet.py > mobilenet.txt      (PyTorch 1.13, torchvision 0.14)

No weights are stored. Both sides draw them from MT19937: NumPy's
RandomState(seed).random_sample() is jobs/base/rng.h's rng_uniform(). For
each case one stream gives, in this order, the tensors of the state_dict
(value_of below; tests/unit/worker/cv_golden.c has the same table), then for
each step the images [n, 3, S, S] and the labels.

A line is "name: value value ...". Losses are means over the batch. Of the
gradients of the first step, and of all tensors after the last one, there are
sums and sums of squares, two numbers per tensor. Lines "shape I NAME" list
the state_dict, lines "params WIDTH CLASSES" the number of parameters.

SGD's rate is small because the drawn weights have gradients of 1e4, and the
comparison is meant to see mistakes, not chaos: at 1e-3 two correct programs
have nothing in common after eight steps. At 1e-5 the losses still move by
tens of percent.
"""
import numpy as np
import torch
import torchvision

STEPS, BATCH = 10, 16
ROWS = 4  # of the logits that are written
CASES = [
    # name, width, image size, classes, optimizer
    ("sgd_1.0_32", 1.0, 32, 10, "sgd"),
    ("sgd_0.5_28", 0.5, 28, 7, "sgd"),
    ("adamw_0.5_32", 0.5, 32, 10, "adamw"),
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


def batch_of(rs, size, classes):
    x = 3 * rs.random_sample((BATCH, 3, size, size)) - 1.5
    label = (rs.random_sample(BATCH) * classes).astype(np.int64)
    return torch.from_numpy(x), torch.from_numpy(label)


def put(name, values):
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    print(name + ":" + "".join(" %.13g" % v for v in flat))


def eval_logits(model, x):
    model.eval()
    with torch.no_grad():
        z = model(x)
    model.train()
    return z.numpy()


def run(name, width, size, classes, optimizer, seed):
    rs = np.random.RandomState(seed)
    model = torchvision.models.mobilenet_v2(
        num_classes=classes, width_mult=width, dropout=0.0).double()
    for key, t in model.state_dict().items():
        if t.dtype == torch.float64:
            t.copy_(torch.from_numpy(value_of(key, tuple(t.shape), rs)))
    if optimizer == "sgd":
        opt = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9,
                              weight_decay=0.1, nesterov=True)
    else:
        opt = torch.optim.AdamW(model.parameters(), lr=1e-3,
                                weight_decay=1e-2)
    model.train()
    losses = []
    for step in range(STEPS):
        x, label = batch_of(rs, size, classes)
        if step == 0:
            put(name + " eval first", eval_logits(model, x)[:ROWS])
        opt.zero_grad()
        z = model(x)
        loss = torch.nn.functional.cross_entropy(z, label)
        loss.backward()
        if step == 0:
            put(name + " train first", z.detach().numpy()[:ROWS])
        if step == 0 and optimizer == "sgd":
            put(name + " grads", [
                v for p in model.parameters()
                for v in (p.grad.sum().item(), (p.grad ** 2).sum().item())])
        opt.step()
        losses.append(loss.item())
    put(name + " losses", losses)
    put(name + " eval last", eval_logits(model, x)[:ROWS])
    put(name + " state", [
        v for t in model.state_dict().values() if t.dtype == torch.float64
        for v in (t.sum().item(), (t ** 2).sum().item())])


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
