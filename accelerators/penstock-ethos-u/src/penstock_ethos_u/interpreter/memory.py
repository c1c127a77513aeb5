"""The memory regions of a command stream, with checks of every access. They include shared memory,
the internal memory of the NPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.uma import BackendError, CapacityError
from penstock_ethos_u.interpreter.feature_map import FeatureMap

SHARED = -1  # Region number of shared memory, the NPU's internal memory.


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """Bytes [lower, upper) of a memory region.

    name: the contents, for messages: DMA0_SRC, DMA0_DST, WEIGHT, SCALE or table.
    region: number of the memory region."""

    name: str
    region: int
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class RegionMemory:
    """The memory regions of a command stream, with checks of every access.

    regions: uint8 arrays by region number, which are modified in place. Number -1 (`SHARED`) is
        shared memory, the internal memory of the NPU."""

    regions: Mapping[int, Any]

    def check(self, map: FeatureMap, where: str, written: bool = False) -> None:
        """Check the addresses of a feature map before an access.

        Raises CapacityError if the feature map is not inside its memory region, or if a read-only
        region would be written. Raises BackendError if an address is not a multiple of the element
        size."""
        self._region(map.region, map.name, where, written)
        self._within(map.name, map.region, *map.limits, where)
        if (map.addresses() % map.element_bytes).any():
            raise _misplaced(map, where)

    def read(self, map: FeatureMap) -> Any:
        """Return the elements of a feature map as an int64 array in the map's shape. The map must
        have passed `check`, and must not be in a chaining buffer."""
        return self._elements(map)[self._indices(map)].astype(np.int64)

    def write(self, map: FeatureMap, values: Any) -> None:
        """Write `values`, an array in the map's shape, to a feature map. The map must have passed
        `check`."""
        self._elements(map)[self._indices(map)] = values.astype(map.dtype)

    def bytes_of(self, span: ByteSpan, where: str, written: bool = False) -> Any:
        """Return the bytes of a span, as a view (an array of uint8) of the memory region.

        Raises CapacityError if the span is not inside its memory region, or if a read-only region
        would be written."""
        region = self._region(span.region, span.name, where, written)
        self._within(span.name, span.region, span.lower, span.upper, where)
        return region[span.lower : span.upper]

    def _elements(self, map: FeatureMap) -> Any:
        region = self.regions[map.region]
        return region[: len(region) // map.element_bytes * map.element_bytes].view(map.dtype)

    def _indices(self, map: FeatureMap) -> Any:
        return map.addresses() // map.element_bytes

    def _region(self, number: int, name: str, where: str, written: bool) -> Any:
        if number not in self.regions:
            known = ", ".join(str(n) for n in sorted(self.regions) if n != SHARED) or "none"
            raise _outside(
                f"{name.upper()} lies in {_named(number)}, which was not given",
                where,
                f"regions that were given: {known}",
            )
        found = self.regions[number]
        if written and not found.flags.writeable:
            what = f"{name.upper()} is written in {_named(number)}, which may only be read"
            raise _outside(what, where, "its array is read-only (flags.writeable)")
        return found

    def _within(self, name: str, number: int, lower: int, upper: int, where: str) -> None:
        """Raise CapacityError if bytes [lower, upper) are not inside region `number`."""
        size = len(self.regions[number])
        if lower < 0 or upper > size:
            raise _outside(
                f"{name.upper()} accesses bytes [{lower:#x}, {upper:#x}) of {_named(number)}",
                where,
                f"{_named(number)} has {size} ({size:#x}) bytes",
            )


def _named(region: int) -> str:
    """The name of a region for messages, such as "region 2" or "shared memory"."""
    return "shared memory" if region == SHARED else f"region {region}"


def _outside(what: str, where: str, why: str) -> CapacityError:
    return CapacityError(
        "ethosu-103",
        what,
        where=where,
        why=why,
        help="pass every region to execute() at its full size, and correct bases and strides",
    )


def _misplaced(map: FeatureMap, where: str) -> BackendError:
    """The error for a feature map with elements whose addresses are not multiples of the
    element size. `where` is the position of the operation in the stream."""
    return BackendError(
        "ethosu-104",
        f"elements of {map.name.upper()} are at addresses that are not multiples of "
        f"{map.element_bytes}",
        where=where,
        why=f"an element has {map.element_bytes} bytes",
        help="correct its bases and strides",
    )
