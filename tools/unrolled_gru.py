"""A GRU layer whose steps a converter has unrolled, as a `.tflite` file.

Keras writes such a graph for a GRU layer with `unroll=True`: each step consists of fully connected
layers, a split, logistic functions, products and sums, and all steps share their constants.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec, write_tflite

GATES = ("update", "reset", "candidate")
INPUT = (1 / 64, 3)
SUM = (1 / 36, -2)
"""Scale and zero point of the arguments of gates."""
UNIT_INTERVAL = (1 / 256, -128)
"""Of logistic functions, as TFLite requires."""
SIGNED_UNIT_INTERVAL = (1 / 128, 0)
"""Of hyperbolic tangents and hidden states."""


@dataclass(slots=True)
class UnrolledGru:
    """Collects tensors and operators.  The first tensor is the input, (1, steps, depth)."""

    rng: np.random.Generator
    units: int
    tensors: list[TensorSpec] = field(default_factory=list[TensorSpec])
    operators: list[OperatorSpec] = field(default_factory=list[OperatorSpec])

    def tflite(self, steps: int, depth: int) -> bytes:
        """The file; its outputs are all hidden states, (1, units) each."""
        x = self._add(TensorSpec("sequence", (1, steps, depth), "int8", (INPUT[0],), (INPUT[1],)))
        inputs = [self._tensor(f"step{k}", depth, INPUT) for k in range(steps)]
        unpack: dict[str, OptionValue] = {"num": steps, "axis": 1}
        self.operators.append(OperatorSpec("UNPACK", (x,), tuple(inputs), unpack))
        initial = self.rng.integers(-100, 101, (1, self.units)).astype(np.int8)
        hidden = self._constant("initial", initial, *SIGNED_UNIT_INTERVAL)
        kernel = self._layer("kernel", depth, INPUT[0])
        recurrent = self._layer("recurrent", self.units, SIGNED_UNIT_INTERVAL[0])
        one = self._constant("one", np.array([[127]], np.int8), 1 / 127, 0)
        axis = self._add(TensorSpec("axis", (), "int32", data=np.array(1, np.int32)))
        outputs: list[int] = []
        for k, now in enumerate(inputs):
            hidden = self._step(k, now, hidden, (kernel, recurrent), one, axis)
            outputs.append(hidden)
        return write_tflite(self.tensors, self.operators, (x,), tuple(outputs))

    def _step(
        self,
        k: int,
        x: int,
        hidden: int,
        layers: tuple[tuple[int, int], tuple[int, int]],
        one: int,
        axis: int,
    ) -> int:
        """The hidden state after a step, with the reset gate after the product."""
        parts: list[tuple[int, ...]] = []
        for label, operand, layer in zip("xh", (x, hidden), layers, strict=True):
            product = self._tensor(f"{label}{k}", len(GATES) * self.units, SUM)
            dense: dict[str, OptionValue] = {"fused_activation_function": "NONE"}
            self.operators.append(
                OperatorSpec("FULLY_CONNECTED", (operand, *layer), (product,), dense)
            )
            pieces = tuple(self._tensor(f"{label}{k}_{gate}", self.units, SUM) for gate in GATES)
            split: dict[str, OptionValue] = {"num_splits": len(GATES)}
            self.operators.append(OperatorSpec("SPLIT", (axis, product), pieces, split))
            parts.append(pieces)
        (xz, xr, xh), (hz, hr, hh) = parts
        update = self._apply("LOGISTIC", f"update{k}", UNIT_INTERVAL, self._sum(f"z{k}", xz, hz))
        reset = self._apply("LOGISTIC", f"reset{k}", UNIT_INTERVAL, self._sum(f"r{k}", xr, hr))
        gated = self._apply("MUL", f"gated{k}", SUM, reset, hh)
        candidate = self._apply(
            "TANH", f"candidate{k}", SIGNED_UNIT_INTERVAL, self._sum(f"c{k}", xh, gated)
        )
        rest = self._apply("SUB", f"rest{k}", UNIT_INTERVAL, one, update)
        added = self._apply("MUL", f"added{k}", SIGNED_UNIT_INTERVAL, rest, candidate)
        kept = self._apply("MUL", f"kept{k}", SIGNED_UNIT_INTERVAL, update, hidden)
        return self._apply("ADD", f"hidden{k}", SIGNED_UNIT_INTERVAL, kept, added)

    def _sum(self, name: str, a: int, b: int) -> int:
        return self._apply("ADD", name, SUM, a, b)

    def _apply(self, operator: str, name: str, like: tuple[float, int], *inputs: int) -> int:
        output = self._tensor(name, self.units, like)
        fused = {"fused_activation_function": "NONE"} if len(inputs) > 1 else {}
        options: dict[str, OptionValue] = dict(fused)
        self.operators.append(OperatorSpec(operator, inputs, (output,), options))
        return output

    def _layer(self, name: str, depth: int, input_scale: float) -> tuple[int, int]:
        """Weights and bias of all gates."""
        scale, rows = 1.6 / 127 / depth**0.5, len(GATES) * self.units
        weights = self.rng.integers(-127, 128, (rows, depth)).astype(np.int8)
        bias = self.rng.integers(-40000, 40001, rows).astype(np.int32)
        return (
            self._constant(name, weights, scale, 0),
            self._constant(f"{name}_bias", bias, scale * input_scale, 0),
        )

    def _tensor(self, name: str, channels: int, like: tuple[float, int]) -> int:
        scale, zero = like
        return self._add(TensorSpec(name, (1, channels), "int8", (scale,), (zero,)))

    def _constant(
        self, name: str, data: NDArray[np.int8] | NDArray[np.int32], scale: float, zero: int
    ) -> int:
        return self._add(
            TensorSpec(name, data.shape, data.dtype.name, (scale,), (zero,), data=data)
        )

    def _add(self, spec: TensorSpec) -> int:
        self.tensors.append(spec)
        return len(self.tensors) - 1
