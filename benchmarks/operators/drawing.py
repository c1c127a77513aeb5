"""Drawing: a random model under construction, and the distributions of scales and zero points.

A scale is of one of four kinds, equally likely: typical of a trained network (2^-10 .. 2^1), any
legal scale (2^-30 .. 2^10), a power of two, or a short decimal fraction. Quotients of powers of two
are exact, so that roundings tie; quotients of decimal fractions are next to a tie, and the
precision and order of the computation decide the side. A zero point is an end of int8, zero, or any
value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec, write_tflite

Array = NDArray[Any]
Shape = tuple[int, ...]
LOG2_SCALES = (-30.0, 10.0)
LEGAL_SCALES = (2.0**-32, 2.0**31)
"""Approximate range of legal scales of activations."""
LOG2_TYPICAL_SCALES = (-10.0, 1.0)
ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A finished model with input values."""

    tensors: tuple[TensorSpec, ...]
    operators: tuple[OperatorSpec, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    values: tuple[Array, ...]

    @property
    def operator(self) -> OperatorSpec:
        """The last operator, which is under test."""
        return self.operators[-1]

    def tflite(self) -> bytes:
        return write_tflite(self.tensors, self.operators, self.inputs, self.outputs)

    def describe(self) -> str:
        """One line with the operator, its options and its tensors."""
        options = ", ".join(f"{name}={value}" for name, value in self.operator.options.items())
        return f"{self.operator.name}({options}) {' '.join(map(_described, self.tensors))}"


def _described(spec: TensorSpec) -> str:
    """Name, shape, scale and zero point; of small constants also the values."""
    scales = ",".join(f"{scale:.9g}" for scale in spec.scales[:3])
    text = f"{spec.name}{list(spec.shape)}:{spec.dtype}"
    if spec.scales:
        text += f"*{scales}@{spec.zero_points[0]}"
    if spec.data is not None and spec.data.size <= 8:
        text += f"={spec.data.tolist()}"
    return text


@dataclass
class Drawing:
    """A model to which operands and operators are added."""

    rng: np.random.Generator
    tensors: list[TensorSpec] = field(default_factory=list[TensorSpec])
    operators: list[OperatorSpec] = field(default_factory=list[OperatorSpec])
    inputs: list[int] = field(default_factory=list[int])
    steps: dict[int, float] = field(default_factory=dict[int, float])
    """By real-valued input, the step of the quantisation that reads it."""

    def drawn(self) -> Drawn:
        """The model; results without readers are its outputs."""
        read = {k for operator in self.operators for k in operator.inputs}
        written = (k for operator in self.operators for k in operator.outputs)
        return Drawn(
            tuple(self.tensors),
            tuple(self.operators),
            tuple(self.inputs),
            tuple(k for k in written if k not in read),
            tuple(
                self._reals(self.tensors[k].shape, self.steps[k])
                if k in self.steps
                else self._values(self.tensors[k])
                for k in self.inputs
            ),
        )

    def _values(self, spec: TensorSpec) -> Array:
        """Input values: uniform, or with frequent extremes and zero points."""
        if spec.dtype == "bool":
            return self.rng.integers(0, 2, spec.shape).astype(np.bool_)
        if spec.dtype == "uint8":
            return self.rng.integers(0, 256, spec.shape).astype(np.uint8)
        if spec.dtype in ("int16", "int32", "int64"):
            bits = self.choose(5, 12, min(32, 8 * np.dtype(spec.dtype).itemsize))
            wide = self.rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), spec.shape)
            return wide.astype(spec.dtype)
        values = self.rng.integers(-128, 128, spec.shape)
        if self.chance(0.5) and values.size >= 256:
            values.flat[:256] = self.rng.permutation(np.arange(-128, 128))
        elif self.chance(0.5):
            special = self.rng.choice((-128, 127, spec.zero_points[0]), spec.shape)
            values = np.where(self.rng.random(spec.shape) < 0.3, special, values)
        return values.astype(np.int8)

    def _reals(self, shape: Shape, step: float) -> Array:
        """Multiples of half a step, which are ties, or any numbers; some saturate."""
        halves = self.rng.integers(-600, 600, shape) / 2
        steps = halves if self.chance(0.5) else self.rng.uniform(-300, 300, shape)
        return (steps * step).astype(np.float32)

    # Random choices.

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def integer(self, lower: int, upper: int) -> int:
        """A random integer in [lower, upper]."""
        return int(self.rng.integers(lower, upper + 1))

    def choose(self, *options: Any) -> Any:
        return options[self.rng.integers(len(options))]

    def scale(self) -> float:
        """A scale of the whole legal range, in single precision."""
        match self.integer(0, 3):
            case 0:
                scale = 2.0 ** self.rng.uniform(*LOG2_TYPICAL_SCALES)
            case 1:
                scale = 2.0 ** self.rng.uniform(*LOG2_SCALES)
            case 2:
                scale = 2.0 ** self.integer(*map(int, LOG2_SCALES))
            case _:
                scale = self.integer(1, 20) / 10 ** self.integer(1, 4)
        return float(np.float32(scale))

    def scale_near(self, scale: float) -> float:
        """Mostly within a factor of 2^4 of a scale, so that outputs do not all saturate."""
        match self.integer(0, 3):
            case 0:
                return self.scale()
            case 1:
                factor = 2.0 ** self.integer(-3, 3)
            case 2:  # the quotient is odd / even, about: elements lie next to ties
                factor = 2 * self.integer(1, 6) / (2 * self.integer(0, 5) + 1)
            case _:
                factor = 2.0 ** self.rng.uniform(-4, 4)
        return float(np.float32(scale * factor))

    def zero_point(self) -> int:
        return self.choose(-128, 127, 0, self.integer(-128, 127), self.integer(-128, 127))

    def activation_function(self) -> str:
        return self.choose("NONE", *ACTIVATIONS)

    def shape(self, rank: int | None = None, most: int = 400) -> Shape:
        """A shape with small extents and a bounded number of elements."""
        rank = rank or self.integer(1, 4)
        while True:
            shape = tuple(int(n) for n in np.ceil(18 ** self.rng.uniform(0, 1, rank)))
            if int(np.prod(shape)) <= most:
                return shape

    def image(self, most: int = 600, batches: bool = True) -> Shape:
        """Batch, rows, columns, channels."""
        return (self.choose(1, 1, 2) if batches else 1, *self.shape(3, most))

    def every_element(self) -> Shape:
        """A shape of 256 elements, enough for all values of int8."""
        return self.choose((256,), (1, 256), (2, 128), (1, 16, 16), (1, 4, 8, 8), (2, 2, 4, 16))

    # Tensors.

    def tensor(self, spec: TensorSpec) -> int:
        self.tensors.append(spec)
        return len(self.tensors) - 1

    def int8(self, name: str, shape: Shape, scale: float, zero_point: int) -> int:
        return self.tensor(TensorSpec(name, shape, "int8", (scale,), (zero_point,)))

    def input(self, shape: Shape, like: int | None = None, scale: float | None = None) -> int:
        """A variable int8 operand, quantised like another tensor if one is named."""
        name = f"x{len(self.inputs)}"
        if like is not None:
            index = self.like(name, shape, like)
        else:
            index = self.int8(name, shape, scale or self.scale(), self.zero_point())
        self.inputs.append(index)
        return index

    def wide(self, shape: Shape) -> int:
        """A variable int16 operand."""
        zero = self.choose(0, 0, self.integer(-(2**15), 2**15 - 1))
        self.inputs.append(self.tensor(TensorSpec("x0", shape, "int16", (self.scale(),), (zero,))))
        return self.inputs[-1]

    def byte(self, shape: Shape) -> int:
        """A variable uint8 operand."""
        spec = TensorSpec("x0", shape, "uint8", (self.scale(),), (self.zero_point() + 128,))
        self.inputs.append(self.tensor(spec))
        return self.inputs[-1]

    def real(self, shape: Shape, step: float) -> int:
        """A variable float32 operand, whose values are near multiples of `step`."""
        self.inputs.append(self.tensor(TensorSpec(f"x{len(self.inputs)}", shape, "float32")))
        self.steps[self.inputs[-1]] = step
        return self.inputs[-1]

    def plain(self, shape: Shape, dtype: str) -> int:
        """A variable operand without quantisation; real numbers are of any magnitude."""
        if dtype == "float32":
            return self.real(shape, 2.0 ** self.integer(-12, 4))
        self.inputs.append(self.tensor(TensorSpec(f"x{len(self.inputs)}", shape, dtype)))
        return self.inputs[-1]

    def condition(self, shape: Shape) -> int:
        """A variable boolean operand."""
        self.inputs.append(self.tensor(TensorSpec(f"x{len(self.inputs)}", shape, "bool")))
        return self.inputs[-1]

    def operand(self, shape: Shape, like: int | None = None) -> int:
        """A variable operand, or in a fifth of all cases a constant beside a variable one."""
        index = self.input(shape, like)
        if len(self.inputs) > 1 and self.chance(0.2):
            spec = self.tensors[self.inputs.pop()]
            self.tensors[index] = TensorSpec(
                f"k{index}", shape, "int8", spec.scales, spec.zero_points, data=self._values(spec)
            )
        return index

    def constant(self, values: object, dtype: str = "int32") -> int:
        data = np.array(values, dtype)
        return self.tensor(TensorSpec(f"k{len(self.tensors)}", data.shape, dtype, data=data))

    def output(self, shape: Shape, scale: float, zero_point: int | None = None) -> int:
        zero_point = self.zero_point() if zero_point is None else zero_point
        scale = float(np.clip(scale, *LEGAL_SCALES))
        return self.int8(f"y{len(self.tensors)}", shape, scale, zero_point)

    def like(self, name: str, shape: Shape, other: int) -> int:
        """An int8 tensor quantised like another."""
        spec = self.tensors[other]
        return self.int8(name, shape, spec.scales[0], spec.zero_points[0])

    def same(self, shape: Shape, x: int) -> int:
        """An output quantised like its input."""
        return self.like(f"y{len(self.tensors)}", shape, x)

    def shape_of(self, index: int) -> Shape:
        return self.tensors[index].shape

    def scale_of(self, index: int) -> float:
        return self.tensors[index].scales[0]

    def operator(
        self, name: str, inputs: tuple[int, ...], *outputs: int, **options: OptionValue
    ) -> None:
        self.operators.append(OperatorSpec(name, inputs, outputs, options))
