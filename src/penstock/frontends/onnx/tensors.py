"""Tensors: where each tensor of the model lies in the graph, and in which order of axes.

Axes come in the order in which the operator that made them had them, and are brought into another
one only where an operator asks for it.  Where no more than axes of extent 1 move, a view does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from penstock.ir.graph import Node, Value, free_name
from penstock.ir.op import Op
from penstock.ir.tensor import Array, TensorType
from penstock.ops.reshape import Reshape
from penstock.ops.transpose import Transpose

Order = tuple[int, ...]
"""Axis a in memory is axis order[a] of the model's tensor."""


def own(rank: int) -> Order:
    """The model's order."""
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    """Axis 1 last: (N, C, H, W) as (N, H, W, C)."""
    return (0, *range(2, rank), 1) if rank > 1 else own(rank)


@dataclass(frozen=True, slots=True)
class Placed:
    """A value, and the order of its axes."""

    value: Value
    order: Order

    @property
    def shape(self) -> tuple[int, ...]:
        """The model's shape."""
        return tuple(self.value.type.shape[self.order.index(a)] for a in range(len(self.order)))


@dataclass(frozen=True, slots=True)
class Flat:
    """A matrix of the model that is not made yet: `source` flattened behind its axis 0, whose axes
    do not lie in the model's order."""

    source: Placed

    @property
    def shape(self) -> tuple[int, ...]:
        rows, *rest = self.source.shape
        return rows, math.prod(rest)

    @property
    def columns(self) -> Array:
        """Column j in memory is this column of the model's matrix."""
        _, *rest = self.source.shape
        order = [a - 1 for a in self.source.order[1:]]
        return np.arange(math.prod(rest)).reshape(rest).transpose(order).ravel()


@dataclass(slots=True)
class Tensors:
    """By name in the model, where a tensor lies; and the nodes so far."""

    nodes: list[Node] = field(default_factory=list[Node])
    _found: dict[str, Placed | Flat] = field(default_factory=dict[str, "Placed | Flat"])
    _moved: dict[tuple[str, Order], Value] = field(default_factory=dict[tuple[str, Order], Value])
    where: str = ""
    """What is being understood, for nodes of ours."""
    taken: frozenset[str] = frozenset()
    """Names of the model's tensors, which new ones must not have."""

    def name(self, wanted: str) -> str:
        """A name for a new tensor."""
        return free_name(wanted, self.taken)

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def put(self, name: str, found: Placed | Flat) -> None:
        self._found[name] = found

    def same(self, name: str, other: str) -> None:
        """`other` is the same tensor as `name`."""
        self._found[other] = self._found[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """The model's shape."""
        return self._found[name].shape

    def order(self, name: str) -> Order:
        """The order in which it lies, or would."""
        return self.placed(name).order

    def flat(self, name: str) -> Flat | None:
        """The matrix, where it is not made yet."""
        found = self._found[name]
        return found if isinstance(found, Flat) else None

    def made(self) -> Iterator[tuple[str, Placed]]:
        """Every tensor of the model that lies somewhere."""
        for name, found in self._found.items():
            if isinstance(found, Placed):
                yield name, found

    def placed(self, name: str) -> Placed:
        """The tensor, made."""
        found = self._found[name]
        if isinstance(found, Flat):
            source = self.moved(found.source, own(len(found.source.order)))
            value = self.viewed(source, found.shape, self.name(f"{name}/flat"))
            found = self._found[name] = Placed(value, own(2))
        return found

    def in_order(self, name: str, order: Order) -> Value:
        """The tensor with its axes in that order."""
        return self.moved(self.placed(name), order)

    def moved(self, found: Placed, order: Order) -> Value:
        """A tensor with its axes in another order: itself, a view, or a transpose."""
        if order == found.order:
            return found.value
        key = (found.value.name, order)
        if key not in self._moved:
            self._moved[key] = self._move(found, order)
        return self._moved[key]

    def _move(self, found: Placed, order: Order) -> Value:
        name = self.name(f"{found.value.name}/axes{''.join(map(str, order))}")
        steps = tuple(found.order.index(a) for a in order)
        shape = tuple(found.value.type.shape[a] for a in steps)
        large = [a for a in steps if found.value.type.shape[a] > 1]
        if large == sorted(large):
            return self.viewed(found.value, shape, name)
        return self.add(Transpose(steps), found.value, shape, name)

    def viewed(self, value: Value, shape: tuple[int, ...], name: str) -> Value:
        """The same elements under another shape."""
        if value.type.shape == shape:
            return value
        return self.add(Reshape(shape), value, shape, name)

    def add(self, op: Op, value: Value, shape: tuple[int, ...], name: str) -> Value:
        """A node of one input whose output has that shape, type and scale as it."""
        type = TensorType(shape, value.type.dtype, value.type.quantisation)
        made = Value(name, type)
        self.nodes.append(Node(op, (value,), made, self.where))
        return made

    def reshape(self, name: str, target: str, shape: tuple[int, ...]) -> None:
        """`target` is `name` under another shape.

        Axes that are split, or merged, by themselves stay where they lie; a matrix of rows is made
        when it is asked for; else axes that are merged are brought together first."""
        if self.shape(name) == shape:
            self.same(name, target)
            return
        found = self.placed(name)
        inside, order = _orders(found, shape)
        value = found.value
        if not _lie_alike(found.shape, found.order, inside):
            if len(shape) == 2 and shape[0] == found.shape[0] and found.order[0] == 0:
                self.put(target, Flat(found))
                return
            value = self.moved(found, inside)
        extents = tuple(shape[a] for a in order)
        self.put(target, Placed(self.viewed(value, extents, target), order))

    def transpose(self, name: str, target: str, axes: Order) -> None:
        """`target` is `name` with axis axes[a] as its axis a: nothing moves."""
        found = self.placed(name)
        self.put(target, Placed(found.value, tuple(axes.index(a) for a in found.order)))


def _orders(found: Placed, shape: tuple[int, ...]) -> tuple[Order, Order]:
    """Orders before and after a reshape in which its elements stay where they are: each group of
    axes that become others lies together; groups lie as they came."""
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
    """Whether two orders differ in axes of extent 1 alone."""
    return [k for k in a if shape[k] > 1] == [k for k in b if shape[k] > 1]


def _groups(
    before: tuple[int, ...], after: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Axes of one shape and those of another that have as many elements, smallest groups first.

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
