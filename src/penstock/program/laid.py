"""Storages in memory: the address of each storage's buffer, and the layout of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from penstock.memory.even_rows import ring_rows
from penstock.memory.problem import Column
from penstock.program.program import Rows
from penstock.scheduling.model.rows import Storage
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import block_name


@dataclass(frozen=True, slots=True)
class Addresses:
    """The offset of each block of a schedule, and the bytes used in each memory."""

    offsets: Mapping[str, int]
    heights: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Laid:
    """A storage in memory: the address and size of its buffer, and the layout of its rows."""

    storage: Storage
    address: int
    size_bytes: int
    rows: Rows


def laid_storages(expanded: ExpandedSchedule, addresses: Addresses) -> Mapping[str, Laid]:
    """The location of each storage that has memory of its own, by name."""
    rows = expanded.schedule.parts.rows
    starts = expanded.live_ranges.starts
    places = np.zeros(starts[-1], np.int64)
    for block in expanded.blocks():
        s = rows.number[block.storage]
        storage = rows.storages[s]
        offset = addresses.offsets[block_name(expanded.schedule, block)]
        mine = np.arange(block.upper - block.lower)
        places[starts[s] + block.lower + mine] = offset + mine % storage.slots * storage.row_bytes
    owner, _ = expanded.row_blocks
    row = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
    places = places[starts[owner] + row]
    return {
        storage.name: _rows(storage, places[starts[s] : starts[s + 1]])
        for s, storage in enumerate(rows.storages)
        if storage.row_bytes
    }


def _rows(storage: Storage, places: Column) -> Laid:
    """The location of rows at given offsets: a whole tensor, a ring buffer or a row table."""
    base, pitch = int(places.min()), storage.row_bytes
    size = int(places.max()) - base + pitch
    ring = ring_rows(places, pitch)
    if ring is not None:
        return Laid(storage, base, size, Rows(pitch, ring))
    return Laid(storage, base, size, Rows(pitch, storage.rows, tuple((places - base).tolist())))
