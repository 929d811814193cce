#!/usr/bin/python3
"""Write tests/golden/images.txt: parts, sizes and pixels of pictures.

usage: images.py > images.txt      (PyTorch 1.13, torchvision 0.14, PIL 9.4)

The random part is torchvision's own RandomResizedCrop.get_params, fed with
the words of our counter-based stream. A line is "name: value value ...".
"""
import io

import numpy as np
import PIL.Image
import PIL.ImageOps
import torch
import torchvision.transforms.functional as F
import torchvision.transforms.transforms as T


def put(name, values):
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    print(name + ":" + "".join(" %.17g" % v for v in flat))


def pattern(h, w):
    """Bytes [h, w, 3] that no mirrored or turned picture has."""
    y, x, c = np.indices((h, w, 3))
    return ((x * 7 + y * 13 + c * 29 + x * y % 17 * 5) % 256).astype(np.uint8)


def picture(h, w):
    p = pattern(h, w).astype(np.float64).transpose(2, 0, 1)
    return torch.from_numpy(p.copy())


def sums(y):
    """Of [3, S, S], normalised, with weights that see a swap."""
    mean = np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1)
    std = np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1)
    y = (y.numpy() / 255 - mean) / std
    c, i, j = np.indices(y.shape)
    return [y.sum(), (y * y).sum(), (y * (i % 13)).sum(),
            (y * (j % 11)).sum(), (y * (c + 1)).sum()]


def resize(img, h, w):
    return F.resize(img, [h, w], antialias=True)


def philox(key, counter):
    k, c, m = list(key), list(counter), 2**32
    for _ in range(10):
        a, b = 0xd2511f53 * c[0], 0xcd9e8d57 * c[2]
        c = [(b // m) ^ c[1] ^ k[0], b % m, (a // m) ^ c[3] ^ k[1], a % m]
        k = [(k[0] + 0x9e3779b9) % m, (k[1] + 0xbb67ae85) % m]
    return c


class Stream:
    """What torchvision takes from torch, out of one sample's stream."""

    def __init__(self, seed, epoch, sample):
        self.at, self.words = 0, []
        self.block = lambda n: philox(
            (seed % 2**32, seed // 2**32),
            (n, sample, epoch % 2**32, epoch // 2**32))

    def uniform_(self, lo, hi):
        if len(self.words) <= 2:  # a new try
            self.words = self.block(self.at)
            self.at += 1
        u = self.words.pop(0) / 2**32
        return torch.tensor(float(lo) + float(hi - lo) * u,
                            dtype=torch.float64)

    def empty(self, n):
        return self

    def tensor(self, v):
        return torch.tensor(v, dtype=torch.float64)

    def randint(self, lo, hi, size):
        return torch.tensor(self.words.pop(0) * (hi - lo) // 2**32)

    def rand(self, n):
        return torch.tensor(self.block(10)[0] / 2**32, dtype=torch.float64)

    log, exp = torch.log, torch.exp


def with_stream(draw, function):
    T.torch = Stream(*draw)
    try:
        return function()
    finally:
        T.torch = torch


def crops():
    shapes = ((224, 224), (40, 50), (375, 500), (60, 700), (700, 60), (1, 1))
    for h, w in shapes:
        for draw in ((0, 0, 0), (1, 0, 0), (1, 5, 17), (2**33 + 9, 2, 3)):
            img = picture(h, w)
            part = with_stream(draw, lambda: T.RandomResizedCrop.get_params(
                img, (0.08, 1.0), (3. / 4., 4. / 3.)))
            marker = torch.arange(2.).reshape(1, 1, 2)
            flip = with_stream(draw, lambda: T.RandomHorizontalFlip()(marker))
            flip = bool(flip[0, 0, 0] == 1)
            name = "crop %d %d %d %d %d" % ((h, w) + draw)
            put(name, list(part) + [flip])
            if h * w > 4000:
                continue
            y = resize(F.crop(img, *part), 28, 28)
            put(name + " sums", sums(F.hflip(y) if flip else y))


def sizes():
    for h, w, s in ((40, 50, 28), (28, 28, 28), (20, 90, 28), (300, 211, 32),
                    (9, 5, 40), (131, 640, 100)):
        put("whole %d %d %d" % (h, w, s), sums(resize(picture(h, w), s, s)))
    for h, w, s in ((40, 50, 28), (50, 40, 28), (33, 33, 28), (300, 211, 32),
                    (31, 90, 28), (9, 5, 40), (131, 640, 100)):
        y = F.resize(picture(h, w), s * 8 // 7, antialias=True)
        put("centre %d %d %d" % (h, w, s), sums(F.center_crop(y, [s, s])))


def gray():
    """Each 37th byte of what PIL makes of colours."""
    img = PIL.Image.fromarray(pattern(40, 50)).convert("L")
    put("gray", np.asarray(img).reshape(-1)[::37])


def turned():
    """A 3 x 2 picture as a viewer shows it, for each orientation."""
    for o in range(1, 9):
        img = PIL.Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3))
        exif = PIL.Image.Exif()
        exif[0x0112] = o
        out = io.BytesIO()
        img.save(out, "PNG", exif=exif.tobytes())
        up = np.asarray(PIL.ImageOps.exif_transpose(PIL.Image.open(out)))
        put("turned %d" % o, list(up.shape) + list(up.reshape(-1)))


def main():
    put("philox", philox((0xa4093822, 0x299f31d0),
                         (0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344)))
    crops()
    sizes()
    turned()
    gray()


main()
