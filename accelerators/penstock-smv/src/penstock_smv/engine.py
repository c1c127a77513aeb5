"""engine: the state of the simulated engine, which the functional models of its driver change.

The state consists of the bytes of the scratchpads, of the accumulators and of the settings.  An
access outside a scratchpad raises IndexError.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from penstock.uma import Array
from penstock_smv.clocks import EngineClocks
from penstock_smv.operations import (
    ElementRange,
    ProductScales,
    ScratchpadNumber,
    TermScales,
    TilePitches,
    WindowSteps,
)
from penstock_smv.tiling import parameters_bytes

POISON = 0xA5
"""The initial value of all bytes of the scratchpads."""


class SmvEngine:
    """The simulated state of the engines: the bytes of their scratchpads, their accumulators and
    clocks, and the settings, which they share.

    selected: the engine that copies and computes.
    memories: its scratchpads of inputs, weights and outputs, and its memory of parameters.
    accumulators: an int32 for each byte of its scratchpad of outputs, the partial sum of the
        element that this byte holds.

    The constructor takes the sizes in bytes of the scratchpads of inputs, weights and outputs."""

    def __init__(self, sizes: tuple[int, int, int], engines: int = 1) -> None:
        every = (*sizes, parameters_bytes(sizes[1]))
        self.selected, self.clocks = 0, EngineClocks(engines)
        self._memories = [
            [np.full(size, POISON, np.uint8) for size in every] for _ in range(engines)
        ]
        sums = np.full((engines, 4 * sizes[2]), POISON, np.uint8)
        self._accumulators = sums.view(np.int32)
        self.window, self.range, self.terms = WindowSteps(), ElementRange(), TermScales()
        self.pitches, self.products = TilePitches(), ProductScales()

    @property
    def memories(self) -> list[NDArray[np.uint8]]:
        return self._memories[self.selected]

    @property
    def accumulators(self) -> NDArray[np.int32]:
        return self._accumulators[self.selected]

    def tile(
        self,
        memory: ScratchpadNumber,
        at: int,
        shape: tuple[int, ...],
        pitches: tuple[int, ...],
        dtype: DTypeLike = np.int8,
    ) -> Array:
        """Return a view of a tile of elements in a scratchpad.

        at: offset in bytes of the first element.
        shape: number of elements along each dimension.
        pitches: distance in bytes between consecutive elements along each dimension.

        Raises IndexError if the tile exceeds the scratchpad."""
        content, size = self.memories[memory].view(np.int8), np.dtype(dtype).itemsize
        if 0 in shape:
            return np.zeros(shape, dtype)
        end = at + sum((n - 1) * p for n, p in zip(shape, pitches, strict=True)) + size
        if min(at, *pitches) < 0 or end > content.size:
            name = ("inputs", "weights", "outputs", "parameters")[memory]
            raise IndexError(f"bytes [{at}, {end}) of the {content.size} bytes of {name}")
        return as_strided(content[at:][:size].view(dtype), shape, pitches)

    def sums(self, at: int, shape: tuple[int, int, int]) -> Array:
        """Return a view of the accumulators of an output tile.

        at: offset in bytes of the first element in the output scratchpad.
        shape: (rows, columns, channels) of the tile and of the view."""
        pitches = (self.pitches.y_row, self.pitches.y_column, 1)
        self.tile(ScratchpadNumber.OUTPUT, at, shape, pitches)
        return as_strided(self.accumulators[at:], shape, tuple(4 * pitch for pitch in pitches))

    def half_sums(self, at: int, shape: tuple[int, int, int]) -> Array:
        """Return a view of the float32 accumulators of a tile of float16 elements, as `sums`."""
        pitches = (self.pitches.y_row, self.pitches.y_column, 2)
        self.tile(ScratchpadNumber.OUTPUT, at, shape, pitches, np.float16)
        accumulators = self.accumulators[at:].view(np.float32)
        return as_strided(accumulators, shape, tuple(4 * pitch for pitch in pitches))

    def outputs(self, at: int, shape: tuple[int, int, int]) -> Array:
        """Return a view of the final int8 elements of an output tile.

        at: offset in bytes of the first element in the output scratchpad.
        shape: (rows, columns, channels) of the tile and of the view."""
        return self.tile(
            ScratchpadNumber.OUTPUT, at, shape, (self.pitches.y_row, self.pitches.y_column, 1)
        )

    def scales(self, at: int, count: int, dtype: DTypeLike) -> Array:
        """Return the biases, multipliers or shifts of `count` output channels, as an int64 array of
        shape (count,).

        at: offset in bytes of the first value in the memory of parameters.
        dtype: the type with which the values are stored there."""
        size = count * np.dtype(dtype).itemsize
        raw = self.tile(ScratchpadNumber.PARAMETERS, at, (size,), (1,))
        return np.ascontiguousarray(raw).view(dtype).astype(np.int64)
