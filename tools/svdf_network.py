"""Random networks of SVDF layers, as `.tflite` files.

An SVDF layer keeps the last weighted sums of its inputs, in a variable tensor of 8 or 16 bits.  A
fully connected layer may follow.  `draw_svdf` draws a network; equal seeds draw equal networks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

UNSCALED = 2**30
"""Accumulators of this size use most of the range of int8."""


@dataclass(frozen=True, slots=True)
class SvdfSpec:
    """An SVDF layer.  `state`: the element type of its state and of the weights over time;
    `state_zero`: the zero point of the state."""

    units: int
    steps: int
    rank: int = 1
    state: str = "int16"
    activation: str = "NONE"
    state_zero: int = 0


@dataclass(slots=True)
class SvdfNetwork:
    """Collects the tensors and operators of a network of layers (1, features)."""

    rng: np.random.Generator
    tensors: list[TensorSpec] = field(default_factory=list[TensorSpec])
    operators: list[OperatorSpec] = field(default_factory=list[OperatorSpec])

    def add(self, spec: TensorSpec) -> int:
        """Appends a tensor and returns its index."""
        self.tensors.append(spec)
        return len(self.tensors) - 1

    def activation(self, features: int, scale: float, zero: int) -> int:
        """A new int8 tensor."""
        spec = TensorSpec(f"x{len(self.tensors)}", (1, features), "int8", (scale,), (zero,))
        return self.add(spec)

    def constant(self, shape: tuple[int, ...], dtype: str, largest: int, scale: float) -> int:
        """Random constants of magnitude up to `largest`."""
        data = self.rng.integers(-largest, largest + 1, shape).astype(dtype)
        return self.add(TensorSpec(f"k{len(self.tensors)}", shape, dtype, (scale,), (0,), 0, data))

    def svdf(self, x: int, spec: SvdfSpec) -> int:
        """An SVDF layer.  Sums of an int16 state may wrap around."""
        filters, depth = spec.units * spec.rank, self.tensors[x].shape[1]
        most = 127 if spec.state == "int8" else 2**15 - 1
        w = self.constant((filters, depth), "int8", 127, 0.01)
        one_step = self.tensors[x].scales[0] * 0.01 * 74 * 90 * depth**0.5
        state_scale = _float32(one_step / most)
        v = self.constant((filters, spec.steps), spec.state, most, 0.004)
        sums = min(0.35 * most * most * (spec.steps * spec.rank) ** 0.5, UNSCALED)
        product = _float32(state_scale * 0.004)
        b = self.constant((spec.units,), "int32", int(sums), product)
        shape = (1, filters * spec.steps)
        state = self.add(
            TensorSpec(
                f"s{len(self.tensors)}",
                shape,
                spec.state,
                (state_scale,),
                (spec.state_zero,),
                is_variable=True,
            )
        )
        zero = -128 if spec.activation == "RELU" else int(self.rng.integers(-60, 60))
        y = self.activation(spec.units, _float32(product * sums / 80), zero)
        options = {"rank": spec.rank, "fused_activation_function": spec.activation}
        self.operators.append(OperatorSpec("SVDF", (x, w, v, b, state), (y,), options))
        return y

    def fully_connected(self, x: int, outputs: int) -> int:
        """A fully connected layer."""
        depth, scale = self.tensors[x].shape[1], self.tensors[x].scales[0]
        w = self.constant((outputs, depth), "int8", 127, 0.01)
        b = self.constant((outputs,), "int32", 1000, _float32(scale * 0.01))
        y = self.activation(outputs, _float32(scale * 0.01 * 74 * depth**0.5), -3)
        self.operators.append(OperatorSpec("FULLY_CONNECTED", (x, w, b), (y,)))
        return y

    def tflite(self, x: int, y: int) -> bytes:
        """The file of the network from input `x` to output `y`."""
        return write_tflite(self.tensors, self.operators, (x,), (y,), "SVDF")


def draw_svdf(seed: int, number: int) -> bytes:
    """A random network of one to three SVDF layers."""
    net = SvdfNetwork(np.random.default_rng([seed, number]))
    x = first = net.activation(int(net.rng.integers(1, 20)), 0.05, int(net.rng.integers(-128, 128)))
    for _ in range(int(net.rng.integers(1, 4))):
        units, steps, rank = (int(net.rng.integers(1, most)) for most in (9, 7, 4))
        state, activation = net.rng.choice(("int8", "int16")), net.rng.choice(("NONE", "RELU"))
        x = net.svdf(x, SvdfSpec(units, steps, rank, str(state), str(activation)))
        if net.rng.integers(2):
            x = net.fully_connected(x, int(net.rng.integers(1, 9)))
    return net.tflite(first, x)


def _float32(x: float) -> float:
    return float(np.float32(x))
