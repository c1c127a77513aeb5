"""Memories of an accelerator: their validation, and their sizes, which may depend on the attributes
that the user sets for the accelerator (`NAME:attr=value`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.backends.accelerator import Value
from penstock.backends.description import backend_code, is_name
from penstock.backends.roofline import ABOVE_0, is_figure
from penstock.backends.uma.registrations import BandwidthOf, BankOf, RegisteredMemory, SizeOf
from penstock.errors import BackendError, UsageError
from penstock.hardware.size import parse_size
from penstock.hardware.target import MemoryRegion, Target


def registered_memory(
    region: MemoryRegion,
    size: int | str | SizeOf,
    bandwidth: float | BandwidthOf,
    bank_bytes: int | BankOf,
    known: Sequence[str],
    place: str,
) -> RegisteredMemory:
    """Return a memory with the given size and bandwidth; other properties come from `region`.

    size: bytes, a string such as "32KiB", or a function of the attributes.
    bandwidth: bytes per cycle, or a function of the attributes.
    bank_bytes: the size of a bank, or a function of the attributes; 0 without banks.
    known: the names of memories registered before.
    place: the location that errors report.

    Raises BackendError if a value is invalid or the name is taken."""
    if not is_name(region.name):
        why = f"its name is {region.name!r}, must be a text"
        raise _bad_memory(region.name, size, why, place)
    if region.name in known:
        raise _bad_memory(region.name, size, f'there is a memory "{region.name}"', place)
    figure = 1.0 if callable(bandwidth) else bandwidth
    region = replace(region, bandwidth_bytes_per_cycle=figure)
    region = _sized(region, 1 if callable(size) else size, place)
    region = replace(region, bank_bytes=0 if callable(bank_bytes) else bank_bytes)
    return RegisteredMemory(region, size, bandwidth, bank_bytes)


def resolved_memories(
    memories: Sequence[RegisteredMemory], attributes: Mapping[str, Value], chip: Target, place: str
) -> dict[str, MemoryRegion]:
    """Return the memories with the sizes and bandwidths that attributes determine, by name.

    Memories of size 0 are omitted.

    chip: the target to which the accelerator is attached.
    place: the location that errors report.

    Raises BackendError if the chip has a memory of the same name, or if a function of the backend
    fails or returns an invalid number."""
    found: dict[str, MemoryRegion] = {}
    for one in memories:
        memory = _resolved(one, attributes, place)
        if memory is None:
            continue
        if any(memory.name == other.name for other in chip.memories):
            why = f"{chip.name} has a memory of that name"
            raise _bad_memory(memory.name, memory.size_bytes, why, place)
        found[memory.name] = memory
    return found


def _resolved(
    registered: RegisteredMemory, attributes: Mapping[str, Value], place: str
) -> MemoryRegion | None:
    """Return a memory with the size, bandwidth and bank size that the attributes determine.

    Returns None if the size is 0."""
    size, bandwidth = registered.size, registered.bandwidth_bytes_per_cycle
    where = f'{place}, memory "{registered.region.name}"'
    if callable(size):
        with backend_code("function size", where):
            size = size(attributes)
    if callable(bandwidth):
        with backend_code("function bandwidth_bytes_per_cycle", where):
            bandwidth = bandwidth(attributes)
    bank_bytes = registered.bank_bytes
    if callable(bank_bytes):
        with backend_code("function bank_bytes", where):
            bank_bytes = bank_bytes(attributes)
    if size == 0:
        return None
    region = replace(registered.region, bandwidth_bytes_per_cycle=bandwidth, bank_bytes=bank_bytes)
    return _sized(region, size, place)


def _sized(memory: MemoryRegion, size: int | str, place: str) -> MemoryRegion:
    """Return a copy of `memory` with another size.

    size: a number of bytes, or a string such as "32KiB".
    place: the location that the error reports.

    Raises BackendError if the size, or the bandwidth or latency of `memory`, is invalid."""
    try:
        size_bytes = parse_size(size) if isinstance(size, str) else size
    except UsageError:
        size_bytes = 0
    memory = replace(memory, size_bytes=size_bytes)
    if problem := _problem(memory):
        raise _bad_memory(memory.name, size, problem, place)
    return memory


def _problem(memory: MemoryRegion) -> str:
    """Return why the size, bandwidth or latency of a memory is invalid; "" if all are valid."""
    if type(memory.size_bytes) is not int or memory.size_bytes < 1:
        return "its size must be a positive number of bytes"
    if not is_figure(memory.bandwidth_bytes_per_cycle, ABOVE_0):
        return "its bandwidth must be a positive number of bytes per cycle"
    if type(memory.bank_bytes) is not int or not 0 <= memory.bank_bytes <= memory.size_bytes:
        return f"its banks have {memory.bank_bytes!r} bytes, must be at most the memory's size"
    return "" if is_figure(memory.latency_cycles, 0) else "its latency is no number of cycles"


def _bad_memory(name: object, size: object, problem: str, place: str) -> BackendError:
    return BackendError(
        "backend-039",
        f"invalid memory of size {size!r}",
        where=f'{place}, memory "{name}"',
        why=problem,
        help='sizes are in bytes or as "32KiB", bandwidths in bytes per cycle',
    )
