"""LayerTensor: a tensor that a layer reads or writes, with its quantisation, as reports show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.ir.graph import Node, Value
from penstock.reports.logical_shape import logical_shape
from penstock.scheduling.model.part import Part


class TensorRole(StrEnum):
    """What a tensor is to a layer."""

    INPUT = "input"
    CONSTANT = "constant"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class LayerTensor:
    """A tensor of a layer.

    `scales` are the smallest and the largest scale, `channels` the number of scales, and
    `zero_point` the zero point that all channels share; None for plain numbers, and where zero
    points differ.
    """

    role: TensorRole
    name: str
    shape: tuple[int, ...]
    element_type: str
    size_bytes: int
    scales: tuple[float, float] | None = None
    channels: int | None = None
    zero_point: int | None = None


def tensors(part: Part, producers: Mapping[str, Node]) -> tuple[LayerTensor, ...]:
    """Return the inputs of a part, constants included, and its output.

    `producers` are the nodes that compute tensors, by name.
    """
    inputs = (
        _tensor(TensorRole.INPUT if value.data is None else TensorRole.CONSTANT, value, shape)
        for value in part.inputs
        for shape in (logical_shape(value, producers),)
    )
    output = logical_shape(part.output, producers)
    return (*inputs, _tensor(TensorRole.OUTPUT, part.output, output))


def _tensor(role: TensorRole, value: Value, shape: tuple[int, ...]) -> LayerTensor:
    type, stated = value.type, value.type.quantisation
    known = (role, value.name, shape, type.dtype.value, type.size_bytes)
    if stated is None:
        return LayerTensor(*known)
    shared = set(stated.zero_points)
    return LayerTensor(
        *known,
        (min(stated.scales), max(stated.scales)),
        len(stated.scales),
        shared.pop() if len(shared) == 1 else None,
    )
