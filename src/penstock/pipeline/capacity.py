"""The error if no point fits: what uses the memory, and what would make it fit."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock.backends.cores.family import plain_c_family
from penstock.errors import CapacityError
from penstock.frozen import frozen
from penstock.guides import guide
from penstock.hardware.load import board_names, load_target
from penstock.hardware.target import Target
from penstock.memory.conflict import conflict
from penstock.memory.problem import LiveBuffer, PlacementProblem, live_peak
from penstock.optional import attempt, attempt_each
from penstock.passes.streamed_rows import channels_first
from penstock.pipeline.assignment import assign_engines, assign_kernels
from penstock.pipeline.graphs import read_request, simplify
from penstock.pipeline.placing import PlacedPoint, smallest_point
from penstock.pipeline.request import Request
from penstock.program.program import Program
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.expanded_schedule import (
    ExpandedSchedule,
    placement_problems,
    scratch_name,
)
from penstock.setting import settings_of

NAMED_TENSORS = 8
"""Maximum number of tensors that the message lists, the largest first."""
NAMED_BOARDS = 3
"""Maximum number of boards that a message proposes, those with the least memory first."""
MAX_BLOCKS = 200
"""Maximum number of blocks for the search for fragmentation conflicts.

The search tries up to `ConflictOptions.max_asks` subsets; with more blocks, it would take longer
than the compilation.
"""


def capacity_error(least: PlacedPoint, request: Request) -> CapacityError:
    """Return the error for a network whose smallest point, `least`, is not feasible.

    If its constants exceed the flash, too, the memory for which no remedy is known comes first."""
    full = _full_memory(least, request)
    has_conflict = full is not None or least.default_counts
    found_conflict = partial(memory_conflict, least, request)
    conflict = attempt("a conflict", found_conflict, lambda: None) if has_conflict else None
    found = (
        *attempt_each("a remedy", lambda: _larger(least, request)),
        *attempt_each("a remedy", lambda: _lowering(least, request, conflict)),
    )
    planes = attempt_each("a remedy", lambda: _planes(least))
    remedies = "; ".join(
        (*found, *planes, "a smaller input or fewer channels in these layers reduces it")
    )
    ram_bytes, limit_bytes = least.ram_bytes(request), request.ram_limit_bytes
    subject = f"the network needs {ram_bytes} bytes of RAM, the budget is {limit_bytes}"
    where = least.schedule.parts.graph.name
    why = (
        f"{_schedule(least, request)} needs {least.height_bytes} bytes for tensors and "
        f"{request.stack_bytes} for the stack"
    )
    if ram_bytes <= limit_bytes and full is not None:
        memory, used_bytes, size_bytes = full
        subject = f"the network needs {used_bytes} bytes of {memory}, there are {size_bytes}"
        why = f"{_schedule(least, request)} needs them for tensors"
    if conflict is not None:
        why += f"; {_conflict_text(conflict)}"
    flash = _flash_shortage(least, request)
    if flash is not None:
        flash_subject, others = flash
        flash_remedies = "; ".join(with_last_resort(others))
        if found and not others:
            what, help = f"{flash_subject}; {subject}", f"{flash_remedies}; {remedies}"
            return CapacityError("capacity-002", what, where=where, why=why, help=help)
        subject, remedies = f"{subject}; {flash_subject}", f"{remedies}; {flash_remedies}"
    return CapacityError("capacity-001", subject, where=where, why=why, help=remedies)


def check_added_memory(point: PlacedPoint, program: Program, request: Request) -> None:
    """Raise CapacityError if what passes of accelerators have added to a program exceeds memory."""
    placed = dict(point.used_bytes)
    sizes = request.target.sizes
    for memory in program.ram():
        added = memory.size_bytes - placed.get(memory.name, memory.size_bytes)
        if added <= 0:
            continue
        free = sizes[memory.name] - placed[memory.name]
        if memory.name not in point.unbudgeted:
            free = min(free, request.ram_limit_bytes - point.ram_bytes(request))
        if added > free:
            raise CapacityError(
                "capacity-005",
                f"program passes add {added} bytes of {memory.name}, {free} are free",
                where=point.schedule.parts.graph.name,
                why="passes after placement add working memory beside all tensors",
                help=f"use a budget that is {added - free} bytes less than what you have, so that "
                "the schedule leaves room, or more memory",
            )


def _flash_shortage(least: PlacedPoint, request: Request) -> tuple[str, tuple[str, ...]] | None:
    """Return a clause that says that the constants exceed the flash, and clauses about changes with
    which they fit; None if they do not exceed it."""
    parts, limit = least.schedule.assigned_parts, flash_limit_bytes(request)
    size, memory = part_constant_bytes(parts), request.target.memory_for("constant")
    if size <= limit:
        return None
    remedies = ["use a larger --flash"] if size <= memory.size_bytes else []
    smaller = attempt("other kernels", lambda: smaller_kernels(parts, request), lambda: None)
    if smaller is not None and size - smaller[1] <= limit:
        remedies.append(slower_kernels(smaller[0], size - smaller[1]))
    subject = f"the constants alone need {size} bytes of {memory.name}, there are {limit}"
    return subject, tuple(remedies)


def _larger(least: PlacedPoint, request: Request) -> Iterator[str]:
    """Yield a clause about memory that is large enough: options, or for a board whose memory is too
    small, boards with more."""
    ram_bytes = least.ram_bytes(request)
    if _may_be_larger(ram_bytes, request):
        yield f"use at least {_enough(least, request)}"
        return
    size = part_constant_bytes(least.schedule.assigned_parts)
    boards = boards_with(ram_bytes, size, request.target)
    if boards:
        yield f"boards with enough memory: {', '.join(boards)}"
        return
    others = boards_with(ram_bytes, size, request.target, other_kernels=True)
    if others:
        names = ", ".join(others)
        yield f"boards with that much memory and other kernels, which may need more: {names}"


def _may_be_larger(ram_bytes: int, request: Request) -> bool:
    """Whether options of the user provide that much RAM: a board has the memory that it has."""
    memory = request.target.memory_for("arena")
    return request.target.name not in board_names() or ram_bytes <= memory.size_bytes


def _conflict_text(found: MemoryConflict) -> str:
    """Return the tensors that are live at the peak, and those that cannot fit together, as text."""
    named, rest = found.held[:NAMED_TENSORS], found.held[NAMED_TENSORS:]
    held = [f'"{tensor.name}" ({_live_share(tensor)})' for tensor in named]
    if rest:
        held.append(f"and {len(rest)} more ({sum(tensor.live_bytes for tensor in rest)} bytes)")
    text = f"at the peak, {found.moment}, these are live in {found.memory}: {', '.join(held)}"
    if found.available_bytes == 0:
        return f"{text}; no bytes are available for them"
    if not found.irreducible:
        return f"{text}; no placement within the {found.available_bytes} bytes available was found"
    names = [f'"{name}"' for name in found.irreducible[:NAMED_TENSORS]]
    if len(found.irreducible) > NAMED_TENSORS:
        names.append(f"and {len(found.irreducible) - NAMED_TENSORS} more")
    exceed = "together exceed" if len(names) > 1 else "alone exceeds"
    return f"{text}; {', '.join(names)} {exceed} the {found.available_bytes} bytes available"


def _live_share(tensor: HeldTensor) -> str:
    """Return the live bytes as text; with the size of the tensor if only some rows are live."""
    if tensor.live_bytes == tensor.whole_bytes:
        return f"{tensor.live_bytes} bytes"
    return f"{tensor.live_bytes} of {tensor.whole_bytes} bytes"


def _enough(point: PlacedPoint, request: Request) -> str:
    """Return the command-line options that provide enough memory for a point."""
    needs = dict(point.used_bytes)
    counted = [memory.name for memory in request.target.arenas if memory.budget]
    if counted:  # the stack is in RAM
        needs[counted[0]] = needs.get(counted[0], 0) + request.stack_bytes
    sizes = request.target.sizes
    options = [f"--memory {name}={need}" for name, need in needs.items() if sizes[name] < need]
    total = point.ram_bytes(request)
    if request.sram_bytes is not None and request.sram_bytes < total:
        options.append(f"--sram {total}")
    return " ".join(options)


def _lowering(
    least: PlacedPoint, request: Request, conflict: MemoryConflict | None
) -> Iterator[str]:
    """Yield clauses about changes that reduce the RAM needed, and make the network fit."""
    parts, options = least.schedule.assigned_parts, request.options
    if parts.is_for_speed and parts.network is not None:
        parts = parts.network  # with the changes, the network itself may need less
    if request.schedule is not None:  # its parts may be stripes: the search is for the network
        other = replace(request, schedule=None)
        found = partial(_smallest_point_of_model, other)
        yield from _with("with a schedule of the search", "", found, other, least)
        return
    changes = {"with --stream-input": replace(request, stream_input=True)}
    changes |= dict(_unrestricted(request))
    for words, other in changes.items():
        if other != request:
            found = partial(smallest_point, parts.graph, other)
            yield from _with(words, "", found, other, least)
    for words, note, other in _open_choices(request):
        found = partial(_smallest_point_of_model, other)
        yield from _with(f"with {words}", note, found, other, least)
    alone = conflict is not None and len(conflict.irreducible) == 1
    if options.max_parts < len(parts.parts) and not alone:
        yield f"--max-parts above {options.max_parts} may reduce it"


def _schedule(least: PlacedPoint, request: Request) -> str:
    """Return words for the schedule of a point, which say if it is one of an equivalent network."""
    if request.schedule is not None:
        return "the stated schedule"
    if not least.schedule.assigned_parts.alternative:
        return "the smallest schedule"
    return "the smallest schedule (of an equivalent network, see --no-alternatives)"


def _planes(least: PlacedPoint) -> Iterator[str]:
    """Yield a clause about each input of which a streamed row is a whole channel."""
    for x in channels_first(least.schedule.assigned_parts.graph):
        height, width = x.shape[2:]
        yield (
            f'the input "{x.name}" is channels-first, so a streamed row is a plane of {height} x '
            f"{width} elements: for ONNX, --channels-last {shlex.quote(x.name)} may need less with "
            f"--stream-input (see the {guide('from-pytorch')})"
        )


def _smallest_point_of_model(request: Request) -> PlacedPoint:
    graph = simplify(read_request(request), request.rounding, request.io)
    return smallest_point(assign_engines(graph, request).graph, request)


def _with(
    words: str,
    note: str,
    smallest: Callable[[], PlacedPoint],
    request: Request,
    least: PlacedPoint,
) -> Iterator[str]:
    """Yield a clause about the point of least RAM of another request, unless it does not fit and is
    not smaller, or the board has less memory."""
    found = attempt(f"a remedy {words}", smallest, lambda: None)
    if found is None:
        return
    size = found.ram_bytes(request)
    remark = f", {note}" if note else ""
    is_smaller = (size, found.default_bytes) < (least.ram_bytes(request), least.default_bytes)
    if found.is_feasible(request):
        default = found.schedule.memory.default
        full = _full_memory(least, request)
        other = full[0] if full is not None and full[0] != default else None
        free = [] if found.default_counts else [default]
        used = dict(found.used_bytes)
        others = (f"{used.get(memory, 0)} of {memory}" for memory in (*free, other) if memory)
        of_ram = " of RAM" if other else ""
        yield f"{words} {' and '.join((f'{size} bytes{of_ram}', *others))} are enough{remark}"
    elif is_smaller and _may_be_larger(size, request):
        yield f"{words} use at least {_enough(found, request)}{remark}"


def _unrestricted(request: Request) -> Iterator[tuple[str, Request]]:
    """Yield (text, request without the option) for each search option that is not the default."""
    for one in settings_of(Options):
        flag = next(one.stated(request.options), None)
        if flag is not None and one.name != "accumulate":
            options = replace(request.options, **{one.name: one.default})
            yield f"without {flag}", replace(request, options=options)


def _open_choices(request: Request) -> Iterator[tuple[str, str, Request]]:
    """Yield the request with each alternative for accelerator attributes that the user did not set.

    As (value of `--accelerator`, note for the user, request).
    """
    for k, accelerator in enumerate(request.accelerators):
        before, after = request.accelerators[:k], request.accelerators[k + 1 :]
        for choice in accelerator.open_choices:
            accelerators = (*before, choice.make(), *after)
            other = replace(request, accelerators=accelerators)
            yield f"--accelerator {choice.text}", choice.note, other


@frozen
class HeldTensor:
    """A tensor or another buffer that is live at the peak.

    live_bytes, whole_bytes: bytes of its live rows, and of all its rows.
    """

    name: str
    live_bytes: int
    whole_bytes: int


@frozen
class MemoryConflict:
    """Why a point does not fit.

    memory: name of the memory region that is too small.
    moment: what runs at the peak of live bytes, as a clause for messages.
    held: the tensors that are live at the peak, the largest first.
    available_bytes: bytes of `memory` that are available to tensors.
    irreducible: names of tensors that do not fit together, but would without any one of them, the
        largest first; empty if no such set was found.  All of them are live at the peak, unless the
        live bytes fit and only fragmentation prevents a placement.
    """

    memory: str
    moment: str
    held: tuple[HeldTensor, ...]
    available_bytes: int
    irreducible: tuple[str, ...]


def memory_conflict(point: PlacedPoint, request: Request) -> MemoryConflict:
    """Return the conflict in the first memory whose blocks do not fit.

    point: a point that is not feasible for the request.
    """
    expanded = ExpandedSchedule(point.schedule)
    memory, available = _exceeded(point, request)
    problem = dict(placement_problems(expanded))[memory]
    names = _shown_names(point.schedule)
    labels = _labels(expanded, problem, names)
    peak = live_peak(problem)
    live = frozenset(peak.names)
    held = _by_label([b for b in problem.buffers if b.name in live], labels)
    whole = {names[s.name]: s.size_bytes for s in point.schedule.parts.rows.storages}
    tensors = (HeldTensor(name, size, whole.get(name, size)) for name, size in held.items())
    return MemoryConflict(
        memory,
        _moment(expanded, peak.tick, names),
        tuple(sorted(tensors, key=lambda tensor: -tensor.live_bytes)),
        available,
        _irreducible(problem, held, labels, available),
    )


def _full_memory(point: PlacedPoint, request: Request) -> tuple[str, int, int] | None:
    """Return (memory, bytes used, size) of the first memory that is too small for a point."""
    sizes = request.target.sizes
    default, *others = point.used_bytes
    used = ((memory, used_bytes, sizes[memory]) for memory, used_bytes in (*others, default))
    return next((each for each in used if each[1] > each[2]), None)


def _exceeded(point: PlacedPoint, request: Request) -> tuple[str, int]:
    """Return the name of the first memory that is too small, and the bytes available in it."""
    full = _full_memory(point, request)
    if full is not None and full[0] != point.schedule.memory.default:
        return full[0], full[2]
    return point.schedule.memory.default, max(0, point.available_bytes(request))


def _labels(
    expanded: ExpandedSchedule, problem: PlacementProblem, names: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the names for messages, by buffer name: those of tensors, or "NAME (scratch)"."""
    schedule = expanded.schedule
    labels = {buffer.name: _first_name(buffer.name) for buffer in problem.buffers}
    named = zip(expanded.block_names, expanded.blocks(), strict=True)
    labels |= {name: names[block.storage] for name, block in named}
    for plan in schedule.plans:
        last = schedule.parts.parts[plan.parts[-1]]
        labels[scratch_name(schedule, plan)] = f"{names[last.name]} (scratch)"
    return labels


def _shown_names(schedule: Schedule) -> Mapping[str, str]:
    """Return the names for messages, by name of a tensor or part.

    Of names that a model file has joined with semicolons, this is the first one if it is unique.  A
    tensor that only an alternative graph contains has the name of the tensor of the network from
    which it derives, with a remark if both are named."""
    parts = schedule.parts
    every = sorted({s.name for s in parts.rows.storages} | {part.name for part in parts.parts})
    sources = _network_names(every, schedule.assigned_parts)
    firsts = {source: _first_name(source) for source in sources.values()}
    sharing_first, sharing = Counter(firsts.values()), Counter(sources.values())
    shown: dict[str, str] = {}
    for name, source in sources.items():
        short = firsts[source] if sharing_first[firsts[source]] == 1 else source
        is_other = sharing[source] > 1 and source != name
        shown[name] = f"{short} (in another form)" if is_other else short
    return shown


def _network_names(names: Iterable[str], assigned: Parts) -> Mapping[str, str]:
    """Return the names of the network's tensors from which those of an alternative derive, which
    are their own for tensors of the network."""
    if assigned.network is None:
        return {name: name for name in names}
    network = assigned.network.graph
    known = network.names()
    by_origin = {node.origin: node.name for node in network.nodes}
    nodes = {node.name: node for node in assigned.graph.nodes}

    def source(name: str) -> str:
        node = nodes.get(name)
        if name in known or node is None:
            return name
        return source(by_origin.get(node.origin, node.variable_inputs[0].name))

    return {name: source(name) for name in names}


def _first_name(name: str) -> str:
    """Return the first of several names that a model file has joined with semicolons."""
    return name.split(";")[0]


def _by_label(buffers: list[LiveBuffer], labels: Mapping[str, str]) -> dict[str, int]:
    """Return the total size of the buffers that have the same label, by label."""
    found = Counter[str]()
    for buffer in buffers:
        found[labels[buffer.name]] += buffer.size_bytes
    return found


def _irreducible(
    problem: PlacementProblem,
    held: Mapping[str, int],
    labels: Mapping[str, str],
    available_bytes: int,
) -> tuple[str, ...]:
    """Return an irreducible set of labels that do not fit together; empty if none was found.

    If the live bytes at the peak (`held`) exceed the available bytes, the set is chosen from the
    tensors live there, else from all buffers.
    """
    if sum(held.values()) > available_bytes:
        tensors = tuple(LiveBuffer(name, 0, 1, size) for name, size in held.items())
        found = conflict(PlacementProblem(tensors, available_bytes))
    elif len(problem.buffers) <= MAX_BLOCKS:
        # Without the ties the problem is a relaxation: its conflicts are conflicts with ties, too.
        untied = (replace(b, anchor=None, distance_bytes=0) for b in problem.buffers)
        found = conflict(PlacementProblem(tuple(untied), available_bytes))
    else:
        found = None
    if found is None or not (found.proven and found.irreducible):
        return ()
    names = dict.fromkeys(labels.get(name, name) for name in found.names)
    return tuple(sorted(names, key=lambda name: -held.get(name, 0)))


def _moment(expanded: ExpandedSchedule, tick: int, names: Mapping[str, str]) -> str:
    """Return what happens at a tick, as a clause for messages."""
    schedule = expanded.schedule
    for cascade in expanded.cascades:
        if cascade.tick <= tick < cascade.tick + len(cascade.calls):
            position = int(cascade.calls[tick - cascade.tick, 0])
            part = schedule.parts.parts[schedule.order[position]]
            return f'while "{names[part.name]}" runs'
    return "when the caller writes the inputs" if tick == 0 else "when the caller reads the outputs"


def flash_limit_bytes(request: Request) -> int:
    """Return the bytes of flash that a request allows."""
    memory = request.target.memory_for("constant")
    budget = memory.size_bytes if request.flash_bytes is None else request.flash_bytes
    return min(memory.size_bytes, budget)


def with_last_resort(remedies: Sequence[str]) -> tuple[str, ...]:
    """Return clauses about changes with which the constants fit, followed by the last resort."""
    if remedies:
        return (*remedies, "a network with fewer weights needs less flash")
    return ("no kernels of this core fit into that flash: choose a network with fewer weights",)


def slower_kernels(family: str, size_bytes: int) -> str:
    """Return a clause about kernels with which the constants need that much flash."""
    return f"--kernels {family} is slower and stores the constants in {size_bytes} bytes"


def part_constant_bytes(parts: Parts) -> int:
    """Return the bytes of constants and of kernel tables, without tables of rows and loop bounds,
    which depend on the schedule."""
    constants = {
        value.name: value.type.size_bytes
        for part in parts.parts
        for k, value in enumerate(part.inputs)
        if value.data is not None and k not in part.kernel.folded
    }
    tables = {(name, table) for part in parts.parts for name, table in part.kernel.every_table}
    return sum(constants.values()) + sum(table.type.size_bytes for _, table in tables)


def boards_with(
    ram_bytes: int, flash_bytes: int, target: Target, *, other_kernels: bool = False
) -> tuple[str, ...]:
    """Return the boards with that much memory whose kernels are those of `target`, those with the
    least RAM first.

    other_kernels: return boards with other kernels instead, which need other amounts of memory."""
    found: list[tuple[int, str]] = []
    for name in board_names():
        board = load_target(name)
        ram, flash = board.memory_for("arena"), board.memory_for("constant")
        is_large = ram.size_bytes >= ram_bytes and flash.size_bytes >= flash_bytes
        if (
            is_large
            and (_kernels(board) != _kernels(target)) == other_kernels
            and name != target.name
        ):
            found.append((ram.size_bytes, name))
    return tuple(name for _, name in sorted(found)[:NAMED_BOARDS])


def smaller_kernels(parts: Parts, request: Request) -> tuple[str, int] | None:
    """Return the core family whose kernels store constants as the model does, and about how many
    bytes of flash it saves; None if it saves none."""
    family = plain_c_family()
    other = replace(request, target=request.target.with_kernels(family))
    saved = part_constant_bytes(parts) - part_constant_bytes(assign_kernels(parts.graph, other))
    return (family, saved) if saved > 0 else None


def _kernels(target: Target) -> str:
    return target.engines[0].kernels
