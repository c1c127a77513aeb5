"""MemoryAssignment: the memory region that holds each tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.scheduling.model.part import Part


@dataclass(frozen=True, slots=True)
class MemoryAssignment:
    """A map from tensor names to names of memory regions.

    default: region of network inputs, network outputs and every tensor not in `exceptions`.
    constants: region of the constants.
    exceptions: (tensor, region) pairs of the tensors outside the default region, sorted.
    """

    default: str
    constants: str
    exceptions: tuple[tuple[str, str], ...] = ()

    def region(self, tensor: str) -> str:
        """Return the name of the region of a tensor that is not a constant."""
        return dict(self.exceptions).get(tensor, self.default)

    def extended(self, pairs: Iterable[tuple[str, str]]) -> MemoryAssignment:
        """Return this assignment with further pairs (tensor name, region name).

        Pairs that name the default region are left out.
        """
        outside = [pair for pair in pairs if pair[1] != self.default]
        if not outside:
            return self
        return replace(self, exceptions=tuple(sorted((*self.exceptions, *outside))))

    def restricted(self, keep: Callable[[str], bool]) -> MemoryAssignment:
        """Return this assignment, restricted to the tensors for which keep(tensor name) is true.

        All other tensors are then in the default region.
        """
        return replace(self, exceptions=tuple(pair for pair in self.exceptions if keep(pair[0])))

    def for_part(self, part: Part, owners: Mapping[str, str]) -> MemoryAssignment:
        """Return the memory regions of a part's inputs and output, listed under the tensors' names.

        A schedule's assignment (`self`) lists tensors under the names of their storages (memory
        blocks).  For example, an alias `y` of a tensor `x` has the storage `x`.
        owners: name of the storage of each value, by value name (`Parts.owners`).
        """
        if not self.exceptions:
            return self
        regions = dict(self.exceptions)
        operands = {v.name for v in (*part.inputs, part.output) if v.data is None}
        pairs = ((name, regions[owners[name]]) for name in operands if owners[name] in regions)
        return replace(self, exceptions=tuple(sorted(pairs)))

    def operand_regions(self, part: Part) -> tuple[str, ...]:
        """Return the regions of a part's operands in the form that `ir.op.Kernel.cycles` takes.

        Empty if no tensor is outside the default region.  Otherwise a region name for each input
        and then one for the output, with "" for the default region and for constants.
        """
        if not self.exceptions:
            return ()
        regions = dict(self.exceptions)
        return tuple(
            "" if value.data is not None else regions.get(value.name, "")
            for value in (*part.inputs, part.output)
        )

    def region_numbers(self, tensors: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the index of the memory region of each tensor.

        tensors: names of tensors.

        The default region has index 0.  The other regions are numbered from 1, in the order in
        which they first appear in `exceptions`.
        """
        regions = [self.default, *dict.fromkeys(region for _, region in self.exceptions)]
        numbers = {tensor: regions.index(region) for tensor, region in self.exceptions}
        return np.array([numbers.get(tensor, 0) for tensor in tensors], np.int64)
