#!/usr/bin/python3
"""Write tests/golden/llama_rope.txt: frequencies of Llama's rotation.

usage: llama_rope.py > llama_rope.txt      (Python 3, no packages)

A line is "model: frequency of each pair". The values follow from the formula
of Llama 3.1 in decimal numbers of 50 digits, and are printed with 20.
"""
from decimal import Decimal, getcontext

getcontext().prec = 50
PI = Decimal("3.14159265358979323846264338327950288419716939937510582")

# theta, head_dim, (factor, low, high, positions of the pre-training)
MODELS = {
    "llama3_8b": (500000, 128, None),
    "llama31_8b": (500000, 128, (8, 1, 4, 8192)),
    "llama32_1b": (500000, 64, (32, 1, 4, 8192)),
    "llama2_7b": (10000, 128, None),
}


def frequency(theta, dim, i, scaling):
    f = (-(Decimal(2 * i) / dim) * Decimal(theta).ln()).exp()
    if scaling is None:
        return f
    factor, low, high, old = map(Decimal, scaling)
    length = 2 * PI / f
    if length < old / high:
        return f
    if length > old / low:
        return f / factor
    smooth = (old / length - low) / (high - low)
    return (1 - smooth) * f / factor + smooth * f


for name, (theta, dim, scaling) in MODELS.items():
    print(name + ":", *(f"{frequency(theta, dim, i, scaling):.19e}"
                        for i in range(dim // 2)))
