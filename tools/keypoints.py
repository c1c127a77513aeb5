"""A model that finds key points in maps of int8 scores, as pose estimators do after their layers.

    center   (1, 12, 10, 1)  int8   score of each place to be the centre of the object
    offsets  (1, 12, 10, 8)  int8   distance of each key point from a centre at the place
    heat     (1, 12, 10, 4)  int8   score of each place to be a key point
    result   (1, 4, 3)       float  row, column and score of each key point

The places are computed in int32, the distances in float32; a score counts less the farther it is
from the place that the centre expects.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.simulators.drawn_inputs import InputType
from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec, write_tflite

ROWS, COLUMNS, POINTS = 12, 10, 4
_INDEX = np.dtype(np.int32).name


class _Model:
    """Tensors and operators in order; methods return indices of tensors."""

    def __init__(self) -> None:
        self.tensors: list[TensorSpec] = []
        self.operators: list[OperatorSpec] = []

    def tensor(self, shape: tuple[int, ...], dtype: str, scale: float = 0.0, zero: int = 0) -> int:
        quantisation = ((scale,), (zero,)) if scale else ((), ())
        self.tensors.append(TensorSpec(f"t{len(self.tensors)}", shape, dtype, *quantisation))
        return len(self.tensors) - 1

    def constant(self, values: Any, dtype: str) -> int:
        data: NDArray[Any] = np.array(values, dtype)
        name = f"t{len(self.tensors)}"
        self.tensors.append(TensorSpec(name, data.shape, dtype, data=data))
        return len(self.tensors) - 1

    def node(self, name: str, inputs: tuple[int, ...], y: int, **options: OptionValue) -> int:
        self.operators.append(OperatorSpec(name, inputs, (y,), options))
        return y

    def like(self, name: str, x: int, *others: int, **options: OptionValue) -> int:
        """A node whose output has the type of its first input."""
        spec = self.tensors[x]
        return self.node(name, (x, *others), self.tensor(spec.shape, spec.dtype), **options)

    def arithmetic(self, name: str, x: int, y: int) -> int:
        return self.like(name, x, y, fused_activation_function="NONE")

    def converted(self, name: str, x: int, dtype: str) -> int:
        return self.node(name, (x,), self.tensor(self.tensors[x].shape, dtype))

    def reshape(self, x: int, shape: tuple[int, ...]) -> int:
        spec = self.tensors[x]
        scale, zero = (spec.scales[0], spec.zero_points[0]) if spec.scales else (0.0, 0)
        y = self.tensor(shape, spec.dtype, scale, zero)
        return self.node("RESHAPE", (x, self.constant(shape, _INDEX)), y, new_shape=shape)

    def pack(self, *values: int) -> int:
        """The values side by side, along a new last axis."""
        spec = self.tensors[values[0]]
        y = self.tensor((*spec.shape, len(values)), spec.dtype)
        axis = len(spec.shape)
        return self.node("PACK", values, y, axis=axis, values_count=len(values))

    def places(self, scores: int, count: int) -> tuple[int, int]:
        """Row and column, int32 (1, count), of the highest of the scores (1, H * W, count)."""
        axis = self.constant([1], _INDEX)
        index = self.tensor((1, count), _INDEX)
        self.node("ARG_MAX", (scores, axis), index, output_type="INT32")
        real = self.converted("CAST", index, "float32")
        row = self.like("FLOOR_DIV", real, self.constant(COLUMNS, "float32"))
        row = self.converted("CAST", row, _INDEX)
        before = self.arithmetic("MUL", row, self.constant(COLUMNS, _INDEX))
        return row, self.arithmetic("SUB", index, before)

    def gathered(self, x: int, positions: int) -> int:
        """Elements of int8 `x` at positions, as real numbers."""
        spec, indices = self.tensors[x], self.tensors[positions].shape
        shape = (*indices[:-1], *spec.shape[indices[-1] :])
        y = self.tensor(shape, "int8", spec.scales[0], spec.zero_points[0])
        return self.converted("DEQUANTIZE", self.node("GATHER_ND", (x, positions), y), "float32")

    def column(self, x: int, k: int) -> int:
        """Element k of each vector of (1, POINTS, 2), as (1, POINTS)."""
        begin, end = self.constant([0, 0, k], _INDEX), self.constant([1, POINTS, k + 1], _INDEX)
        steps = self.constant([1, 1, 1], _INDEX)
        y = self.tensor((1, POINTS), self.tensors[x].dtype)
        return self.node("STRIDED_SLICE", (x, begin, end, steps), y, shrink_axis_mask=4)


def keypoints() -> tuple[bytes, tuple[InputType, ...]]:
    """The model and its input types."""
    m = _Model()
    center = m.tensor((1, ROWS, COLUMNS, 1), "int8", 0.01, -7)
    offsets = m.tensor((1, ROWS, COLUMNS, 2 * POINTS), "int8", 0.05, 12)
    heat = m.tensor((1, ROWS, COLUMNS, POINTS), "int8", 0.003, -100)
    row, column = m.places(m.reshape(center, (1, ROWS * COLUMNS, 1)), 1)
    zero = m.constant([[0]], _INDEX)
    distances = m.gathered(offsets, m.pack(zero, row, column))
    place = m.converted("CAST", m.pack(row, column), "float32")
    expected = m.tensor((1, POINTS, 2), "float32")
    operands = (m.reshape(distances, (1, POINTS, 2)), place)
    m.node("ADD", operands, expected, fused_activation_function="NONE")

    grids = np.indices((ROWS, COLUMNS), np.float32)
    squares: list[int] = []
    for k in range(2):
        grid = np.repeat(grids[k][None, :, :, None], POINTS, axis=3)
        point = m.reshape(m.column(expected, k), (1, 1, 1, POINTS))
        apart = m.arithmetic("SUB", m.constant(grid, "float32"), point)
        squares.append(m.like("SQUARE", apart))
    distance = m.like("SQRT", m.arithmetic("ADD", *squares))
    weight = m.arithmetic("ADD", distance, m.constant(1.8, "float32"))
    weighted = m.arithmetic("DIV", m.converted("DEQUANTIZE", heat, "float32"), weight)
    scores = m.tensor((1, ROWS, COLUMNS, POINTS), "int8", 0.0015, -110)
    m.node("QUANTIZE", (weighted,), scores)

    row, column = m.places(m.reshape(scores, (1, ROWS * COLUMNS, POINTS)), POINTS)
    zeros = m.constant([[0] * POINTS], _INDEX)
    positions = m.pack(zeros, row, column, m.constant([range(POINTS)], _INDEX))
    score = m.gathered(heat, positions)
    reals = (m.converted("CAST", row, "float32"), m.converted("CAST", column, "float32"))
    scaled = [
        m.arithmetic("MUL", real, m.constant(1 / extent, "float32"))
        for real, extent in zip(reals, (ROWS, COLUMNS), strict=True)
    ]
    result = m.pack(*scaled, score)
    inputs = (center, offsets, heat)
    model = write_tflite(m.tensors, m.operators, inputs, (result,))
    types = tuple((m.tensors[k].shape, np.int8, m.tensors[k].zero_points[0]) for k in inputs)
    return model, types
