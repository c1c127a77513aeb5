"""MemoryAssignment: the memory region that holds each tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.scheduling.model.part import Part


@dataclass(frozen=True, slots=True)
class MemoryAssignment:
    """A map from tensors to memory regions, by name.

    default: region of network inputs, network outputs and every tensor not in `exceptions`.
    constants: region of the constants.
    exceptions: (tensor, region) pairs of the tensors outside the default region, sorted.
    """

    default: str
    constants: str
    exceptions: tuple[tuple[str, str], ...] = ()

    def region(self, tensor: str) -> str:
        """Return the region of a computed tensor or network input."""
        return dict(self.exceptions).get(tensor, self.default)

    def extended(self, pairs: Iterable[tuple[str, str]]) -> MemoryAssignment:
        """Return this assignment with further (tensor, region) pairs."""
        outside = (pair for pair in pairs if pair[1] != self.default)
        return replace(self, exceptions=tuple(sorted((*self.exceptions, *outside))))

    def restricted(self, keep: Callable[[str], bool]) -> MemoryAssignment:
        """Return this assignment without the exceptions of tensors that `keep` rejects."""
        return replace(self, exceptions=tuple(pair for pair in self.exceptions if keep(pair[0])))

    def for_part(self, part: Part, owners: Mapping[str, str]) -> MemoryAssignment:
        """Return the assignment of a part's own operands and output, aliases resolved.

        owners: the storage of each value, by name (`Parts.owners`); this assignment maps storages.
        """
        if not self.exceptions:
            return self
        regions = dict(self.exceptions)
        operands = {v.name for v in (*part.inputs, part.output) if v.data is None}
        pairs = ((name, regions[owners[name]]) for name in operands if owners[name] in regions)
        return replace(self, exceptions=tuple(sorted(pairs)))

    def operand_regions(self, part: Part) -> tuple[str, ...]:
        """Return the regions as accelerator cost functions expect them (see `ir.op.Kernel.cycles`).

        The empty tuple where all operands lie in the default region.  Otherwise one name for each
        input and one for the output, with "" for the default region and for constants.
        """
        if not self.exceptions:
            return ()
        regions = dict(self.exceptions)
        return tuple(
            "" if value.data is not None else regions.get(value.name, "")
            for value in (*part.inputs, part.output)
        )

    def region_numbers(self, tensors: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return a number for the region of each tensor; 0 is the default region."""
        regions = [self.default, *dict.fromkeys(region for _, region in self.exceptions)]
        numbers = {tensor: regions.index(region) for tensor, region in self.exceptions}
        return np.array([numbers.get(tensor, 0) for tensor in tensors], np.int64)
