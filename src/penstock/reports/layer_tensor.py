"""LayerTensor: a tensor that a layer reads or writes, with its quantisation, as reports show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.ir.graph import Node, Value
from penstock.reports.json_value import Json
from penstock.reports.logical_shape import logical_shape


class TensorRole(StrEnum):
    """What a tensor is to a layer."""

    INPUT = "input"
    CONSTANT = "constant"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class LayerTensor:
    """A tensor of a layer.

    `scales` are the scales of its channels, or the one that all share; none for plain numbers.
    `zero_point` is the zero point that all channels share; None for plain numbers, and where zero
    points differ.
    """

    role: TensorRole
    name: str
    shape: tuple[int, ...]
    element_type: str
    size_bytes: int
    scales: tuple[float, ...] = ()
    zero_point: int | None = None

    def as_json(self) -> dict[str, Json]:
        """Return the tensor as a JSON object, with the range and the number of its scales."""
        return {
            "role": self.role,
            "name": self.name,
            "shape": list(self.shape),
            "element_type": self.element_type,
            "size_bytes": self.size_bytes,
            "scales": [min(self.scales), max(self.scales)] if self.scales else None,
            "channels": len(self.scales) or None,
            "zero_point": self.zero_point,
        }


def tensors(
    inputs: Iterable[Value], output: Value, producers: Mapping[str, Node]
) -> tuple[LayerTensor, ...]:
    """Return the inputs of a layer, constants included, and its output.

    `producers` are the nodes that compute tensors, by name.
    """
    read = (
        _tensor(TensorRole.INPUT if value.data is None else TensorRole.CONSTANT, value, shape)
        for value in inputs
        for shape in (logical_shape(value, producers),)
    )
    return (*read, _tensor(TensorRole.OUTPUT, output, logical_shape(output, producers)))


def _tensor(role: TensorRole, value: Value, shape: tuple[int, ...]) -> LayerTensor:
    type, stated = value.type, value.type.quantisation
    known = (role, value.name, shape, type.dtype.value, type.size_bytes)
    if stated is None:
        return LayerTensor(*known)
    shared = set(stated.zero_points)
    return LayerTensor(
        *known,
        tuple(stated.scales),
        shared.pop() if len(shared) == 1 else None,
    )
