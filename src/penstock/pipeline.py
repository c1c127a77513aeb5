"""The sentence: read -> simplify -> assign -> schedule -> place -> lower -> write.

Seven verbs, each a function from one frozen noun to the next; each noun can be printed as text
(`penstock show MODEL --stop-after STAGE`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from penstock.backends.portable import Processor, assign
from penstock.codegen.bundle import Bundle
from penstock.codegen.c_program import generate
from penstock.codegen.c_text import prefix
from penstock.errors import CapacityError, InternalError
from penstock.fixedpoint import Rounding
from penstock.frontends.open import parse, read_bytes
from penstock.hardware.target import Target
from penstock.ir.graph import Graph
from penstock.ir.verify import verify
from penstock.memory.check import check
from penstock.memory.exact import ExactOptions
from penstock.memory.place import PlaceOptions
from penstock.memory.place import place as place_buffers
from penstock.memory.problem import Placement, live_peak
from penstock.passes.order import PASSES
from penstock.passes.single_rounding import with_single_rounding
from penstock.program.lower import Addresses, lower
from penstock.program.program import Program
from penstock.scheduling.cascades import cascades
from penstock.scheduling.lifetimes import Unfolded, problem, storage_of_block
from penstock.scheduling.options import DEFAULTS, Options
from penstock.scheduling.pareto import frontier as efficient_items
from penstock.scheduling.part import Parts
from penstock.scheduling.schedule import Frontier, Homes, Schedule
from penstock.zoo.registry import open_zoo

_Noun = TypeVar("_Noun")
STAGES = ("read", "simplify", "assign", "schedule", "place", "lower", "write")
DEFAULT_STACK_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be compiled, for what, within what."""

    model: str
    target: Target
    sram_bytes: int | None = None
    flash_bytes: int | None = None
    stack_bytes: int = DEFAULT_STACK_BYTES
    stream_input: bool = False
    rounding: Rounding = Rounding.DOUBLE
    options: Options = DEFAULTS

    @property
    def ram_limit_bytes(self) -> int:
        """The budget, or the target's memory where that is less."""
        memory = self.target.memory_for("arena").size_bytes
        return memory if self.sram_bytes is None else min(memory, self.sram_bytes)


@dataclass(frozen=True, slots=True)
class Point:
    """A schedule and the addresses of its blocks."""

    schedule: Schedule
    placement: Placement

    def ram_bytes(self, request: Request) -> int:
        """The arena and the stack's reserve."""
        return self.placement.height_bytes + request.stack_bytes


@dataclass(frozen=True, slots=True)
class Compilation:
    """Every noun on the way from a model to its bundle, and the seconds that each stage took."""

    request: Request
    model: Graph
    graph: Graph
    parts: Parts
    frontier: Frontier
    points: tuple[Point, ...]
    schedule: Schedule
    placement: Placement
    program: Program
    bundle: Bundle
    seconds: tuple[tuple[str, float], ...] = field(compare=False)

    @property
    def prefix(self) -> str:
        """What every public name of the C begins with."""
        return prefix_of(self.model.name)


def prefix_of(model_name: str) -> str:
    """The C prefix of a model: its file's name without suffix."""
    return prefix(model_name.removeprefix("zoo:").rsplit(".tflite", 1)[0])


def read(model: str) -> Graph:
    """The graph that a model file, or the name of a zoo network, means.

    Raises ModelError, UsageError."""
    if model.startswith("zoo:"):
        return open_zoo(model)
    path = Path(model)
    return parse(read_bytes(path), path.name)


def simplify(graph: Graph, rounding: Rounding = Rounding.DOUBLE) -> Graph:
    """The same function in fewer nodes; every pass leaves a graph that obeys the rules."""
    for rewrite in PASSES:
        graph = rewrite(graph)
        verify(graph)
    return graph if rounding is Rounding.DOUBLE else with_single_rounding(graph)


def parts_of(graph: Graph, request: Request) -> Parts:
    """Which nodes run as one unit, on which engine."""
    return assign(graph, request.target, stream_input=request.stream_input)


def schedule(parts: Parts, target: Target, options: Options) -> Frontier:
    """The schedules worth considering."""
    homes = Homes(target.memory_for("arena").name, target.memory_for("constant").name)
    return cascades(parts, Processor(target.engines[0]), homes, options)


def place(
    frontier: Frontier, options: Options, on_count: Callable[[int], None] = lambda done: None
) -> tuple[Point, ...]:
    """Every schedule of the frontier with its addresses, least memory first; those that another
    is as good as, once they are placed, are left out.  `on_count` is told how many are placed."""
    points: list[Point] = []
    for schedule in frontier.schedules:
        on_count(len(points))
        points.append(Point(schedule, _place(schedule, options)))
    return efficient_items(points, lambda p: (p.placement.height_bytes, p.schedule.cost.cycles))


def least_streamed_bytes(graph: Graph, request: Request) -> int:
    """The least RAM that the network needs where its input is streamed, planned anew."""
    parts = assign(graph, request.target, stream_input=True)
    points = place(schedule(parts, request.target, request.options), request.options)
    return points[0].ram_bytes(request)


def choose(points: tuple[Point, ...], request: Request) -> Point:
    """The fastest point that fits.  Raises CapacityError where none does."""
    fitting = [point for point in points if point.ram_bytes(request) <= request.ram_limit_bytes]
    if not fitting:
        raise _too_large(points[0], request)
    return fitting[-1]


def lower_point(point: Point) -> Program:
    """The commands that run a schedule."""
    addresses = Addresses(dict(point.placement.offsets), point.placement.height_bytes)
    return lower(Unfolded(point.schedule), addresses)


def write(program: Program, request: Request) -> Bundle:
    """The C files of the program."""
    provenance = f"{_provenance(request.model)}, for {request.target.name}"
    keeps_input = request.options.keep_input
    return generate(program, prefix_of(program.name), provenance, keeps_input=keeps_input)


def _provenance(model: str) -> str:
    """Which model it is: a zoo network by its name, a file by its name and contents."""
    if model.startswith("zoo:"):
        return model
    digest = hashlib.sha256(read_bytes(Path(model))).hexdigest()
    return f"{Path(model).name} (sha256 {digest[:16]})"


def compile_request(
    request: Request, on_stage: Callable[[str], None] = lambda stage: None
) -> Compilation:
    """The compiler: each line is a stage.  `on_stage` is told the name of each as it begins."""
    clock = _Clock(on_stage)
    model = clock.time("read", lambda: read(request.model))
    graph = clock.time("simplify", lambda: simplify(model, request.rounding))
    parts = clock.time("assign", lambda: parts_of(graph, request))
    frontier = clock.time("schedule", lambda: schedule(parts, request.target, request.options))
    points = clock.time("place", lambda: place(frontier, request.options))
    chosen = choose(points, request)
    program = clock.time("lower", lambda: lower_point(chosen))
    bundle = clock.time("write", lambda: write(program, request))
    return Compilation(
        request,
        model,
        graph,
        parts,
        frontier,
        points,
        chosen.schedule,
        chosen.placement,
        program,
        bundle,
        clock.seconds,
    )


def stage(request: Request, name: str) -> object:
    """The noun that stage `name` of STAGES makes."""
    graph = read(request.model)
    if name == "read":
        return graph
    graph = simplify(graph, request.rounding)
    if name == "simplify":
        return graph
    parts = parts_of(graph, request)
    if name == "assign":
        return parts
    frontier = schedule(parts, request.target, request.options)
    if name == "schedule":
        return frontier
    chosen = choose(place(frontier, request.options), request)
    if name == "place":
        return chosen.placement
    program = lower_point(chosen)
    return program if name == "lower" else write(program, request)


class _Clock:
    """Runs stages and remembers how long each took."""

    def __init__(self, on_stage: Callable[[str], None]) -> None:
        self._on_stage = on_stage
        self.seconds: tuple[tuple[str, float], ...] = ()

    def time(self, stage: str, verb: Callable[[], _Noun]) -> _Noun:
        self._on_stage(stage)
        begun = perf_counter()
        noun = verb()
        self.seconds = (*self.seconds, (stage, perf_counter() - begun))
        return noun


def _place(schedule: Schedule, options: Options) -> Placement:
    rectangles = problem(Unfolded(schedule))
    limits = ExactOptions(max_nodes=options.placement_nodes, solver_work=options.placement_work)
    placement = place_buffers(rectangles, PlaceOptions(exact=limits))
    if faults := check(rectangles, placement):
        raise InternalError("place-001", f"the placement is wrong: {faults[0]}")
    return placement


def _too_large(least: Point, request: Request) -> CapacityError:
    """The error that names the smallest reachable figure and the tensors that hold it there."""
    smallest = least.ram_bytes(request)
    held = ", ".join(
        f'"{name.split(";")[0]}" ({size} bytes)' for name, size in _held(least.schedule).items()
    )
    return CapacityError(
        "capacity-001",
        f"the network needs {smallest} bytes of RAM, the budget is {request.ram_limit_bytes}",
        where=least.schedule.parts.graph.name,
        why=f"{least.placement.height_bytes} bytes of arena and {request.stack_bytes} of stack is "
        f"the least reachable; at its worst moment these are alive: {held}",
        help=f"give at least --sram {smallest}; a smaller input or fewer channels in these "
        "layers lowers it",
    )


def _held(schedule: Schedule) -> dict[str, int]:
    """Bytes of each tensor at the moment of greatest need, the largest first."""
    rectangles = problem(Unfolded(schedule))
    sizes = {b.name: b.size_bytes for b in rectangles.buffers}
    held: dict[str, int] = {}
    for name in live_peak(rectangles).names:
        storage = storage_of_block(name)
        held[storage] = held.get(storage, 0) + sizes[name]
    return dict(sorted(held.items(), key=lambda item: -item[1]))
