"""Calibration: which range each result of a `Network` takes, found by running the network.

TensorFlow Lite Micro runs the int8 model that the ranges so far give, and shows what they cut off
or waste; a few rounds later each range is what its result needs. No second arithmetic is involved.
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

ROUNDS = 10  # a network of 10 layers settles in about 6


def calibrated_ranges(
    network: Network, input_limits: dict[str, Limits], input_sets: Sequence[InputSet]
) -> dict[str, Limits]:
    """The real range of each activation over `input_sets`; that of the inputs is given."""
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
    """The range that all members of a group share."""
    shared: dict[str, Limits] = {}
    members = [tensor for _, tensor in network.activations() if tensor.name in limits]
    for activation in members:
        low, high = limits[activation.name]
        known = shared.get(activation.group, (low, high))
        shared[activation.group] = (min(low, known[0]), max(high, known[1]))
    return shared


def _real_limits(activation: Activation, limits: Limits, values: NDArray[np.int64]) -> Limits:
    """Smallest and largest real value of int8 `values` that were quantised with `limits`."""
    spec = quantised_activation(activation, limits)
    scale, zero_point = spec.scales[0], spec.zero_points[0]
    return float(values.min() - zero_point) * scale, float(values.max() - zero_point) * scale


def _wider(limits: Limits, observed: Limits, values: NDArray[np.int64]) -> Limits:
    """What to try next: four times as much where values were cut off, else twice what was seen."""
    lower, upper = limits
    cut_off = values.max() == 127 or (lower < 0 and values.min() == -128)
    if cut_off:
        return 4 * lower, 4 * upper
    if observed[0] == observed[1]:  # every value fell into one step
        return lower / 16, upper / 16
    return 2 * min(observed[0], 0.0), 2 * max(observed[1], 0.0)
