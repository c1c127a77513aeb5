"""The data of a page, as records. A page contains them as JSON; its scripts draw them.

A field that is None or empty is absent from the JSON. Layers are referred to by their index in
`PageData.layers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A key figure, with notes on its composition."""

    label: str
    value: str
    unit: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A part of the RAM, in bytes."""

    name: str
    size_bytes: int
    note: str


@dataclass(frozen=True, slots=True)
class LayerTensorData:
    """A tensor that a layer reads or writes. `scale` states one scale, or the range of several,
    `scales` lists several."""

    role: str
    name: str
    full_name: str
    shape: str
    element_type: str
    size_bytes: int
    scale: str
    zero_point: str
    scales: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepData:
    """A step of a layer that is computed in several. `bands` says which bands it computes."""

    step: int | None
    kind: str
    bands: str
    shape: str
    calls: int
    macs: int
    read_bytes: int
    written_bytes: int
    moved_bytes: int
    cycles: int
    simulated_cycles: int | None
    instructions: int | None
    kernel: str


@dataclass(frozen=True, slots=True)
class LayerData:
    """A layer of the model. `name` is short and unique, `full_name` that of the model file.

    Figures are sums over its `steps`, which are listed if there are several; `step` is the first
    one, `numbers` a phrase. `cycles` are estimated, `simulated_cycles` those of a simulated core.
    `live_bytes` is the maximum of its output that is live at a time, `ram_bytes` that of the arena
    while it runs. `above_floor` is the ratio of the cycles to those of its kernel's inner loop.
    `bands` says in which chain and how many bands it runs, `factor` is its F; both are absent if no
    layer of the network runs in bands. `place` is its node in the model file, `attributes` are
    those of its operator, by name. `constant_bytes` are weights and bias as the model stores them,
    `weight_bytes` as the flash does. `constant` describes constant channels, `channels` lists them.
    """

    step: int | None
    numbers: str
    kind: str
    engine: str
    offloaded: bool
    name: str
    full_name: str
    shape: str
    cascade: int | None
    rows: int | None
    reads: tuple[int, ...]
    calls: int
    macs: int
    read_bytes: int
    written_bytes: int
    moved_bytes: int
    live_bytes: int
    ram_bytes: int | None
    cycles: int
    simulated_cycles: int | None
    instructions: int | None
    kernel: str
    requantisation: str
    above_floor: float | None
    limit: str
    utilisation: float | None
    resources: Mapping[str, int]
    constant: str
    channels: str
    bands: str
    factor: float | None
    place: str
    attributes: Mapping[str, str]
    constant_bytes: int
    weight_bytes: int
    tensors: tuple[LayerTensorData, ...]
    steps: tuple[StepData, ...]


@dataclass(frozen=True, slots=True)
class StretchData:
    """A cascade, or a part that runs whole: its layers in the order of their steps, and its ticks,
    `calls`; in bands of columns, a tick is several of its `kernel_calls`. `columns` is its width in
    the memory figure, where the axis shows steps."""

    layers: tuple[int, ...]
    calls: int
    kernel_calls: int
    cascade: int | None
    columns: float
    words: str


@dataclass(frozen=True, slots=True)
class BlockData:
    """A block of a memory. `areas` are rectangles: lower and upper byte, first and end tick."""

    name: str
    full_name: str
    kind: str
    layers: tuple[int, ...]
    most_bytes: int
    by_rows: bool
    areas: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class MemoryData:
    """A memory over time. `live` lists the ticks at which the live bytes change, and the bytes."""

    name: str
    ticks: int
    height_bytes: int
    peak_bytes: int
    peak_tick: int
    budget_bytes: int | None
    blocks: tuple[BlockData, ...]
    live: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class EngineData:
    """The work of an engine. `share` is its fraction of the estimated cycles."""

    name: str
    nodes: int
    calls: int
    macs: int
    cycles: int
    simulated_cycles: int | None
    share: float


@dataclass(frozen=True, slots=True)
class EngineSpanData:
    """Cycles [lower, upper) of an engine's lane."""

    engine: str
    activity: str
    lower_cycles: int
    upper_cycles: int
    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FallbackData:
    """A node that falls back to the CPU."""

    node: str
    cycles: int
    reason: str


@dataclass(frozen=True, slots=True)
class PointData:
    """A point of a frontier, and the command that compiles it. `gap_bytes` is the overhead of
    placement; fields that only an exploration knows are None."""

    ram_bytes: int
    cycles: int
    macs_executed: int
    chosen: bool
    command: str
    arena_bytes: int | None = None
    static_bytes: int | None = None
    live_bytes: int | None = None
    gap_bytes: int | None = None
    calls: int | None = None
    factor: float | None = None
    moved: Mapping[str, tuple[int, int]] | None = None
    cascades: str = ""


@dataclass(frozen=True, slots=True)
class SeriesData:
    """A frontier: its points, least memory first."""

    label: str
    points: tuple[PointData, ...]


@dataclass(frozen=True, slots=True)
class FrontierData:
    """The frontiers of a model. `limit_bytes` is the budget, or the size of the target's RAM."""

    series: tuple[SeriesData, ...]
    limit_bytes: int | None
    goal: str


@dataclass(frozen=True, slots=True)
class StatementData:
    """A certificate or a check, as a phrase."""

    subject: str
    words: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class OtherOptionsData:
    """The result of other options, and the command that yields it."""

    words: str
    command: str


@dataclass(frozen=True, slots=True)
class PageData:
    """Everything that a page shows. The layers are in the order of the model.

    `provenance` states in phrases how the page was made. `tick_cycles` lists the cycles at which
    each tick begins, followed by the end of the last one.
    """

    title: str
    subtitle: str
    provenance: tuple[str, ...]
    warning: str
    command: str
    figures: tuple[KeyFigure, ...]
    ram: tuple[MemoryPart, ...] = ()
    ram_notes: tuple[str, ...] = ()
    others: tuple[OtherOptionsData, ...] = ()
    statements: tuple[StatementData, ...] = ()
    layers: tuple[LayerData, ...] = ()
    stretches: tuple[StretchData, ...] = ()
    tick_cycles: tuple[int, ...] = ()
    memories: tuple[MemoryData, ...] = ()
    engines: tuple[EngineData, ...] = ()
    engine_spans: tuple[EngineSpanData, ...] = ()
    fallbacks: tuple[FallbackData, ...] = ()
    frontier: FrontierData | None = None
    notes: tuple[str, ...] = ()
