"""QuantisedTensor: the four kinds of tensor of a `Network`, and what each becomes in int8.

    activations  int8, asymmetric, one scale    [lower, upper] is widened to hold 0, then mapped to
                                                [-128, 127]
    weights      int8, symmetric, one scale for each index of an axis, or one in all, so that the
                 largest magnitude becomes 127
    biases       int32, scale = scale of x * scale of w
    softmax      scale 1/256, zero point -128

Source: the TFLite 8-bit quantisation specification.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.tflite_writer import TensorSpec

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Activation:
    """A result; its range is that of its whole group."""

    name: str
    shape: tuple[int, ...]
    group: str
    is_softmax: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Real constants; one scale for each index along `axis`, or one in all."""

    name: str
    values: Reals
    axis: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Bias:
    """Real constants in the scale of the sums of x times w."""

    name: str
    values: Reals
    x: str
    w: str


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Integers that are no quantised values: axes, shapes, paddings."""

    name: str
    values: NDArray[np.int32]


Tensor = Activation | Weights | Bias | Numbers


def quantised_activation(activation: Activation, limits: tuple[float, float]) -> TensorSpec:
    """`limits` are the smallest and the largest real value; softmax has its own."""
    scale, zero_point = (1 / 256, -128) if activation.is_softmax else _affine(limits)
    return TensorSpec(activation.name, activation.shape, scales=(scale,), zero_points=(zero_point,))


def _affine(limits: tuple[float, float]) -> tuple[float, int]:
    """Scale (a float32, as the file keeps it) and zero point that map the limits to int8."""
    lower, upper = min(limits[0], 0.0), max(limits[1], 0.0)
    scale = float(np.float32((upper - lower) / 255))
    return scale, int(np.clip(round(-128 - lower / scale), -128, 127))


def quantised_weights(weights: Weights) -> TensorSpec:
    values, axis = weights.values, weights.axis
    others = tuple(a for a in range(values.ndim) if a != axis)
    largest = np.abs(values).max(axis=others, keepdims=True)
    scales = (largest / 127).astype(np.float32)
    data = np.clip(np.rint(values / scales), -127, 127).astype(np.int8)
    flat = tuple(float(scale) for scale in scales.ravel())
    return TensorSpec(weights.name, values.shape, "int8", flat, (0,) * len(flat), axis or 0, data)


def quantised_bias(bias: Bias, x: TensorSpec, w: TensorSpec) -> TensorSpec:
    scales = np.float32(x.scales[0]) * np.array(w.scales, np.float32)
    data = np.rint(bias.values / scales).astype(np.int32)
    flat = tuple(float(scale) for scale in scales)
    return TensorSpec(bias.name, bias.values.shape, "int32", flat, (0,) * len(flat), 0, data)


def plain_numbers(numbers: Numbers) -> TensorSpec:
    return TensorSpec(numbers.name, numbers.values.shape, "int32", data=numbers.values)
