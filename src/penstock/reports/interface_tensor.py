"""InterfaceTensor: an input or output of the generated code, with its quantisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import UsageError
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array, DType, TensorType
from penstock.passes.streamed_rows import channels_first

_MAX_STEPS = np.float32(131072)
"""Larger than any difference of two elements of 16 bits."""


@dataclass(frozen=True, slots=True)
class InterfaceTensor:
    """An input or output of the generated code.

    name: key of `sets` and `outputs` in Python.
    element_type: the name of the type in NumPy.
    scale, zero_point: real = scale * (element - zero_point); None without quantisation, and with
        one per channel.
    channels_first: whether the tensor is an input image of shape (N, C, H, W); a row of it, if it
        is streamed, is a channel of H x W elements."""

    name: str
    shape: tuple[int, ...]
    element_type: str
    scale: float | None
    zero_point: int | None
    channels_first: bool = False

    @staticmethod
    def of(name: str, type: TensorType, *, channels_first: bool = False) -> InterfaceTensor:
        """The record of a tensor of this type."""
        q = type.quantisation
        single = q is not None and len(q.scales) == len(q.zero_points) == 1
        return InterfaceTensor(
            name,
            type.shape,
            type.dtype.value,
            type.scale if single else None,
            type.zero_point if single else None,
            channels_first,
        )

    def quantize(self, array: Array) -> Array:
        """Return the elements nearest to real numbers, ties away from zero, saturated, as the
        function NAME_quantize of the generated header does.  NaN becomes the smallest element.

        Raises UsageError if the elements are not quantised to at most 16 bits."""
        scale, zero_point = self._quantisation
        limits = DType(self.element_type)
        if limits.size_bytes > 2:
            raise self._refused(f"its elements are {self.element_type}, must have at most 16 bits")
        with np.errstate(over="ignore", invalid="ignore"):
            quotients = np.asarray(array, np.float32) / np.float32(scale)
        bounded = np.fmin(np.fmax(quotients, -_MAX_STEPS), _MAX_STEPS)
        whole = np.trunc(bounded)
        remainder = bounded - whole
        steps = whole.astype(np.int64) + (remainder >= 0.5) - (remainder <= -0.5) + zero_point
        return np.clip(steps, limits.lower, limits.upper - 1).astype(self.element_type)

    def dequantize(self, array: Array) -> Array:
        """Return the real numbers that elements represent, as float32.

        Raises UsageError if the elements are not quantised."""
        scale, zero_point = self._quantisation
        steps = np.asarray(array).astype(np.float32) - np.float32(zero_point)
        return np.float32(scale) * steps

    @property
    def _quantisation(self) -> tuple[float, int]:
        if self.scale is None or self.zero_point is None:
            raise self._refused(f"its {self.element_type} elements have no scale and zero point")
        return self.scale, self.zero_point

    def _refused(self, why: str) -> UsageError:
        return UsageError(
            "usage-143",
            "the tensor cannot be converted",
            where=f'"{self.name}"',
            why=why,
            help="pass its elements as they are",
        )


@dataclass(frozen=True, slots=True)
class ModelInterface:
    """The inputs and outputs of the generated code, in the order of the model."""

    inputs: tuple[InterfaceTensor, ...] = ()
    outputs: tuple[InterfaceTensor, ...] = ()


def model_interface(model: Graph, compiled: Graph) -> ModelInterface:
    """Return the interface of a compiled graph.

    model: the graph as read from the file.  Where a conversion at its border is the caller's, the
    compiled input has another name; the record has that of the model."""
    names = {value.name for value in model.inputs}
    producers = model.producers()
    planes = {value.name for value in channels_first(compiled)}

    def name(value: Value) -> str:
        return value.name if value.name in names else producers[value.name].inputs[0].name

    return ModelInterface(
        tuple(
            InterfaceTensor.of(name(x), x.type, channels_first=x.name in planes)
            for x in compiled.inputs
        ),
        tuple(InterfaceTensor.of(value.name, value.type) for value in compiled.outputs),
    )
