"""Networks of int8 LSTM layers, as `.tflite` files.

A network is a stack of layers.  `draw_lstm` draws one, with scales and zero points over the legal
range, and sometimes sums that saturate; equal seeds draw equal networks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec, write_tflite

OPERATOR = "UNIDIRECTIONAL_SEQUENCE_LSTM"
GATES = ("input", "forget", "cell", "output")
PEEPHOLES, PROJECTIONS, NORMALISATIONS = 3, 2, 4
"""Numbers of omitted inputs."""


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """A layer: its hidden state, the cell state's scale 2**cell_exponent, and gains.

    input_gain, recurrent_gain: standard deviation of the weighted sums, as real numbers.
    """

    units: int
    hidden_scale: float = 1 / 128
    hidden_zero: int = 0
    cell_exponent: int = -12
    cell_clip: float = 0.0
    input_gain: float = 1.0
    recurrent_gain: float = 1.0
    time_major: bool = False


@dataclass(slots=True)
class LstmNetwork:
    """Collects the tensors and operators of a network."""

    rng: np.random.Generator
    tensors: list[TensorSpec] = field(default_factory=list[TensorSpec])
    operators: list[OperatorSpec] = field(default_factory=list[OperatorSpec])

    def add(self, spec: TensorSpec) -> int:
        """Appends a tensor and returns its index."""
        self.tensors.append(spec)
        return len(self.tensors) - 1

    def input(self, shape: tuple[int, int, int], scale: float, zero: int) -> int:
        """The network's input: (batch, steps, inputs), or (steps, batch, inputs)."""
        return self.add(TensorSpec("sequence", shape, "int8", (scale,), (zero,)))

    def lstm(self, x: int, layer: LayerSpec) -> int:
        """Appends a layer and returns its output, a sequence."""
        first, second, depth = self.tensors[x].shape
        batch = second if layer.time_major else first
        inputs = [self._weights(x, layer.units, depth, layer.input_gain) for _ in GATES]
        shape = (batch, layer.units)
        hidden = self._tensor("hidden", shape, layer.hidden_scale, layer.hidden_zero, state=True)
        cell = self._tensor("cell", shape, 2.0**layer.cell_exponent, 0, "int16", state=True)
        recurrent = [
            self._weights(hidden, layer.units, layer.units, layer.recurrent_gain) for _ in GATES
        ]
        biases = [self._bias(x, w) for w in inputs]
        shape = (first, second, layer.units)
        y = self._tensor("steps", shape, layer.hidden_scale, layer.hidden_zero)
        operands = (
            x, *inputs, *recurrent, *(-1,) * PEEPHOLES, *biases, *(-1,) * PROJECTIONS, hidden, cell,
            *(-1,) * NORMALISATIONS,
        )  # fmt: skip
        options: dict[str, OptionValue] = {
            "fused_activation_function": "TANH",
            "cell_clip": layer.cell_clip,
            "time_major": layer.time_major,
        }
        self.operators.append(OperatorSpec(OPERATOR, operands, (y,), options))
        return y

    def _weights(self, x: int, units: int, depth: int, gain: float) -> int:
        """Random weights of a gate; the weighted sums have standard deviation `gain`."""
        data = self.rng.integers(-127, 128, (units, depth)).astype(np.int8)
        scale = gain / (self.tensors[x].scales[0] * 73 * 73 * depth**0.5)
        scale *= self.rng.uniform(0.7, 1.4)
        return self._constant("weights", data, scale)

    def _bias(self, x: int, weights: int) -> int:
        scale = self.tensors[x].scales[0] * self.tensors[weights].scales[0]
        units = self.tensors[weights].shape[0]
        data = np.clip(self.rng.normal(0, 1, units) / scale, -(2**30), 2**30).astype(np.int32)
        return self._constant("bias", data, scale)

    def _tensor(
        self, name: str, shape: tuple[int, ...], scale: float, zero: int, dtype: str = "int8",
        *, state: bool = False,
    ) -> int:  # fmt: skip
        """A new tensor; with `state`, a variable tensor."""
        scales = (float(np.float32(scale)),)
        name = f"{name}{len(self.tensors)}"
        return self.add(TensorSpec(name, shape, dtype, scales, (zero,), is_variable=state))

    def _constant(self, name: str, data: NDArray[Any], scale: float) -> int:
        scales = (float(np.float32(scale)),)
        name = f"{name}{len(self.tensors)}"
        return self.add(TensorSpec(name, data.shape, data.dtype.name, scales, (0,), data=data))

    def last_step(self, x: int) -> int:
        """The last step of a sequence (1, steps, units)."""
        spec = self.tensors[x]
        _, steps, units = spec.shape
        lists = [np.array(v, np.int32) for v in ((0, steps - 1, 0), (1, steps, units), (1, 1, 1))]
        begin, end, step = (
            self.add(TensorSpec(f"list{len(self.tensors)}", (3,), "int32", data=data))
            for data in lists
        )
        y = self.add(TensorSpec("last", (1, units), "int8", spec.scales, spec.zero_points))
        masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask"), 0)
        options: dict[str, OptionValue] = {**masks, "shrink_axis_mask": 0b010}
        self.operators.append(OperatorSpec("STRIDED_SLICE", (x, begin, end, step), (y,), options))
        return y

    def tflite(self, x: int, *outputs: int) -> bytes:
        """The file of the network."""
        return write_tflite(self.tensors, self.operators, (x,), outputs, "LSTM")


def draw_lstm(seed: int, number: int) -> bytes:
    """A random network of one or two layers."""
    net = LstmNetwork(np.random.default_rng([seed, number]))
    rng = net.rng
    time_major = bool(rng.integers(2))
    batch, steps, depth = (int(n) for n in rng.integers((1, 1, 1), (4, 12, 9)))
    shape = (steps, batch, depth) if time_major else (batch, steps, depth)
    x = first = net.input(
        shape, float(np.float32(10 ** rng.uniform(-3, 0))), int(rng.integers(-128, 128))
    )
    for _ in range(int(rng.integers(1, 3))):
        x = net.lstm(x, draw_layer(rng, time_major))
    return net.tflite(first, x)


def draw_layer(rng: np.random.Generator, time_major: bool) -> LayerSpec:
    """A random layer."""
    return LayerSpec(
        units=int(rng.integers(1, 12)),
        hidden_scale=float(10 ** rng.uniform(-3.2, -1.5)),
        hidden_zero=int(rng.integers(-128, 128)),
        cell_exponent=int(rng.integers(-16, -5)),
        cell_clip=float(rng.choice([0, 0, 0.7, 2.5, 100])),
        input_gain=float(rng.choice([0.5, 1, 2, 8])),
        recurrent_gain=float(rng.choice([0.5, 1, 2, 8])),
        time_major=time_major,
    )
