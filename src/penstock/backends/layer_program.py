"""The program of a network before stripes: one call for each node, on whole tensors.

Every tensor has a buffer of its own; the addresses are provisional.  The passes of PROGRAM_PHASE_0
receive this program and may replace the kernels of its calls.  The compiler then gives each
composite the kernel of the call that computes it (`program_passes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.op import Kernel, row_count
from penstock.ir.tensor import DType, TensorType
from penstock.program.program import Box, Buffer, Call, Kind, Memory, Program, View
from penstock.scheduling.model.parts import storage_owners

TENSORS, CONSTANTS = "tensors", "constants"
ALIGNMENT_BYTES = 64


def all_kernels(composite: Composite) -> tuple[Kernel, ...]:
    """Return all kernels of a composite in order: preferred one, fallback, prefetching ones."""
    fallback = () if composite.fallback is None else (composite.fallback,)
    assert composite.chosen is not None
    return (composite.chosen, *fallback, *composite.prefetching)


def with_replaced_kernels(composite: Composite, found: tuple[Kernel, ...]) -> Composite:
    """Return the composite with its kernels replaced by `found`.

    found: the new kernels, in the order in which `all_kernels` returns the old ones."""
    after = 1 if composite.fallback is None else 2
    fallback = None if composite.fallback is None else found[1]
    return replace(composite, chosen=found[0], fallback=fallback, prefetching=found[after:])


def layer_program(graph: Graph, processor: str, kernel: Callable[[Composite], Kernel]) -> Program:
    """Return the program of a graph before stripes, in which each call computes a whole tensor.

    processor: the engine that runs the nodes that are not composites.
    kernel: returns the kernel that the program calls for a composite."""
    owners = storage_owners(graph)
    calls: list[Call] = []
    buffers = dict(_tensors(graph, owners))
    for node in graph.nodes:
        if node.op.ALIAS:
            continue
        call, more = _call(node, processor, kernel, owners, graph.names())
        calls.append(call)
        buffers |= {buffer.name: buffer for buffer in more}
    placed = tuple(_stacked(tuple(buffers.values())))
    ends = {memory: 0 for memory in (TENSORS, CONSTANTS)}
    for buffer in placed:
        ends[buffer.memory] = buffer.address + buffer.size_bytes
    return Program(
        graph.name,
        tuple(Memory(name, size, name == TENSORS) for name, size in ends.items()),
        placed,
        tuple(_view(value, owners) for value in graph.inputs),
        tuple(_view(value, owners) for value in graph.outputs),
        init=(),
        reset=(),
        run=tuple(calls),
    )


def _tensors(graph: Graph, owners: Mapping[str, str]) -> Iterator[tuple[str, Buffer]]:
    """Yield (name, buffer) for each constant and for each tensor that is not an alias.

    All addresses are 0; `_stacked` replaces them.

    owners: the name of the storage of each tensor, by the tensor's name."""
    read = (value for node in graph.nodes for value in (*node.inputs, node.output))
    for value in (*graph.sources, *read, *graph.results):
        if value.data is not None:
            data = Buffer(value.name, Kind.CONSTANT, CONSTANTS, 0, value.type.size_bytes)
            yield value.name, replace(data, data=value.data, type=value.type)
        elif owners[value.name] == value.name:
            yield value.name, Buffer(value.name, Kind.ARENA, TENSORS, 0, value.type.size_bytes)


def _call(
    node: Node,
    processor: str,
    kernel: Callable[[Composite], Kernel],
    owners: Mapping[str, str],
    taken: frozenset[str],
) -> tuple[Call, tuple[Buffer, ...]]:
    """Return the call that computes a node, and the buffers that only this call uses.

    These buffers hold the kernel's tables, its scratch and its prefetched constants.

    processor: the engine that runs nodes that are not composites.
    kernel: returns the kernel of a composite.
    owners: the name of the storage of each tensor, by the tensor's name.
    taken: names in use, from which the names of the new buffers differ."""
    op, shape = node.op, node.output.type.shape
    chosen = kernel(op) if isinstance(op, Composite) else op.kernel(node.site)
    inputs = tuple(_view(value, owners) for value in node.inputs)
    output = _view(node.output, owners)
    box = Box((0,) * len(shape), shape)
    engine = op.engine if isinstance(op, Composite) else processor
    call = Call(op, node.site, chosen, engine, inputs, output, box, origin=node.origin)
    if chosen.body is None:
        return call, ()
    tables = {name: free_name(f"{node.name}: {name}", taken) for name, _ in chosen.tables}
    buffers = [
        Buffer(tables[name], Kind.CONSTANT, CONSTANTS, 0, t.type.size_bytes, t.data, t.type)
        for name, t in chosen.tables
    ]
    scratch = prefetched = None
    if chosen.scratch_bytes:
        scratch = free_name(f"{node.name}/scratch", taken)
        buffers.append(Buffer(scratch, Kind.SCRATCH, TENSORS, 0, chosen.scratch_bytes))
    if chosen.prefetch is not None:
        prefetched = free_name(f"{node.name}/prefetched", taken)
        buffers.append(Buffer(prefetched, Kind.ARENA, TENSORS, 0, chosen.prefetch.size_bytes))
    rows = row_count(shape)
    body = chosen.body(inputs, output, rows, tables, scratch, prefetched)
    type = TensorType((chosen.prefetch.size_bytes,), DType.UINT8) if chosen.prefetch else None
    copied = View.whole(prefetched, type, prefetched) if prefetched and type else None
    return replace(call, body=body, scratch=scratch, prefetched=copied), tuple(buffers)


def _view(value: Value, owners: Mapping[str, str]) -> View:
    return View.whole(value.name, value.type, owners.get(value.name, value.name))


def _stacked(buffers: tuple[Buffer, ...]) -> Iterator[Buffer]:
    """Yield the buffers with provisional addresses.

    In each memory, the buffers follow one another from address 0, in the given order, without
    overlap."""
    ends = {TENSORS: 0, CONSTANTS: 0}
    for buffer in buffers:
        at = -(-ends[buffer.memory] // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        ends[buffer.memory] = at + buffer.size_bytes
        yield replace(buffer, address=at)
