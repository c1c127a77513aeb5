"""The error for a network that does not fit: what uses the memory, and what would make it fit."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial

from penstock.errors import CapacityError
from penstock.guides import guide
from penstock.hardware.load import board_names
from penstock.optional import attempt, attempt_each
from penstock.passes.streamed_rows import channels_first
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.flash_capacity import (
    boards_with,
    flash_limit_bytes,
    part_constant_bytes,
    slower_kernels,
    smaller_kernels,
    with_last_resort,
)
from penstock.pipeline.graphs import read_request, simplify
from penstock.pipeline.memory_conflict import HeldTensor, MemoryConflict, memory_conflict
from penstock.pipeline.placed_point import PlacedPoint
from penstock.pipeline.placing import smallest_point
from penstock.pipeline.request import Request
from penstock.scheduling.options import Options

NAMED_TENSORS = 8
"""Maximum number of tensors that the message lists, the largest first."""


def capacity_error(least: PlacedPoint, request: Request) -> CapacityError:
    """Return the error for a network whose smallest point, `least`, is not feasible.

    If its constants exceed the flash, too, the memory for which no remedy is known comes first."""
    conflict = attempt("a conflict", lambda: memory_conflict(least, request), lambda: None)
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
        f"the smallest schedule{_form(least)} needs {least.height_bytes} bytes for tensors and "
        f"{request.stack_bytes} for the stack"
    )
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
    needs = {point.schedule.memory.default: point.placement.height_bytes + request.stack_bytes}
    needs |= {name: placement.height_bytes for name, placement in point.others}
    sizes = {memory.name: memory.size_bytes for memory in request.target.memories}
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


def _form(least: PlacedPoint) -> str:
    """Return words that say that a schedule is one of an equivalent network, if it is."""
    if not least.schedule.assigned_parts.alternative:
        return ""
    return " (of an equivalent network, see --no-alternatives)"


def _planes(least: PlacedPoint) -> Iterator[str]:
    """Yield a clause about each input of which a streamed row is a whole channel."""
    for x in channels_first(least.schedule.assigned_parts.graph):
        height, width = x.type.shape[2:]
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
    """Yield a clause about the point of least RAM of another request, unless it is not smaller, or
    the board has less memory."""
    found = attempt(f"a remedy {words}", smallest, lambda: None)
    if found is None:
        return
    size = found.ram_bytes(request)
    remark = f", {note}" if note else ""
    if size >= least.ram_bytes(request):
        return
    if found.is_feasible(request):
        yield f"{words} {size} bytes are enough{remark}"
    elif _may_be_larger(size, request):
        yield f"{words} use at least {_enough(found, request)}{remark}"


def _unrestricted(request: Request) -> Iterator[tuple[str, Request]]:
    """Yield (text, request without the option) for each search option that is not the default."""
    for f in fields(Options):
        if f.name != "accumulate" and getattr(request.options, f.name) != f.default:
            options = replace(request.options, **{f.name: f.default})
            switch = f.name if f.default is not True else f"no_{f.name}"
            words = f"without --{switch.replace('_', '-')}"
            yield words, replace(request, options=options)


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
