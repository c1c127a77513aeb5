"""Output channels of a layer that do not depend on the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.ir.graph import Graph, whole_work
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.schedule import Schedule

WEIGHTS = 1
"""Index of the input that holds the weights, for operators with constant channels."""


@dataclass(frozen=True, slots=True)
class ConstantChannels:
    """Output channels of a layer that have the same value for every input.

    `channels` are their indices, out of `count`. `weights` names the tensor of weights. If
    `skipped`, the kernel stores the values instead of computing them, and `dropped_bytes` of
    weights are omitted from the bundle.
    """

    layer: str
    channels: tuple[int, ...]
    count: int
    weights: str
    skipped: bool
    dropped_bytes: int

    @property
    def ranges(self) -> str:
        """The indices of the channels, with consecutive indices written as ranges.

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
        """The number of constant channels and their treatment, as a phrase.

        >>> ConstantChannels("a", (3, 5), 8, "w", True, 72).words
        '2 of 8 output channels are constant: not computed, 72 bytes of weights dropped'
        """
        found = f"{len(self.channels):,} of {self.count:,} output channels are constant"
        if not self.skipped:
            return f"{found}: computed anyway"
        return f"{found}: not computed, {self.dropped_bytes:,} bytes of weights dropped"


def constant_channels(part: Part) -> ConstantChannels | None:
    """Return the constant channels of a part, or None if it has none."""
    kernel = part.kernel
    if not kernel.constant_channels:
        return None
    count = part.output.type.shape[-1]
    weights = part.inputs[WEIGHTS]
    dropped = weights.type.size_bytes // count * len(kernel.constant_channels)
    return ConstantChannels(
        part.label,
        kernel.constant_channels,
        count,
        weights.name,
        kernel.skips_constant,
        dropped if kernel.skips_constant else 0,
    )


def constant_by_layer(schedule: Schedule) -> Mapping[str, ConstantChannels]:
    """Return the constant channels of each layer that has any, by name of the layer."""
    every = ((part.label, constant_channels(part)) for part in schedule.steps)
    return {name: found for name, found in every if found is not None}


def folded_macs(model: Graph, graph: Graph) -> int:
    """Return the multiply-accumulates of the model's nodes that were evaluated at compile time,
    because they depend on no input; `graph` no longer contains them."""
    computed = {node.output.name for node in graph.nodes}
    constant: set[str] = set()
    total = 0
    for node in model.nodes:
        if all(value.name in constant for value in node.variable_inputs):
            constant.add(node.output.name)
            total += 0 if node.output.name in computed else whole_work(node).macs
    return total
