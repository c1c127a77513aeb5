"""Hops: comparison of an incremental network with the network with the window, hop by hop.

The runs of an incremental network consume the frames of a signal that was zero before.  After each
run, the network with the window is evaluated on the last frames, as many as its window has.  This
file shares no code with `passes/incremental.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from penstock.frozen import frozen
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array
from penstock.simulators.compare import Comparison, compare_tensor
from penstock.simulators.graph import run_graph

Tensors = Mapping[str, Array]


@frozen
class Hops:
    """The network with the window, and the incremental network made of it; each has one input."""

    window: Graph
    incremental: Graph

    def fed(self, windows: Sequence[Tensors]) -> tuple[tuple[Tensors, ...], int]:
        """The inputs of the runs after which the signal ends with each of these windows, and the
        number of the runs of one window.  Zero frames precede a window that is no multiple of the
        hop."""
        hop, window = self.incremental.inputs[0], self.window.inputs[0]
        new, frames = self._frames(hop.type.shape), self._frames(window.type.shape)
        runs = -(-frames[1] // new[1])
        sets: list[Tensors] = []
        for inputs in windows:
            silence = self._silence(runs * new[1] - frames[1])
            signal = np.concatenate((silence, inputs[window.name].reshape(frames)), 1)
            pieces = np.split(signal, runs, 1)
            sets.extend({hop.name: piece.reshape(hop.type.shape)} for piece in pieces)
        return tuple(sets), runs

    def windows(self, sets: Sequence[Tensors], runs: int) -> Iterator[Tensors]:
        """The window after each run; before every `runs` runs, the signal was zero."""
        x, hop = self.window.inputs[0], self.incremental.inputs[0].type.shape
        frames = self._frames(x.type.shape)[1]
        last = self._silence(frames)
        for k, inputs in enumerate(sets):
            before = last if k % runs else self._silence(frames)
            last = np.concatenate((before, inputs[x.name].reshape(self._frames(hop))), 1)
            last = last[:, -frames:]
            yield {x.name: last.reshape(x.type.shape)}

    def _frames(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """The shape of an input as (elements before the time axis, frames, elements after it).  If
        the two networks' inputs have other ranks, or the hop is the window, each element is a
        frame."""
        ours, theirs = self.incremental.inputs[0].type.shape, self.window.inputs[0].type.shape
        pairs = enumerate(zip(ours, theirs, strict=False))
        axis = next((a for a, (x, y) in pairs if x != y), None)
        if axis is None or len(ours) != len(theirs):
            return 1, prod(shape), 1
        return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])

    def compared(self, sets: Sequence[Tensors], runs: int, found: Sequence[Tensors]) -> Comparison:
        """Compare the results of all runs with those of the network with the window: each tensor
        that both compute, in the incremental network the last of its rows."""
        total = Comparison()
        for k, (mine, window) in enumerate(zip(found, self.windows(sets, runs), strict=True)):
            theirs = run_graph(self.window, window)
            for name in self._common():
                total += compare_tensor(name, k, mine[name], _last(theirs[name], mine[name].shape))
        return total

    def _common(self) -> tuple[str, ...]:
        """The tensors that both networks compute; constant outputs are none."""
        theirs = {value.name: value.type for value in self.window.variables()}
        return tuple(
            value.name
            for value in self.incremental.variables()
            if value.name in theirs and value.type.rank == theirs[value.name].rank
        )

    def _silence(self, frames: int) -> Array:
        """Frames that represent 0."""
        type = self.window.inputs[0].type
        outer, _, inner = self._frames(type.shape)
        return np.full((outer, frames, inner), type.zero_point, type.dtype.value)


def _last(array: Array, shape: tuple[int, ...]) -> Array:
    """The last elements of an array along each axis, as many as a shape has."""
    return array[tuple(slice(a - b, a) for a, b in zip(array.shape, shape, strict=True))]
