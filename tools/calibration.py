"""Calibration: finds the real range of each activation of a `Network` by running the network.

TensorFlow Lite Micro runs the int8 model that the current ranges give. The outputs show which
ranges clip values and which are too wide. A few rounds adjust every range to its activation,
without a second implementation of the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.simulators.tflite_micro import run_tflite_micro_sets
from tools.network import Network
from tools.quantised_tensor import Activation, quantised_activation

InputSet = tuple[NDArray[Any], ...]
Limits = tuple[float, float]

ROUNDS = 10  # a network of 10 layers converges in about 6


def calibrated_ranges(
    network: Network, input_limits: dict[str, Limits], input_sets: Sequence[InputSet]
) -> dict[str, Limits]:
    """Real range of each activation over `input_sets`.

    `input_limits` gives the ranges of the inputs."""
    given = {tensor.group for _, tensor in network.activations() if tensor.name in input_limits}
    activations = [item for item in network.activations() if item[1].group not in given]
    wide: dict[str, Limits] = {a.name: (-8.0, 8.0) for _, a in activations} | input_limits
    observed = dict(wide)
    for _ in range(ROUNDS):
        answers = run_tflite_micro_sets(network.tflite_bytes(wide), input_sets)
        tensors = [dict(answer.tensors) for answer in answers]
        shared = _group_limits(network, wide)
        for index, activation in activations:
            values = np.concatenate([found[index].ravel() for found in tensors]).astype(int)
            limits = shared[activation.group]
            observed[activation.name] = _real_limits(activation, limits, values)
            wide[activation.name] = _wider(limits, observed[activation.name], values)
    return observed


def _group_limits(network: Network, limits: dict[str, Limits]) -> dict[str, Limits]:
    """Union of the ranges of each group's members, by group."""
    shared: dict[str, Limits] = {}
    members = [tensor for _, tensor in network.activations() if tensor.name in limits]
    for activation in members:
        low, high = limits[activation.name]
        known = shared.get(activation.group, (low, high))
        shared[activation.group] = (min(low, known[0]), max(high, known[1]))
    return shared


def _real_limits(activation: Activation, limits: Limits, values: NDArray[np.int64]) -> Limits:
    """Smallest and largest real value of int8 `values` that are quantised with `limits`."""
    spec = quantised_activation(activation, limits)
    scale, zero_point = spec.scales[0], spec.zero_points[0]
    return float(values.min() - zero_point) * scale, float(values.max() - zero_point) * scale


def _wider(limits: Limits, observed: Limits, values: NDArray[np.int64]) -> Limits:
    """The next range to try: four times the old one if values clip, else twice the observed one."""
    lower, upper = limits
    clipped = values.max() == 127 or (lower < 0 and values.min() == -128)
    if clipped:
        return 4 * lower, 4 * upper
    if observed[0] == observed[1]:  # all values fall into one quantisation step
        return lower / 16, upper / 16
    return 2 * min(observed[0], 0.0), 2 * max(observed[1], 0.0)
