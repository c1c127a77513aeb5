"""timeline: when copies and computations of tiles begin and end.

Memory has a read channel and a write channel, the array computes one tile at a time.  The three
work at the same time, each in the order of its commands:

    load       waits until the array has finished with the bank
    compute    waits for the loads of its tiles and parameters, and until the sums of the output
               bank that it overwrites are stored
    store      waits until the array has computed the tile

So copies overlap with computation if there are two banks; with one, loads and computation take
turns.  The cost model (`cost.py`) and the functional model (`model.py`) use the same timeline.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

Bank = tuple[int, int]
"""A bank: the number of its buffer (`BufferNumber`), and its number in the buffer."""


class BufferNumber(IntEnum):
    """One of the three buffers; each value is its number in command streams."""

    INPUT = 0
    WEIGHTS = 1
    OUTPUT = 2


class Timeline:
    """The times, in cycles, at which the channels, the array and the banks are free.

    busy: the cycles in which each of the three works, by name."""

    def __init__(self) -> None:
        self.busy = {"array": 0.0, "read": 0.0, "write": 0.0}
        self._free = dict.fromkeys(self.busy, 0.0)
        self._loaded: dict[Bank, float] = {}
        self._computed: dict[Bank, float] = {}
        self._stored: dict[Bank, float] = {}
        self._parameters = 0.0

    @property
    def end(self) -> float:
        """The time at which everything has ended."""
        return max(self._free.values())

    def load(self, banks: Iterable[Bank], cycles: float) -> None:
        """Load a tile, or a part of it, into banks."""
        banks = tuple(banks)
        end = self._run("read", cycles, (self._computed.get(bank, 0.0) for bank in banks))
        self._loaded.update(dict.fromkeys(banks, end))

    def parameters(self, cycles: float) -> None:
        """Read the parameters of the next computation."""
        self._parameters = self._run("read", cycles, ())

    def compute(self, inputs: Iterable[Bank], outputs: Iterable[Bank], cycles: float) -> None:
        """Compute a tile from input banks to output banks."""
        inputs, outputs = tuple(inputs), tuple(outputs)
        ready = [self._parameters]
        ready += [self._loaded.get(bank, 0.0) for bank in inputs]
        ready += [self._stored.get(bank, 0.0) for bank in outputs]
        end = self._run("array", cycles, ready)
        self._computed.update(dict.fromkeys((*inputs, *outputs), end))

    def store(self, banks: Iterable[Bank], cycles: float) -> None:
        """Store a tile, or a part of it, from banks."""
        banks = tuple(banks)
        end = self._run("write", cycles, (self._computed.get(bank, 0.0) for bank in banks))
        self._stored.update(dict.fromkeys(banks, end))

    def _run(self, unit: str, cycles: float, ready: Iterable[float]) -> float:
        """Return when a unit ends work that begins when the unit is free and all is ready."""
        end = max((self._free[unit], *ready)) + cycles
        self._free[unit] = end
        self.busy[unit] += cycles
        return end
