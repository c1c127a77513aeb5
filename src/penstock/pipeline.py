"""The sentence: read -> simplify -> assign -> schedule -> place -> lower -> write.

Seven verbs, each a function from one frozen noun to the next; each noun can be printed as text
(`penstock show MODEL --stop-after STAGE`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import tee
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from penstock.backends.accelerator import Accelerator
from penstock.backends.engines import Engines
from penstock.backends.offload import offload, require_nothing_left, with_program_passes
from penstock.backends.portable import Processor, assign
from penstock.backends.stream import call_writer
from penstock.brief import Brief
from penstock.codegen.bundle import Bundle
from penstock.codegen.c_program import generate
from penstock.codegen.c_text import prefix
from penstock.codegen.drivers import DriverCode
from penstock.errors import CapacityError, InternalError
from penstock.fixedpoint import Rounding
from penstock.frontends.open import SUFFIXES, check_dimensions, parse, read_bytes
from penstock.frontends.reading import AS_IT_IS, Reading
from penstock.hardware.target import Target
from penstock.ir.graph import Graph
from penstock.ir.verify import verify
from penstock.memory.check import check
from penstock.memory.exact import ExactOptions
from penstock.memory.place import PlaceOptions
from penstock.memory.place import place as place_buffers
from penstock.memory.problem import Placement, Problem, live_peak
from penstock.passes.accumulate import accumulate
from penstock.passes.order import PASSES
from penstock.passes.single_rounding import with_single_rounding
from penstock.program.lower import Addresses, lower
from penstock.program.placed_cost import with_placed_costs
from penstock.program.program import Program
from penstock.scheduling.cascades import cascades, schedules
from penstock.scheduling.lifetimes import Unfolded, block_name, problems
from penstock.scheduling.memories import Memories
from penstock.scheduling.options import DEFAULTS, Options
from penstock.scheduling.part import Parts
from penstock.scheduling.schedule import Frontier, Schedule
from penstock.scheduling.selection import Optimize, merged, noticeably_faster, pick
from penstock.workers import mapped
from penstock.zoo.registry import open_zoo

_Noun = TypeVar("_Noun")
STAGES = ("read", "simplify", "assign", "schedule", "place", "lower", "write")
DEFAULT_STACK_BYTES = 1024


@dataclass(frozen=True, slots=True, repr=False)
class Request(Brief):
    """What is to be compiled, for what, within what.

    `optimize`: the goal that selects a point; None: see `goal`."""

    model: str
    target: Target
    sram_bytes: int | None = None
    flash_bytes: int | None = None
    stack_bytes: int = DEFAULT_STACK_BYTES
    stream_input: bool = False
    rounding: Rounding = Rounding.DOUBLE
    options: Options = DEFAULTS
    accelerators: tuple[Accelerator, ...] = ()
    strict: bool = False
    reading: Reading = AS_IT_IS
    optimize: Optimize | None = None

    @property
    def goal(self) -> Optimize:
        """The goal that selects a point: without one, the knee, or the fastest within a budget."""
        if self.optimize is not None:
            return self.optimize
        return Optimize.BALANCED if self.sram_bytes is None else Optimize.SPEED

    @property
    def ram_limit_bytes(self) -> int:
        """The budget, or the target's memories where they are less."""
        arenas = self.target.memories_for("arena")
        memory = sum(memory.size_bytes for memory in arenas if memory.budget)
        return memory if self.sram_bytes is None else min(memory, self.sram_bytes)


@dataclass(frozen=True, slots=True, repr=False)
class Point(Brief):
    """A schedule and the addresses of its blocks, in the memory of inputs and outputs and in the
    others that it uses; those of `free` need not be saved."""

    schedule: Schedule
    placement: Placement
    others: tuple[tuple[str, Placement], ...] = ()
    free: frozenset[str] = frozenset()

    @property
    def heights(self) -> tuple[int, ...]:
        """Bytes of each memory that are to be saved."""
        others = (p.height_bytes for memory, p in self.others if memory not in self.free)
        return (self.placement.height_bytes, *others)

    @property
    def height_bytes(self) -> int:
        """Bytes of all memories that are to be saved."""
        return sum(self.heights)

    @property
    def free_bytes(self) -> Mapping[str, int]:
        """Bytes of the other memories, by name."""
        return {memory: p.height_bytes for memory, p in self.others if memory in self.free}

    @property
    def moved_bytes(self) -> int:
        """Bytes read from, and written to, memories that are to be saved."""
        cost = self.schedule.cost
        every = (*cost.read_bytes, *cost.written_bytes)
        return sum(size for memory, size in every if memory not in self.free)

    def ram_bytes(self, request: Request) -> int:
        """The blocks that are to be saved, and the stack's reserve."""
        return self.height_bytes + request.stack_bytes

    @property
    def addresses(self) -> Addresses:
        """Where every block lies."""
        placements = ((self.schedule.homes.tensors, self.placement), *self.others)
        offsets = {name: at for _, p in placements for name, at in p.offsets}
        return Addresses(offsets, tuple((memory, p.height_bytes) for memory, p in placements))

    def fits(self, target: Target) -> bool:
        """Whether every block fits into its memory."""
        sizes = {memory.name: memory.size_bytes for memory in target.memories}
        return all(height <= sizes[memory] for memory, height in self.addresses.heights)

    def may_be_chosen(self, request: Request) -> bool:
        """Whether it fits into the target's memories and into the budget."""
        return self.fits(request.target) and self.ram_bytes(request) <= request.ram_limit_bytes


@dataclass(frozen=True, slots=True, repr=False)
class Compilation(Brief):
    """Every noun on the way from a model to its bundle, and the seconds that each stage took."""

    request: Request
    model: Graph
    graph: Graph
    parts: Parts
    frontier: Frontier
    points: tuple[Point, ...]
    point: Point
    program: Program
    bundle: Bundle
    seconds: tuple[tuple[str, float], ...] = field(compare=False)

    @property
    def schedule(self) -> Schedule:
        return self.point.schedule

    @property
    def placement(self) -> Placement:
        """Addresses in the memory of inputs and outputs."""
        return self.point.placement

    @property
    def prefix(self) -> str:
        """What every public name of the C begins with."""
        return prefix_of(self.model.name)


def prefix_of(model_name: str) -> str:
    """The C prefix of a model: its file's name without suffix."""
    name = model_name.removeprefix("zoo:").removesuffix(".gz")
    suffix = next((s for s in SUFFIXES if s in name), "\0")
    return prefix(name.rsplit(suffix, 1)[0])


def read(model: str, reading: Reading = AS_IT_IS) -> Graph:
    """The graph that a model file, or the name of a zoo network, means.

    Raises ModelError, UsageError."""
    if model.startswith("zoo:"):
        check_dimensions((), reading, model)
        return open_zoo(model)
    path = Path(model)
    return parse(read_bytes(path), path.name, reading, path.parent)


def simplify(
    graph: Graph, rounding: Rounding = Rounding.DOUBLE, options: Options = DEFAULTS
) -> Graph:
    """The same function in nodes that need less; every pass leaves a graph that obeys the rules."""
    if rounding is Rounding.SINGLE:
        graph = with_single_rounding(graph)
    for rewrite in PASSES:
        if rewrite is not accumulate or options.accumulate:
            graph = rewrite(graph)
            verify(graph)
    return graph


def simplify_for(graph: Graph, request: Request) -> Graph:
    """`simplify` as a request wants it; accelerators are shown reductions whole."""
    options = request.options
    if request.accelerators:
        options = replace(options, accumulate=False)
    return simplify(graph, request.rounding, options)


def parts_of(graph: Graph, request: Request) -> Parts:
    """Which nodes run as one unit, on which engine.

    Raises BackendError; with `strict`, TargetError where a node is left to the processor."""
    found = offload(graph, request.accelerators, request.target)
    if request.strict:
        require_nothing_left(found.left)
    graph = found.graph
    if request.accelerators and request.options.accumulate:
        graph = accumulate(graph)
    parts = assign(graph, request.target, stream_input=request.stream_input)
    names = tuple(accelerator.name for accelerator in request.accelerators)
    return replace(parts, accelerators=names, left=found.left)


def schedule(parts: Parts, target: Target, options: Options) -> Frontier:
    """The schedules worth considering."""
    return cascades(parts, *_engines_and_memories(target), options)


def _engines_and_memories(target: Target) -> tuple[Engines, Memories]:
    """What a search for schedules knows of a target."""
    processor = target.engines[0]
    memories = Memories(
        target.memories_for("arena"), target.memory_for("constant"), processor, target.copier
    )
    return Engines(Processor(processor)), memories


def place(
    frontier: Frontier,
    target: Target,
    options: Options,
    executor: Executor | None = None,
    on_count: Callable[[int], None] = lambda done: None,
) -> tuple[Point, ...]:
    """The points of the frontier, least memory first: what is left of the schedules once they are
    placed and `merged`.  Schedules that do not fit into the target are left out, but for one.

    `on_count` is told, as each is placed, how many were placed before it."""
    points: list[Point] = []
    promising = (s for s in frontier.schedules if _is_promising(s, points, target))
    for found, point in _placed(promising, target, options, executor):
        on_count(len(points))
        # Workers run ahead: they got schedules before the points that rule these out were known.
        if _is_promising(found, points, target):
            points.append(point)
    points.sort(key=lambda p: p.moved_bytes)  # of equal ones, the first is kept
    least = min(points, key=_bytes_and_cycles)
    fitting = [p for p in points if p.fits(target)] or [least]
    return merged(fitting, _bytes_and_cycles)


def _bytes_and_cycles(point: Point) -> tuple[int, int]:
    return point.height_bytes, point.schedule.cost.cycles


def points_of(graph: Graph, request: Request) -> tuple[Point, ...]:
    """The points of a graph whose nodes are assigned to engines, least memory first."""
    parts = assign(graph, request.target, stream_input=request.stream_input)
    found = schedule(parts, request.target, request.options)
    return place(found, request.target, request.options)


def least_bytes(graph: Graph, request: Request) -> int:
    """The least RAM in which a network runs whose nodes are assigned to engines, whatever the
    request's budget."""
    parts = assign(graph, request.target, stream_input=request.stream_input)
    least: int | None = None
    known = _engines_and_memories(request.target)
    for found in schedules(parts, *known, request.options):
        if least is not None and found.peak_bytes >= least:
            break  # nor is any that follows lower
        ((_, point),) = _placed((found,), request.target, request.options, None)
        least = point.height_bytes if least is None else min(least, point.height_bytes)
    return request.stack_bytes + (least or 0)


def choose(points: tuple[Point, ...], request: Request) -> Point:
    """The point that the request's goal selects of those that fit.

    Raises CapacityError where none does."""
    chosen = chosen_index(points, request)
    if chosen is None:
        raise _too_large(points[0], request)
    return points[chosen]


def chosen_index(points: Sequence[Point], request: Request) -> int | None:
    """Which point the request's goal selects of those that fit; None where none does."""
    fitting = [k for k, point in enumerate(points) if point.may_be_chosen(request)]
    if not fitting:
        return None
    cycles = [points[k].schedule.cost.cycles for k in fitting]
    return fitting[pick(cycles, request.goal)]


def lower_point(point: Point, accelerators: Sequence[Accelerator] = ()) -> Program:
    """The commands that run a schedule."""
    program = lower(Unfolded(point.schedule), point.addresses)
    return with_program_passes(program, accelerators)


def write(program: Program, request: Request) -> Bundle:
    """The C files of the program."""
    provenance = f"{_provenance(request.model)}, for {request.target.name}"
    if request.reading.assume_int8:
        provenance += ", as if it were int8: scales are made up, answers mean nothing"
    keeps_input = request.options.keep_input
    drivers = {
        a.name: DriverCode(a.codegen.includes, call_writer(a.codegen), a.codegen.sources)
        for a in request.accelerators
    }
    return generate(
        program,
        prefix_of(program.name),
        provenance,
        keeps_input=keeps_input,
        drivers=drivers,
        optimise=request.target.compiler.optimise,
    )


def _provenance(model: str) -> str:
    """Which model it is: a zoo network by its name, a file by its name and contents."""
    if model.startswith("zoo:"):
        return model
    digest = hashlib.sha256(read_bytes(Path(model))).hexdigest()
    return f"{Path(model).name} (sha256 {digest[:16]})"


def compile_request(
    request: Request,
    on_stage: Callable[[str], None] = lambda stage: None,
    executor: Executor | None = None,
) -> Compilation:
    """The compiler: each line is a stage.  `on_stage` is told the name of each as it begins."""
    clock = _Clock(on_stage)
    model = clock.time("read", lambda: read(request.model, request.reading))
    return _compiled(model, request, clock, executor)


def compile_graph(model: Graph, request: Request) -> Compilation:
    """Compile a graph that no file holds; `request.model` names it."""
    return _compiled(model, request, _Clock(lambda stage: None), None)


def _compiled(
    model: Graph, request: Request, clock: _Clock, executor: Executor | None
) -> Compilation:
    """The stages after `read`."""
    graph = clock.time("simplify", lambda: simplify_for(model, request))
    parts = clock.time("assign", lambda: parts_of(graph, request))
    frontier = clock.time("schedule", lambda: schedule(parts, request.target, request.options))
    points = clock.time("place", lambda: place(frontier, request.target, request.options, executor))
    chosen = choose(points, request)
    program = clock.time("lower", lambda: lower_point(chosen, request.accelerators))
    bundle = clock.time("write", lambda: write(program, request))
    return Compilation(
        request,
        model,
        parts.graph,
        parts,
        frontier,
        points,
        chosen,
        program,
        bundle,
        clock.seconds,
    )


def with_point(done: Compilation, point: Point) -> Compilation:
    """The compilation as it were if that point had been chosen."""
    program = lower_point(point, done.request.accelerators)
    return replace(
        done,
        point=point,
        program=program,
        bundle=write(program, done.request),
    )


def stage(request: Request, name: str, executor: Executor | None = None) -> object:
    """The noun that stage `name` of STAGES makes."""
    graph = read(request.model, request.reading)
    if name == "read":
        return graph
    graph = simplify_for(graph, request)
    if name == "simplify":
        return graph
    parts = parts_of(graph, request)
    if name == "assign":
        return parts
    frontier = schedule(parts, request.target, request.options)
    if name == "schedule":
        return frontier
    chosen = choose(place(frontier, request.target, request.options, executor), request)
    if name == "place":
        return chosen.placement
    program = lower_point(chosen, request.accelerators)
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


def _is_promising(found: Schedule, points: Sequence[Point], target: Target) -> bool:
    """Whether `merged` may keep a schedule, beside the points placed so far.

    Schedules come least memory first.  A schedule takes at least its live bytes, and so do all that
    follow it.  Hence none of them displaces a point within these bytes that `merged` keeps now:
    what is not noticeably faster than the last such point is skipped."""
    within = (p for p in points if p.height_bytes <= found.peak_bytes and p.fits(target))
    kept = merged(within, _bytes_and_cycles)
    return not kept or noticeably_faster(found.cost.cycles, kept[-1].schedule.cost.cycles)


def _placed(
    schedules: Iterable[Schedule], target: Target, options: Options, executor: Executor | None
) -> Iterator[tuple[Schedule, Point]]:
    """Each schedule with its point, which has what the schedule costs at its addresses.

    Without workers, the next schedule is asked for when the one before is placed.  Workers are
    given the blocks alone, not the network."""
    free = frozenset(memory.name for memory in target.memories if not memory.budget)
    limits = ExactOptions(max_nodes=options.placement_nodes, solver_work=options.placement_work)
    every, again = tee(map(Unfolded, schedules))
    blocks = map(problems, again)
    placements = mapped(partial(_place, PlaceOptions(exact=limits)), blocks, executor)
    for unfolded, found in zip(every, placements, strict=True):
        point = Point(unfolded.schedule, found[0][1], found[1:], free)
        placed = with_placed_costs(unfolded, point.addresses)
        yield unfolded.schedule, replace(point, schedule=placed)


def _place(
    options: PlaceOptions, blocks: tuple[tuple[str, Problem], ...]
) -> tuple[tuple[str, Placement], ...]:
    """By memory, where its blocks lie."""
    found: list[tuple[str, Placement]] = []
    for memory, rectangles in blocks:
        placement = place_buffers(rectangles, options)
        if faults := check(rectangles, placement):
            raise InternalError("place-001", f"the placement is wrong: {faults[0]}")
        found.append((memory, placement))
    return tuple(found)


def _too_large(least: Point, request: Request) -> CapacityError:
    """The error that names the smallest reachable figure, the tensors that hold it there, and what
    would lower it."""
    smallest = least.ram_bytes(request)
    held = [f'"{name.split(";")[0]}" ({size} bytes)' for name, size in _held(least.schedule)]
    if len(held) > NAMED_TENSORS:
        held = [*held[:NAMED_TENSORS], f"and parts of {len(held) - NAMED_TENSORS} more"]
    return CapacityError(
        "capacity-001",
        f"the network needs {smallest} bytes of RAM, the budget is {request.ram_limit_bytes}",
        where=least.schedule.parts.graph.name,
        why=f"{least.height_bytes} bytes of arena and {request.stack_bytes} of stack is "
        f"the least reachable; at its worst moment these are alive: {', '.join(held)}",
        help="; ".join((f"give at least {_enough(least, request)}", *_lowering(least, request))),
    )


NAMED_TENSORS = 8
"""So many tensors does the message about a budget name, the largest ones."""


def _enough(point: Point, request: Request) -> str:
    """The options that give a point what it needs."""
    homes = point.schedule.homes
    needs = {homes.tensors: point.placement.height_bytes + request.stack_bytes}
    needs |= {name: placement.height_bytes for name, placement in point.others}
    sizes = {memory.name: memory.size_bytes for memory in request.target.memories}
    options = [f"--memory {name}={need}" for name, need in needs.items() if sizes[name] < need]
    total = point.ram_bytes(request)
    if request.sram_bytes is not None and request.sram_bytes < total:
        options.append(f"--sram {total}")
    return " ".join(options)


def _lowering(least: Point, request: Request) -> Iterator[str]:
    """What would lower the least RAM, with figures where they can be computed."""
    parts, options = least.schedule.parts, request.options
    changes = {"with --stream-input": replace(request, stream_input=True)}
    changes |= dict(_unrestricted(request))
    for words, other in changes.items():
        if other != request:
            size = least_bytes(parts.graph, other)
            if size < least.ram_bytes(request):
                yield f"{words} {size} bytes are enough"
    for words, note, other in _open_choices(request):
        graph = simplify_for(read(other.model, other.reading), other)
        size = least_bytes(parts_of(graph, other).graph, other)
        if size < least.ram_bytes(request):
            yield f"with {words} {size} bytes are enough" + (f", {note}" if note else "")
    if options.max_parts < len(parts.parts):
        yield f"a larger --max-parts than {options.max_parts} may lower it"
    yield "a smaller input or fewer channels in these layers lower it"


def _unrestricted(request: Request) -> Iterator[tuple[str, Request]]:
    """The request without each option of the search that the user set."""
    for f in fields(Options):
        if f.name != "accumulate" and getattr(request.options, f.name) != f.default:
            options = replace(request.options, **{f.name: f.default})
            switch = f.name if f.default is not True else f"no_{f.name}"
            words = f"without --{switch.replace('_', '-')}"
            yield words, replace(request, options=options)


def _open_choices(request: Request) -> Iterator[tuple[str, str, Request]]:
    """The request with each choice that the user left open of an accelerator's attributes."""
    for k, accelerator in enumerate(request.accelerators):
        before, after = request.accelerators[:k], request.accelerators[k + 1 :]
        for choice in accelerator.open_choices:
            accelerators = (*before, choice.make(), *after)
            other = replace(request, accelerators=accelerators)
            yield f"--accelerator {choice.text}", choice.note, other


def _held(schedule: Schedule) -> list[tuple[str, int]]:
    """Tensors and their bytes at the moment of greatest need, the largest first."""
    unfolded = Unfolded(schedule)
    _, rectangles = problems(unfolded)[0]
    sizes = {b.name: b.size_bytes for b in rectangles.buffers}
    storages = {block_name(schedule, block): block.storage for block in unfolded.blocks()}
    held: dict[str, int] = {}
    for name in live_peak(rectangles).names:
        storage = storages.get(name, name)
        held[storage] = held.get(storage, 0) + sizes[name]
    return sorted(held.items(), key=lambda item: -item[1])
