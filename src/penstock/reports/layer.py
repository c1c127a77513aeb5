"""Layers of a network and the steps of the schedule that compute them, as report.json has them.

`Step` is a record of `layers` in report.json, `Layer` one of `model_layers`. Tables, pages and
comparisons show nothing else about layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Protocol

from penstock.brief import Brief
from penstock.frozen import frozen
from penstock.ir.breakdown import Breakdown
from penstock.ir.graph import Graph
from penstock.ir.operator_facts import StatedAttribute
from penstock.reports.codec import LINKED, Json, encoded_fields, named
from penstock.reports.formats import ABSENT, short_names
from penstock.scheduling.model.stripe import Stripes

NO_BYTES: Mapping[str, int] = {}
# Cycles per multiply-accumulate in the inner loop of a kernel: loads, widening and multiplication
# alone, by the kernel's name. `backends/cores/dsp/counts.py` counts them: 68 cycles for two pixels,
# four channels and eight inputs, for example.
FLOOR_CYCLES_PER_MAC = {
    "conv2d_s8_dsp": 68 / 64,
    "conv2d_direct_s8_dsp": 155 / 128,
    "conv2d_groups_s8_dsp": 155 / 128,
    "depthwise_conv2d_s8_dsp": 2.5,
    "fully_connected_forms_s8_dsp": 25 / 16,
    "fully_connected_s8_dsp": 87 / 64,
}


class TensorRole(StrEnum):
    """What a tensor is to a layer."""

    INPUT = "input"
    CONSTANT = "constant"
    OUTPUT = "output"


@frozen(repr=False)
class LayerTensor(Brief):
    """A tensor that a layer reads or writes.

    scales: the smallest and the largest scale of its channels; None for plain numbers.
    channels: number of its scales; None for plain numbers.
    zero_point: the zero point that all channels share; None for plain numbers, and where zero
        points differ.
    channel_scales: the scale of each channel to six digits, if there are several.
    """

    role: TensorRole
    name: str
    shape: tuple[int, ...]
    element_type: str
    size_bytes: int
    scales: tuple[float, float] | None = None
    channels: int | None = None
    zero_point: int | None = None
    channel_scales: tuple[float, ...] = ()


@frozen
class NodeLine:
    """A node: operator, output shape, engine, name."""

    kind: str
    shape: tuple[int, ...]
    engine: str
    name: str


@frozen(repr=False)
class ConstantChannels(Brief):
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


@frozen
class BandRange:
    """Consecutive bands of columns, numbered from 0, that one step computes.

    chain: number of the chain to which they belong; None if a whole cascade runs in bands.
    lower, upper: the bands [lower, upper).
    total: number of bands of the chain or the cascade.
    """

    chain: int | None
    lower: int
    upper: int
    total: int

    @property
    def words(self) -> str:
        """The chain and its bands as a phrase, counting bands from 1.

        >>> BandRange(0, 1, 3, 4).words, BandRange(2, 0, 1, 1).words, BandRange(None, 0, 1, 2).words
        ('chain 0, bands 2-3 of 4', 'chain 2', 'band 1 of 2')
        """
        bands = "bands" if self.upper - self.lower > 1 else "band"
        return self._in_chain(f"{bands} {self._numbers} of {self.total}")

    @property
    def short(self) -> str:
        """The number of the chain, if there is one, and those of the bands, from 1.

        >>> BandRange(0, 1, 3, 4).short, BandRange(2, 0, 1, 1).short, BandRange(None, 0, 1, 2).short
        ('0: 2-3', '2', '1')
        """
        return self._after_chain(self._numbers)

    @property
    def total_words(self) -> str:
        """The chain and the number of all its bands as a phrase.

        >>> BandRange(0, 1, 3, 4).total_words, BandRange(2, 0, 1, 1).total_words
        ('chain 0, 4 bands', 'chain 2')
        """
        return self._in_chain(f"{self.total} bands")

    @property
    def short_total(self) -> str:
        """The number of the chain, if there is one, and that of all bands.

        >>> BandRange(0, 1, 3, 4).short_total, BandRange(None, 0, 1, 2).short_total
        ('0: 4', '2')
        """
        return self._after_chain(f"{self.total}")

    @property
    def _numbers(self) -> str:
        several = self.upper - self.lower > 1
        return f"{self.lower + 1}-{self.upper}" if several else f"{self.upper}"

    def _in_chain(self, bands: str) -> str:
        chain = () if self.chain is None else (f"chain {self.chain}",)
        return ", ".join((*chain, *((bands,) if self.total > 1 else ())))

    def _after_chain(self, bands: str) -> str:
        if self.chain is None:
            return bands
        return f"{self.chain}: {bands}" if self.total > 1 else f"{self.chain}"


@frozen(repr=False)
class Step(Brief):
    """A step of the schedule: a part, or the part of equal bands.

    `step` is its step number in the program and in the C code, or None if the caller supplies its
    rows or the call of a later layer in its region computes it. `requantisation` counts output
    channels per class, for layers with weights. `macs` are the executed ones; `constant` describes
    output channels that do not depend on the input. `cascade` is the index of its cascade and
    `rows` the maximum rows per stripe; both are None if the layer runs whole. `stripes` are the
    stripes of its output, one per call. `reads` are the indices of the steps that it reads; -1 is
    the caller. `offloaded` is True if the engine is an accelerator. `buffer_bytes` is the size of
    the buffer of its output. `bands` are the bands of columns that it computes, or None for all
    columns. `factor` is F of the layer: computed elements as a multiple of those of its output,
    over all bands. `moves` tells that it moves columns that a band has kept for the next one.
    `breakdown` is the use of the accelerator's resources, and `traffic` the bytes
    that it moves by category, if the backend reports them. `attributes` are those of its operator,
    `tensors` the whole tensors that it reads and writes. The simulated figures are those of a
    simulated core; None without, and for steps of accelerators.
    """

    step: int | None
    name: str
    kind: str
    origin: str
    shape: tuple[int, ...]
    cascade: int | None
    rows: int | None
    reads: tuple[int, ...]
    calls: int
    macs: int
    read_bytes: int
    written_bytes: int
    cycles: int
    engine: str
    offloaded: bool
    kernel: str = ""
    requantisation: Mapping[str, int] = field(default_factory=dict[str, int])
    breakdown: Breakdown | None = None
    traffic: Mapping[str, int] = field(default_factory=dict[str, int])
    constant: ConstantChannels | None = None
    stripes: Stripes = ()
    buffer_bytes: int | None = None
    bands: BandRange | None = None
    factor: float = 1.0
    attributes: tuple[StatedAttribute, ...] = ()
    tensors: tuple[LayerTensor, ...] = ()
    moves: bool = False
    simulated_cycles: int | None = None
    simulated_instructions: int | None = None

    @property
    def main(self) -> Step:
        """Itself; a layer has a main step."""
        return self

    @property
    def numbers(self) -> tuple[int, ...]:
        """Its number in the program, if it has one."""
        return () if self.step is None else (self.step,)

    @property
    def place(self) -> str:
        """The node in the model file, such as `node 3 CONV_2D`; empty if the file has none."""
        return self.origin.split(": ", 1)[-1]

    @property
    def constant_bytes(self) -> int:
        """Bytes of weights, bias and other constants, as the model stores them."""
        return sum(one.size_bytes for one in self.tensors if one.role is TensorRole.CONSTANT)

    @property
    def moved_bytes(self) -> int:
        """Bytes moved: the backend's `traffic`, or else the bytes of the regions that the kernel
        reads and writes."""
        return sum(self.traffic.values()) or self.read_bytes + self.written_bytes

    @property
    def best_cycles(self) -> int:
        """Simulated cycles if it was simulated, else the estimate."""
        return self.cycles if self.simulated_cycles is None else self.simulated_cycles

    @property
    def limit(self) -> str | None:
        """The limiting resource, or None if the backend states no breakdown."""
        return self.breakdown and self.breakdown.limit

    @property
    def utilisation(self) -> float | None:
        """Utilisation of the accelerator's multipliers in [0, 1], or None if the backend does not
        state their number."""
        return self.breakdown and self.breakdown.utilisation(self.macs, self.cycles)

    def as_json(self) -> dict[str, Json]:
        """The step as report.json has it, with what limits it if the backend states that."""
        found = encoded_fields(self)
        if self.breakdown is not None:
            found["limited_by"], found["utilisation"] = self.limit, self.utilisation
        return found


@dataclass(frozen=True, repr=False)
class Layer(Brief):
    """A layer of the model. Its figures are the sums over its steps.

    Most layers are one step. A cascade in bands of columns computes a layer in several steps, and
    some operators are divided into several parts. Parts that the compiler inserts, such as
    conversions of layouts, are layers of their own.

    kind: the operator.
    steps: the steps that compute it, in execution order.
    indices: their places among all steps.
    weight_bytes: constants that are stored for it: weights, bias, and the tables of its kernels.
    live_bytes: maximum of the live bytes of the arena while it runs; None if it has no calls.
    short_name: the shortest part of the path in its name that no other layer has.
    """

    kind: str = field(metadata=named("operator"))
    steps: tuple[Step, ...] = field(default=(), metadata=LINKED)
    indices: tuple[int, ...] = field(default=(), metadata=named("steps"))
    weight_bytes: int = 0
    live_bytes: int | None = None
    short_name: str = ""

    @cached_property
    def main(self) -> Step:
        """The step with the most products, or else cycles, of those that compute elements of its
        output: a copy to another layout may take longer than the layer itself."""
        return max(self._computing, key=lambda one: (one.macs, one.cycles))

    @property
    def last(self) -> Step:
        """The last step that computes elements of its output."""
        return self._computing[-1]

    @property
    def _computing(self) -> Sequence[Step]:
        return [one for one in self.steps if not one.moves] or self.steps

    @property
    def name(self) -> str:
        return self.last.name

    @property
    def attributes(self) -> tuple[StatedAttribute, ...]:
        """Those of the operator that computes its output."""
        return self.last.attributes

    @property
    def tensors(self) -> tuple[LayerTensor, ...]:
        """The whole tensors that it reads and writes, without those between its steps."""
        own = {one.name for one in self.steps}
        found = dict[str, LayerTensor]()
        for one in self.steps:
            for tensor in one.tensors:
                is_result = one is self.last and tensor.role is TensorRole.OUTPUT
                if is_result or tensor.name not in own:
                    found.setdefault(tensor.name, tensor)
        return tuple(found.values())

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its whole output."""
        outputs = (one.shape for one in self.last.tensors if one.role is TensorRole.OUTPUT)
        return next(outputs, self.last.shape)

    @property
    def step(self) -> int | None:
        """Number of its first step in the program; None if none of them has a number."""
        return min(self.numbers, default=None)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of its steps in the program."""
        return tuple(number for one in self.steps for number in one.numbers)

    @property
    def engine(self) -> str:
        return self.main.engine

    @property
    def offloaded(self) -> bool:
        """Whether an accelerator runs any of its steps."""
        return any(one.offloaded for one in self.steps)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels of its steps, that of the main step first."""
        return tuple(dict.fromkeys((self.main.kernel, *(one.kernel for one in self.steps))))

    @property
    def calls(self) -> int:
        return sum(one.calls for one in self.steps)

    @property
    def macs(self) -> int:
        return sum(one.macs for one in self.steps)

    @property
    def cycles(self) -> int:
        return sum(one.cycles for one in self.steps)

    @property
    def simulated_cycles(self) -> int | None:
        """The sum over the steps that were simulated; None if none was."""
        return _known_sum(one.simulated_cycles for one in self.steps)

    @property
    def simulated_instructions(self) -> int | None:
        """The sum over the steps that were simulated; None if none was."""
        return _known_sum(one.simulated_instructions for one in self.steps)

    @property
    def best_cycles(self) -> int:
        """Simulated cycles of each step that was simulated, else its estimate."""
        return sum(one.best_cycles for one in self.steps)

    @property
    def read_bytes(self) -> int:
        return sum(one.read_bytes for one in self.steps)

    @property
    def written_bytes(self) -> int:
        return sum(one.written_bytes for one in self.steps)

    @property
    def moved_bytes(self) -> int:
        return sum(one.moved_bytes for one in self.steps)

    @property
    def factor(self) -> float:
        """F: computed elements as a multiple of those of its output, over all bands."""
        return self.main.factor

    @property
    def limit(self) -> str | None:
        """The resource that limits its main step, or None if the backend states no breakdown."""
        return self.main.limit

    @property
    def utilisation(self) -> float | None:
        """Utilisation of the accelerator's multipliers, or None if the backend does not state
        their number."""
        breakdown = self.main.breakdown
        return breakdown and breakdown.utilisation(self.macs, self.cycles)

    def as_json(self) -> dict[str, Json]:
        """The layer as report.json has it; `steps` are indices into the list of steps."""
        return {
            **encoded_fields(self),
            "name": self.name,
            "origin": self.main.origin,
            "engine": self.engine,
            "kernels": self.kernels,
            "shape": self.shape,
            "calls": self.calls,
            "macs": self.macs,
            "factor": self.factor,
            "cycles": self.cycles,
            "moved_bytes": self.moved_bytes,
            "simulated_cycles": self.simulated_cycles,
            "simulated_instructions": self.simulated_instructions,
        }


def linked(layers: Iterable[Layer], steps: Sequence[Step]) -> tuple[Layer, ...]:
    """Return layers with those of all steps that compute them."""
    return tuple(replace(one, steps=tuple(steps[index] for index in one.indices)) for one in layers)


def above_floor(line: Layer | Step) -> float | None:
    """Return cycles relative to those of the kernel's inner loop alone; None if these are
    unknown."""
    floor = FLOOR_CYCLES_PER_MAC.get(line.main.kernel, 0.0) * line.macs
    return line.best_cycles / floor if floor and not line.main.offloaded else None


def number_words(line: Layer | Step) -> str:
    """Return the number of a step in the program, or those of the first and the last step."""
    known = sorted(line.numbers)
    if not known:
        return ABSENT
    return f"{known[0]}" if len(known) == 1 else f"{known[0]}..{known[-1]}"


class Counted(Protocol):
    """The counts of a simulated core for one step."""

    @property
    def cycles(self) -> int: ...

    @property
    def instructions(self) -> int: ...


def with_counts(steps: Iterable[Step], counts: Sequence[Counted | None]) -> tuple[Step, ...]:
    """Return steps with simulated figures.

    counts: by number of the step; None for those that were not simulated. Steps that have no
        number have no figures.
    """
    found = list(steps)
    numbered = sorted(number for one in found for number in one.numbers)
    known = dict(zip(numbered, counts, strict=True))

    def counted(step: Step) -> Step:
        count = None if step.step is None else known[step.step]
        if count is None:
            return step
        return replace(
            step, simulated_cycles=count.cycles, simulated_instructions=count.instructions
        )

    return tuple(map(counted, found))


def model_layers(
    steps: Sequence[Step],
    model: Graph | None = None,
    stored: Mapping[str, int] = NO_BYTES,
    live: Mapping[str, int] = NO_BYTES,
) -> tuple[Layer, ...]:
    """Return the layers in the order of the model's nodes; without a model, in that of the steps.

    Steps that no node of the model describes are layers that precede their first reader.
    `stored` maps tensors to the bytes of constants, `live` to the live bytes while they are
    computed.
    """
    groups: dict[str, list[int]] = {}
    for index, one in enumerate(steps):
        groups.setdefault(one.origin or f"\n{one.name}", []).append(index)
    nodes = {} if model is None else {node.origin: node for node in model.nodes}
    places = {origin: place for place, origin in enumerate(nodes)}
    positions = _positions(steps, places)
    order = groups.values()
    if model is not None:
        order = sorted(order, key=lambda own: positions[own[0]])
    found: list[Layer] = []
    for own in order:
        some = tuple(steps[index] for index in own)
        node = nodes.get(some[0].origin)
        names = {one.name for one in some}
        found.append(
            Layer(
                _kind(some, None if node is None else node.kind),
                some,
                tuple(own),
                sum(stored.get(name, 0) for name in names),
                max((live[name] for name in names if name in live), default=None),
            )
        )
    short = short_names(one.name for one in found)
    return tuple(replace(one, short_name=short[one.name]) for one in found)


def layer_indices(layers: Iterable[Layer]) -> Mapping[int, int]:
    """Return the index of the layer of each step, by index of the step."""
    return {step: index for index, one in enumerate(layers) for step in one.indices}


def layers_by_name(layers: Iterable[Layer]) -> Mapping[str, Sequence[int]]:
    """Return the indices of the layers that have steps of a name, by name."""
    found: dict[str, list[int]] = {}
    for index, layer in enumerate(layers):
        for name in dict.fromkeys(step.name for step in layer.steps):
            found.setdefault(name, []).append(index)
    return found


def _positions(steps: Sequence[Step], places: Mapping[str, int]) -> Sequence[int]:
    found = [places.get(one.origin, len(places)) for one in steps]
    for index in reversed(range(len(steps))):  # readers before what they read
        for source in steps[index].reads:
            if source >= 0 and steps[source].origin not in places:
                found[source] = min(found[source], found[index])
    return found


def _kind(steps: Sequence[Step], in_model: str | None) -> str:
    kinds = {one.kind for one in steps if not one.moves}
    if len(kinds) == 1:
        return kinds.pop()
    return in_model or steps[-1].kind


def _known_sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
