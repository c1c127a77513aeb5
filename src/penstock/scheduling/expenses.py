"""expenses: what each part of an unfolded cascade costs, exactly as a machine would count it."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.ir.op import row_axis, row_count
from penstock.ir.region import Region
from penstock.scheduling.cost import Bytes, Cost, CostModel
from penstock.scheduling.demand import Numbers
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.schedule import Homes


@dataclass(frozen=True, slots=True)
class Moved:
    """Work of one call, and bytes of regions that it moves."""

    macs: int
    tensor_bytes: int
    constant_bytes: int
    written_bytes: int


@dataclass(frozen=True, slots=True)
class Expenses:
    """Costs of the parts of a graph on an engine; calls that were asked for are remembered."""

    parts: Parts
    model: CostModel
    homes: Homes
    _known: dict[tuple[int, int, int], Moved] = field(
        default_factory=dict[tuple[int, int, int], Moved]
    )

    def of(self, parts: tuple[int, ...], lower: int, calls: Numbers) -> tuple[Cost, ...]:
        """Cost of each of the parts, which stand at positions from `lower` on, over the calls."""
        stripes: dict[int, list[tuple[int, int]]] = {k: [] for k in parts}
        for position, first, end in calls[:, :3].tolist():
            stripes[parts[position - lower]].append((first, end))
        return tuple(self._cost(k, some) for k, some in stripes.items())

    def _cost(self, k: int, stripes: list[tuple[int, int]]) -> Cost:
        part = self.parts.parts[k]
        moved = [self._moved(k, *stripe) for stripe in stripes]
        read = {self.homes.tensors: sum(m.tensor_bytes for m in moved)}
        constants = sum(m.constant_bytes for m in moved)
        read[self.homes.constants] = read.get(self.homes.constants, 0) + constants
        return Cost(
            self.model.work_cycles(part) + len(moved) * self.model.call_cycles(part),
            len(moved),
            sum(m.macs for m in moved),
            _bytes(read),
            _bytes({self.homes.tensors: sum(m.written_bytes for m in moved)}),
        )

    def _moved(self, k: int, first: int, end: int) -> Moved:
        key = (k, first, end)
        if key not in self._known:
            self._known[key] = _of_call(self.parts.parts[k], first, end)
        return self._known[key]


def _bytes(sizes: dict[str, int]) -> Bytes:
    return tuple(sorted((memory, size) for memory, size in sizes.items() if size))


def _of_call(part: Part, first: int, end: int) -> Moved:
    shape = part.output.type.shape
    out = Region.whole(shape)
    if end - first < row_count(shape):
        out = out.replace(row_axis(len(shape)), (first, end))
    tensors = constants = 0
    for need, value in zip(part.needs(out), part.inputs, strict=True):
        size = need.elements * value.type.dtype.size_bytes
        if value.data is None:
            tensors += size
        else:
            constants += size
    written = out.elements * part.output.type.dtype.size_bytes
    return Moved(part.macs(out), tensors, constants, written)
