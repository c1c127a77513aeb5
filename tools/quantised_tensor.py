"""The tensors of a `Network` and their quantisation.

    activations  int8, asymmetric, per tensor; [lower, upper] is extended to contain 0 and mapped
                 to [-128, 127]
    weights      int8, symmetric, per channel or per tensor; the largest magnitude maps to 127
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
    """The result of a layer.  All activations of a group share one range."""

    name: str
    shape: tuple[int, ...]
    group: str
    is_softmax: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Real constants with one scale per index of `axis`, or one scale if `axis` is None."""

    name: str
    values: Reals
    axis: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Bias:
    """Real constants that are added to sums of x * w."""

    name: str
    values: Reals
    x: str
    w: str


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Integers without quantisation: axes, shapes, paddings."""

    name: str
    values: NDArray[np.int32]


Tensor = Activation | Weights | Bias | Numbers


def quantised_activation(activation: Activation, limits: tuple[float, float]) -> TensorSpec:
    """An int8 activation.  `limits`: smallest and largest real value; softmax ignores them."""
    scale, zero_point = (1 / 256, -128) if activation.is_softmax else _affine(limits)
    return TensorSpec(activation.name, activation.shape, scales=(scale,), zero_points=(zero_point,))


def _affine(limits: tuple[float, float]) -> tuple[float, int]:
    """Scale (rounded to float32, as in the file) and zero point that map the limits to int8."""
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
