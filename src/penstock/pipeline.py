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
from penstock.scheduling.layered import layer_by_layer
from penstock.scheduling.lifetimes import problem
from penstock.scheduling.options import DEFAULTS, Options
from penstock.scheduling.part import Parts
from penstock.scheduling.schedule import Frontier, Schedule
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
    rounding: Rounding = Rounding.DOUBLE
    options: Options = DEFAULTS


@dataclass(frozen=True, slots=True)
class Compilation:
    """Every noun on the way from a model to its bundle, and the seconds that each stage took."""

    request: Request
    model: Graph
    graph: Graph
    parts: Parts
    frontier: Frontier
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


def schedule(parts: Parts, target: Target, options: Options) -> Frontier:
    """The schedules worth considering."""
    return layer_by_layer(parts, Processor(target.engines[0]), options)


def place(frontier: Frontier, request: Request) -> tuple[Schedule, Placement]:
    """The fastest schedule that fits once it is placed, and its addresses.

    Raises CapacityError where none fits."""
    placed = [(s, _place(s, request.options)) for s in frontier.schedules]
    fitting = [(s, p) for s, p in placed if _fits(p, request)]
    if not fitting:
        raise _too_large(*min(placed, key=lambda pair: pair[1].height_bytes), request)
    return min(fitting, key=lambda pair: (pair[0].cost.cycles, pair[1].height_bytes))


def lower_schedule(schedule: Schedule, placement: Placement, target: Target) -> Program:
    """The commands that run the schedule."""
    addresses = Addresses(
        target.memory_for("arena").name,
        target.memory_for("constant").name,
        dict(placement.offsets),
        placement.height_bytes,
    )
    return lower(schedule, addresses)


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
    parts = clock.time("assign", lambda: assign(graph, request.target))
    frontier = clock.time("schedule", lambda: schedule(parts, request.target, request.options))
    chosen, placement = clock.time("place", lambda: place(frontier, request))
    program = clock.time("lower", lambda: lower_schedule(chosen, placement, request.target))
    bundle = clock.time("write", lambda: write(program, request))
    return Compilation(
        request, model, graph, parts, frontier, chosen, placement, program, bundle, clock.seconds
    )


def stage(request: Request, name: str) -> object:
    """The noun that stage `name` of STAGES makes."""
    graph = read(request.model)
    if name == "read":
        return graph
    graph = simplify(graph, request.rounding)
    if name == "simplify":
        return graph
    parts = assign(graph, request.target)
    if name == "assign":
        return parts
    frontier = schedule(parts, request.target, request.options)
    if name == "schedule":
        return frontier
    chosen, placement = place(frontier, request)
    if name == "place":
        return placement
    program = lower_schedule(chosen, placement, request.target)
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
    rectangles = problem(schedule)
    limits = ExactOptions(max_nodes=options.placement_nodes, solver_work=options.placement_work)
    placement = place_buffers(rectangles, PlaceOptions(exact=limits))
    if faults := check(rectangles, placement):
        raise InternalError("place-001", f"the placement is wrong: {faults[0]}")
    return placement


def _fits(placement: Placement, request: Request) -> bool:
    return placement.height_bytes + request.stack_bytes <= _ram_limit(request)


def _ram_limit(request: Request) -> int:
    memory = request.target.memory_for("arena").size_bytes
    return min(memory, request.sram_bytes) if request.sram_bytes is not None else memory


def _too_large(schedule: Schedule, placement: Placement, request: Request) -> CapacityError:
    """The error that names the smallest reachable figure and the tensors that hold it there."""
    smallest = placement.height_bytes + request.stack_bytes
    peak = live_peak(problem(schedule))
    sizes = {b.name: b.size_bytes for b in problem(schedule).buffers}
    held = ", ".join(f'"{name.split(";")[0]}" ({sizes[name]} bytes)' for name in peak.names)
    return CapacityError(
        "capacity-001",
        f"the network needs {smallest} bytes of RAM, the budget is {_ram_limit(request)}",
        where=schedule.parts.graph.name,
        why=f"{placement.height_bytes} bytes of arena and {request.stack_bytes} of stack is the "
        f"least reachable; these are alive together: {held}",
        help=f"give at least --sram {smallest}; a smaller input or fewer channels in these "
        "layers lowers it",
    )
