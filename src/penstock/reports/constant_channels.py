"""ConstantChannels: the output channels of a layer that do not depend on the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.ir.graph import Graph, whole_work
from penstock.scheduling.part import Part
from penstock.scheduling.schedule import Schedule

WEIGHTS = 1
"""The input that is the weights, of operators with constant channels."""


@dataclass(frozen=True, slots=True)
class ConstantChannels:
    """Output channels of a layer that have the same value for every input.

    `channels`: their indices, of `count` in all; `weights`: the tensor of their weights;
    `skipped`: the kernel writes the values instead of computing them, and of the weights
    `dropped_bytes` are not in the bundle."""

    layer: str
    channels: tuple[int, ...]
    count: int
    weights: str
    skipped: bool
    dropped_bytes: int

    @property
    def ranges(self) -> str:
        """The channels' indices, runs of them joined.

        >>> ConstantChannels("a", (0, 3, 4, 5, 7), 8, "w", True, 72).ranges
        '0, 3-5, 7'
        """
        runs: list[list[int]] = []
        for channel in self.channels:
            if runs and channel == runs[-1][-1] + 1:
                runs[-1] = [runs[-1][0], channel]
            else:
                runs.append([channel])
        return ", ".join("-".join(map(str, run)) for run in runs)

    @property
    def words(self) -> str:
        """How many channels are constant, and what became of them.

        >>> ConstantChannels("a", (3, 5), 8, "w", True, 72).words
        '2 of 8 output channels are constant: not computed, 72 bytes of weights dropped'
        """
        found = f"{len(self.channels):,} of {self.count:,} output channels are constant"
        if not self.skipped:
            return f"{found}: computed all the same"
        return f"{found}: not computed, {self.dropped_bytes:,} bytes of weights dropped"


def constant_channels(part: Part) -> ConstantChannels | None:
    """The constant channels of a part; None where none is known to be constant."""
    kernel = part.kernel
    if not kernel.constant_channels:
        return None
    count = part.output.type.shape[-1]
    weights = part.inputs[WEIGHTS]
    dropped = weights.type.size_bytes // count * len(kernel.constant_channels)
    return ConstantChannels(
        part.name,
        kernel.constant_channels,
        count,
        weights.name,
        kernel.skips_constant,
        dropped if kernel.skips_constant else 0,
    )


def constant_by_layer(schedule: Schedule) -> Mapping[str, ConstantChannels]:
    """By name of a layer, its constant channels, where it has any."""
    every = ((part.name, constant_channels(part)) for part in schedule.steps)
    return {name: found for name, found in every if found is not None}


def folded_macs(model: Graph, graph: Graph) -> int:
    """Multiply-accumulates of the model's nodes that depend on no input and were evaluated at
    compile time: `graph` does not compute them any more."""
    computed = {node.output.name for node in graph.nodes}
    constant: set[str] = set()
    total = 0
    for node in model.nodes:
        if all(value.name in constant for value in node.variable_inputs):
            constant.add(node.output.name)
            total += 0 if node.output.name in computed else whole_work(node).macs
    return total
