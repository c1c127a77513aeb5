"""`explore`, the whole frontier of a model; `compare_partitions`, its groups by strategy; `show`,
the result of a stage; `nodes`, its nodes."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Unpack

from penstock import partitions
from penstock.api.arguments import check_flags, ignore_progress
from penstock.api.keywords import with_settings
from penstock.api.layer import node_name
from penstock.api.requested import Model, request
from penstock.api.settings import Settings
from penstock.backends.offload import offload
from penstock.backends.pattern_mismatch import explain
from penstock.brief import Brief, shortened
from penstock.choices import one_of
from penstock.errors import UsageError
from penstock.exploration import Explored, OnProgress, explore_request
from penstock.frozen import frozen
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.ir.composite import Composite
from penstock.partitions import ComparedPartitions
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.graphs import read_request, simplify
from penstock.pipeline.request import Request
from penstock.pipeline.stages import STAGE_NAMES, OnStage, run_through
from penstock.pipeline.texts import print_stage
from penstock.reports.layer import NodeLine
from penstock.reports.steps import layers
from penstock.workers import Workers, executor_of, mapped


@with_settings
def explore(
    model: Model | Request,
    target: str = DEFAULT_TARGET,
    *,
    workers: Workers = 1,
    on_progress: OnProgress = ignore_progress,
    **settings: Unpack[Settings],
) -> Explored:
    """The frontier of a model: every schedule that some request can select.

    workers: number of processes, or an executor; the result does not depend on it.
    on_progress: called with the name of each stage, and how many of its items are done.

    Raises as `compile`, but no CapacityError: without a feasible point, none is marked as
    chosen."""
    wanted = request(model, target, **settings)
    with executor_of(workers) as executor:
        return explore_request(wanted, on_progress, executor)


@with_settings
def compare_partitions(
    model: Model | Request,
    target: str = DEFAULT_TARGET,
    *,
    workers: Workers = 1,
    on_stage: OnStage = ignore_progress,
    **settings: Unpack[Settings],
) -> ComparedPartitions:
    """The network divided into groups by each strategy of the option `partition`, with cycles and
    bytes to and from main memory.

    workers: number of processes, or an executor; the result does not depend on it.
    on_stage: called with the name of each step when it begins.

    Raises as `compile`."""
    wanted = request(model, target, **settings)
    with executor_of(workers) as executor:
        return partitions.compare_partitions(wanted, on_stage, executor)


@with_settings
def show(
    model: Model | Request,
    target: str = DEFAULT_TARGET,
    *,
    stop_after: str = "simplify",
    with_data: bool = False,
    workers: Workers = 1,
    **settings: Unpack[Settings],
) -> str:
    """Run the stages up to one and return its result as text.

    stop_after: the stage, one of "read", "simplify", "assign", "schedule", "place", "lower",
        "write".
    with_data: include constants, so that the text of a graph can be parsed back.
    workers: number of processes, or an executor; the result does not depend on it.

    Raises as `compile`; UsageError also if there is no such stage."""
    wanted = request(model, target, **settings)
    check_flags("show", with_data=with_data)
    one_of(stop_after, STAGE_NAMES, "--stop-after")
    with executor_of(workers) as executor:
        outcomes = run_through(wanted, stop_after, executor)
    return print_stage(outcomes, with_data=with_data)


def explain_pattern(wanted: Request, node: str) -> tuple[str, ...]:
    """Why each pattern of the accelerators matches or does not match at a node, as lines.

    node: its name, or a part of it that names no other (`penstock show MODEL --nodes`).

    Raises ModelError, UnsupportedError, BackendError; UsageError if there is no such node."""
    model = read_request(wanted)
    graph = simplify(model, wanted.rounding, wanted.io)
    name = node_name(graph, model, node) or node
    return explain(graph, wanted.accelerators, wanted.target, name)


def nodes(wanted: Request) -> tuple[NodeLine, ...]:
    """The nodes of a simplified network after offload, each with the engine that runs it.

    Raises ModelError, UnsupportedError, BackendError."""
    processor = wanted.target.engines[0].name
    graph = simplify(read_request(wanted), wanted.rounding, wanted.io)
    if wanted.accelerators:
        graph = offload(graph, wanted.accelerators, wanted.target).graph
    return tuple(
        NodeLine(
            node.kind,
            node.output.shape,
            node.op.engine if isinstance(node.op, Composite) else processor,
            node.name,
        )
        for node in graph.nodes
    )


# `sweep`: latency and traffic of a model on configurations of an accelerator.


AttributeValue = str | int | bool | float
# The values of each attribute in a sweep. Attributes named in a tuple have equal values.
Axes = (
    Mapping[str, Sequence[AttributeValue]]
    | Mapping[tuple[str, ...], Sequence[AttributeValue]]
    | Mapping[str | tuple[str, ...], Sequence[AttributeValue]]
)


@frozen(repr=False)
class SweptConfiguration(Brief):
    """A configuration of the accelerator, with the estimated figures of one inference.

    attributes: the attributes that the sweep sets, by name.
    cycles: cycles of the selected schedule, CPU fallbacks included.
    accelerator_cycles: cycles of the layers that the accelerator runs.
    busy_cycles: cycles in which each resource of the accelerator works, by name; empty if the
        backend does not state them.
    moved_bytes: bytes that the accelerator moves, by category as the backend names them; "other"
        for layers whose bytes it does not state.
    ram_bytes: bytes of RAM, stack reserve included.
    cpu_fallbacks: the names of the nodes that the processor runs."""

    attributes: Mapping[str, AttributeValue]
    cycles: int
    accelerator_cycles: int
    busy_cycles: Mapping[str, float]
    moved_bytes: Mapping[str, int]
    ram_bytes: int
    cpu_fallbacks: tuple[str, ...]

    @property
    def traffic_bytes(self) -> int:
        """Bytes that the accelerator moves, in total."""
        return sum(self.moved_bytes.values())


@frozen(repr=False)
class Swept(Brief):
    """The configurations of a sweep, in the order of the product of its axes."""

    accelerator: str
    configurations: tuple[SweptConfiguration, ...]

    def __repr__(self) -> str:
        return shortened(f"Swept({self.accelerator}, {len(self.configurations)} configurations)")

    def as_csv(self) -> str:
        """A line per configuration: attributes, cycles, bytes moved, RAM, number of CPU fallbacks.

        Columns of resources begin with "busy_", those of kinds of data with "moved_"."""
        names = [*dict.fromkeys(n for one in self.configurations for n in one.attributes)]
        busy = [*dict.fromkeys(n for one in self.configurations for n in one.busy_cycles)]
        moved = [*dict.fromkeys(n for one in self.configurations for n in one.moved_bytes)]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            [
                *names,
                *("cycles", "accelerator_cycles"),
                *(f"busy_{name}_cycles" for name in busy),
                *("traffic_bytes", *(f"moved_{name}_bytes" for name in moved)),
                *("ram_bytes", "cpu_fallbacks"),
            ]
        )
        for one in self.configurations:
            writer.writerow(
                [
                    *(one.attributes[name] for name in names),
                    *(one.cycles, one.accelerator_cycles),
                    *(one.busy_cycles.get(name, 0) for name in busy),
                    *(one.traffic_bytes, *(one.moved_bytes.get(name, 0) for name in moved)),
                    *(one.ram_bytes, len(one.cpu_fallbacks)),
                ]
            )
        return out.getvalue()


@with_settings
def sweep(
    model: Model,
    target: str = DEFAULT_TARGET,
    *,
    accelerator: str,
    axes: Axes,
    workers: Workers = 1,
    **settings: Unpack[Settings],
) -> Swept:
    """Compile a model for each configuration of an accelerator.

    accelerator: "NAME[:attr=value,...]"; the attributes stated here are the same everywhere.
    axes: for an attribute, or a tuple of attributes that have equal values, the values of the
        sweep.  Every combination of the values of all axes is a configuration.
    workers: number of processes, or an executor; the result does not depend on it.

    All figures are estimates of the compiler.  A layer that does not fit a configuration is a CPU
    fallback there.  `optimize="speed"` selects the fastest schedule of each configuration.  With
    `options=Options(max_parts=1)`, it is layer by layer, and the search takes little time.

    Raises as `compile`; UsageError if an axis has no values, if two axes set the same attribute, or
    if `settings` names accelerators.

    >>> swept = sweep("zoo:lenet5", "host", accelerator="smv", axes={"bytes_per_cycle": [4, 8]})
    >>> [one.attributes["bytes_per_cycle"] for one in swept.configurations]
    [4, 8]
    >>> slow, fast = swept.configurations
    >>> slow.cycles > fast.cycles, slow.traffic_bytes == fast.traffic_bytes
    (True, True)
    """
    if "accelerators" in settings:
        raise _bad_sweep("the setting `accelerators` is given", "name one accelerator to sweep")
    found = tuple(_configurations(axes))
    measured = partial(_measured, model, target, accelerator, settings)
    with executor_of(workers) as executor:
        return Swept(accelerator, tuple(mapped(measured, found, executor)))


def _configurations(axes: Axes) -> Iterator[Mapping[str, AttributeValue]]:
    keys = [(key,) if isinstance(key, str) else key for key in axes]
    names = [name for key in keys for name in key]
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise _bad_sweep(f'two axes set the attribute "{repeated}"', "name each attribute once")
    for key, values in zip(keys, axes.values(), strict=True):
        if not values:
            raise _bad_sweep(f"the axis {', '.join(key)} has no values", "state at least one value")
    for chosen in product(*axes.values()):
        yield {name: v for key, v in zip(keys, chosen, strict=True) for name in key}


def _measured(
    model: Model,
    target: str,
    accelerator: str,
    settings: Settings,
    attributes: Mapping[str, AttributeValue],
) -> SweptConfiguration:
    given = ",".join(f"{name}={_text(value)}" for name, value in attributes.items())
    joined = "" if not given else "," if ":" in accelerator else ":"
    every: Settings = {**settings, "accelerators": [f"{accelerator}{joined}{given}"]}
    wanted = request(model, target, **every)
    done = compile_request(wanted)
    busy: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    offloaded = [one for one in layers(done.schedule, done.program) if one.offloaded]
    for layer in offloaded:
        busy.update(layer.breakdown.by_resource if layer.breakdown else {})
        moved.update(layer.traffic or {"other": layer.moved_bytes})
    return SweptConfiguration(
        attributes,
        done.schedule.cost.cycles,
        sum(layer.cycles for layer in offloaded),
        dict(busy),
        dict(moved),
        done.point.ram_bytes(wanted),
        tuple(left.node.name for left in done.parts.cpu_fallbacks),
    )


def _text(value: AttributeValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bad_sweep(what: str, help: str) -> UsageError:
    return UsageError(
        "usage-140",
        what,
        where="sweep",
        why="a configuration sets each attribute of one accelerator to one value",
        help=help,
    )
