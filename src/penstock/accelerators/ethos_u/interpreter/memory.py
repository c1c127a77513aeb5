"""The memory regions of a stream, and shared memory, with checked accesses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.accelerators.ethos_u.interpreter.feature_map import FeatureMap
from penstock.uma import BackendError, CapacityError

SHARED = -1
"""The number of shared memory among the regions."""


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """Bytes of a region or of shared memory. `name` is the register that holds the address."""

    name: str
    region: int
    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class RegionMemory:
    """Byte arrays by number of the region; they are modified in place."""

    regions: Mapping[int, Any]

    def check(self, map: FeatureMap, where: str, written: bool = False) -> None:
        """Check that a feature map is valid.

        Raises CapacityError if the map is not inside its region, or if `written` and the region is
        read-only; BackendError if its elements are misaligned.
        """
        self._region(map.region, map.name, where, written)
        self._within(map.name, map.region, *map.limits, where)
        if (map.addresses() % map.element_bytes).any():
            raise _misplaced(map, where)

    def read(self, map: FeatureMap) -> Any:
        """Return the elements of a checked map in its shape, as int64."""
        return self._elements(map)[self._indices(map)].astype(np.int64)

    def write(self, map: FeatureMap, values: Any) -> None:
        """Write elements to a checked map."""
        self._elements(map)[self._indices(map)] = values.astype(map.dtype)

    def bytes_of(self, span: ByteSpan, where: str, written: bool = False) -> Any:
        """Return a view of bytes; `written` requires write access. Raises CapacityError."""
        region = self._region(span.region, span.name, where, written)
        self._within(span.name, span.region, span.lower, span.upper, where)
        return region[span.lower : span.upper]

    def _elements(self, map: FeatureMap) -> Any:
        """Return the region of a map as elements of its type."""
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
        """Raise CapacityError if bytes are not inside their region."""
        size = len(self.regions[number])
        if lower < 0 or upper > size:
            raise _outside(
                f"{name.upper()} accesses bytes [{lower:#x}, {upper:#x}) of {_named(number)}",
                where,
                f"{_named(number)} has {size} ({size:#x}) bytes",
            )


def _named(region: int) -> str:
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
    return BackendError(
        "ethosu-104",
        f"elements of {map.name.upper()} are at addresses that are not multiples of "
        f"{map.element_bytes}",
        where=where,
        why=f"an element has {map.element_bytes} bytes",
        help="correct its bases and strides",
    )
