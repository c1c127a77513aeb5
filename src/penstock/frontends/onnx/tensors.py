"""Tensors: the value of the graph that holds each tensor of the model, and its order of axes.

Tensors keep the order of axes of the operator that computed them, and are transposed only if
another operator requires it.  A view suffices if only axes of extent 1 move.

Several tensors may be one value, each with an order of axes of its own.  What is derived from a
value depends on the value alone: the operator and the type of the result, never on the axes of a
tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from penstock.frozen import frozen
from penstock.ir.graph import Node, Value, free_name, result_of
from penstock.ir.op import Op
from penstock.ir.tensor import Array, Quantisation, TensorType
from penstock.ops.reshape import Reshape
from penstock.ops.transpose import Transpose

Order = tuple[int, ...]  # Axis a of the value is axis order[a] of the model's tensor.


def own(rank: int) -> Order:
    """The order of axes in the model."""
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    """Axis 1 last: (N, C, H, W) as (N, H, W, C)."""
    return (0, *range(2, rank), 1) if rank > 1 else own(rank)


@frozen
class OrderedTensor:
    """A value with the order of its axes."""

    value: Value
    order: Order

    @property
    def shape(self) -> tuple[int, ...]:
        """The model's shape."""
        return tuple(self.value.shape[self.order.index(a)] for a in range(len(self.order)))


@frozen
class FlattenedMatrix:
    """A matrix of the model without a value yet: `source` flattened after axis 0.

    The axes of `source` are not in the model's order."""

    source: OrderedTensor

    @property
    def shape(self) -> tuple[int, ...]:
        rows, *rest = self.source.shape
        return rows, math.prod(rest)

    @property
    def columns(self) -> Array:
        """Column of the model's matrix by column of the flattened value."""
        _, *rest = self.source.shape
        order = [a - 1 for a in self.source.order[1:]]
        return np.arange(math.prod(rest)).reshape(rest).transpose(order).ravel()


@dataclass(slots=True)
class Tensors:
    """Values of the model's tensors by name, and the nodes so far."""

    nodes: list[Node] = field(default_factory=list)
    _found: dict[str, OrderedTensor | FlattenedMatrix] = field(default_factory=dict)
    _derived: dict[tuple[Op, str, TensorType], Value] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    where: str = ""
    """The node that is being imported, for the origin of new nodes."""
    taken: frozenset[str] = frozenset()
    """Names of the model's tensors, reserved."""

    def name(self, wanted: str) -> str:
        """An unused name for a new tensor."""
        return free_name(wanted, self.taken)

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def put(self, name: str, found: OrderedTensor | FlattenedMatrix) -> None:
        self._found[name] = found

    def same(self, name: str, other: str) -> None:
        """Records that `other` is the same tensor as `name`."""
        self._found[other] = self._found[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """The model's shape."""
        return self._found[name].shape

    def order(self, name: str) -> Order:
        """The order of axes of its value."""
        return self.placed(name).order

    def flat(self, name: str) -> FlattenedMatrix | None:
        """The matrix, if it has no value yet."""
        found = self._found[name]
        return found if isinstance(found, FlattenedMatrix) else None

    def made(self) -> Iterator[tuple[str, OrderedTensor]]:
        """Every tensor of the model that has a value, with its name."""
        for name, found in self._found.items():
            if isinstance(found, OrderedTensor):
                yield name, found

    def placed(self, name: str) -> OrderedTensor:
        """The tensor's value; a flattened matrix gets one."""
        found = self._found[name]
        if isinstance(found, FlattenedMatrix):
            source = self.moved(found.source, own(len(found.source.order)))
            value = self.viewed(source, found.shape, self.name(f"{name}/flat"))
            found = self._found[name] = OrderedTensor(value, own(2))
        return found

    def in_order(self, name: str, order: Order) -> Value:
        """The tensor's value with axes in that order."""
        return self.moved(self.placed(name), order)

    def moved(self, found: OrderedTensor, order: Order) -> Value:
        """A value with its axes in another order: itself, a view, or a transpose."""
        steps = tuple(found.order.index(a) for a in order)
        if steps == own(len(steps)):
            return found.value
        name = self.name(f"{found.value.name}/axes{''.join(map(str, steps))}")
        shape = tuple(found.value.shape[a] for a in steps)
        large = [a for a in steps if found.value.shape[a] > 1]
        if large == sorted(large):
            return self.viewed(found.value, shape, name)
        return self.derived(Transpose(steps), found.value, name, found.value.quantisation)

    def viewed(self, value: Value, shape: tuple[int, ...], name: str) -> Value:
        """The value reshaped."""
        if value.shape == shape:
            return value
        return self.derived(Reshape(shape), value, name, value.quantisation)

    def labelled(self, name: str, target: str, label: Quantisation) -> None:
        """Records that `target` has the elements of `name` under another quantisation."""
        found = self.placed(name)
        self.put(target, OrderedTensor(self.relabelled(found.value, label), found.order))

    def relabelled(self, value: Value, label: Quantisation | None) -> Value:
        """The elements of a value under another quantisation, or without one."""
        if value.quantisation == label:
            return value
        return self.derived(Reshape(value.shape), value, self.name(f"{value.name}/elements"), label)

    def derived(
        self, op: Op, value: Value, name: str, quantisation: Quantisation | None = None
    ) -> Value:
        """The result of an operator of one value, computed once.  The name may get a suffix."""
        type = replace(result_of(op, (value,)), quantisation=quantisation)
        key = (op, value.name, type)
        if key not in self._derived:
            names = (name if k == 0 else f"{name}#{k}" for k in count())
            made = Value(next(n for n in names if n not in self._used), type)
            self._used.add(made.name)
            self.nodes.append(Node(op, (value,), made, self.where))
            self._derived[key] = made
        return self._derived[key]

    def reshape(self, name: str, target: str, shape: tuple[int, ...]) -> None:
        """Records that `target` is `name` reshaped.

        Groups of axes that are split or merged keep their order.  A flattened matrix gets a value
        on demand; otherwise axes that are merged are made adjacent first."""
        if self.shape(name) == shape:
            self.same(name, target)
            return
        found = self.placed(name)
        inside, order = _orders(found, shape)
        value = found.value
        if not _lie_alike(found.shape, found.order, inside):
            if len(shape) == 2 and shape[0] == found.shape[0] and found.order[0] == 0:
                self.put(target, FlattenedMatrix(found))
                return
            value = self.moved(found, inside)
        extents = tuple(shape[a] for a in order)
        self.put(target, OrderedTensor(self.viewed(value, extents, target), order))

    def transpose(self, name: str, target: str, axes: Order) -> None:
        """Records that `target` is `name` with axis axes[a] as axis a, without moving elements."""
        found = self.placed(name)
        self.put(target, OrderedTensor(found.value, tuple(axes.index(a) for a in found.order)))


def _orders(found: OrderedTensor, shape: tuple[int, ...]) -> tuple[Order, Order]:
    """Orders before and after a reshape that moves no elements."""
    # Axes of a group that the reshape splits or merges are adjacent; groups keep their order.
    groups = list(_groups(found.shape, shape))

    def comes(group: tuple[tuple[int, ...], tuple[int, ...]]) -> int:
        before = group[0]
        large = [a for a in before if found.shape[a] > 1]
        return min((found.order.index(a) for a in large or before), default=len(found.order))

    groups.sort(key=comes)
    return (
        tuple(a for before, _ in groups for a in before),
        tuple(a for _, after in groups for a in after),
    )


def _lie_alike(shape: tuple[int, ...], a: Order, b: Order) -> bool:
    """Whether two orders differ only in axes of extent 1."""
    return [k for k in a if shape[k] > 1] == [k for k in b if shape[k] > 1]


def _groups(
    before: tuple[int, ...], after: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Smallest groups of axes of two shapes that have equally many elements.

    >>> list(_groups((1, 6, 4), (1, 2, 3, 4)))
    [((0,), (0,)), ((1,), (1, 2)), ((2,), (3,))]
    """
    a = b = 0
    while a < len(before) or b < len(after):
        first, other = a, b
        a, b = min(a + 1, len(before)), min(b + 1, len(after))
        while math.prod(before[first:a]) != math.prod(after[other:b]):
            grow = math.prod(before[first:a]) < math.prod(after[other:b])
            a, b = (a + 1, b) if grow else (a, b + 1)
            if a > len(before) or b > len(after):
                a, b = len(before), len(after)
                break
        yield tuple(range(first, a)), tuple(range(other, b))
