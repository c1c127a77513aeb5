"""Batch normalisation that no convolution can absorb: a product and a sum with constants."""

from __future__ import annotations

import numpy as np

from penstock.frontends.builder import GraphBuilder
from penstock.frontends.calibration import quantisation
from penstock.ir.graph import Value
from penstock.opkit.activation import Activation
from penstock.ops.add import Add
from penstock.ops.mul import Mul
from penstock.zoo.named_random import named_random

UNIT_STEPS = 64
"""Quantisation steps of a scale of 1."""
LARGEST_SHIFT_STEPS = 32
"""Largest magnitude of a shift, in quantisation steps of the input."""


def batch_norm(
    net: GraphBuilder, x: Value, seed: int, name: str, activation: Activation = Activation.NONE
) -> Value:
    """Scales each channel by a random number of [0.5, 1.5), and shifts it."""
    random = named_random(seed, name)
    shape = (1, 1, 1, x.type.shape[3])

    def constant(lower: float, upper: float, scale: float, label: str) -> Value:
        elements = np.floor(random.uniform(shape[3], lower, upper)).astype(np.int8)
        return net.constant(elements.reshape(shape), quantisation(scale, 0), f"{name}/{label}")

    scales = constant(UNIT_STEPS / 2, UNIT_STEPS * 3 / 2, 1 / UNIT_STEPS, "scales")
    largest = LARGEST_SHIFT_STEPS
    shifts = constant(-largest, largest + 1, x.type.scale, "shifts")
    y = net.apply(Mul(), x, scales, name=f"{name}/scaled")
    return net.apply(Add(activation), y, shifts, name=name)
