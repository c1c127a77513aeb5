"""ethos_u: faults put into streams and programs of our own are caught.

A wait that is taken out.  It was needed if what it waits for, done later than what follows it,
leaves other bytes: judged by running the operations in that order, one after the other.

A ring that is one row too small, of a tensor between layers.  How many rows it needs is counted
from the order of calls, by hand.  Once the machine looks whose bytes are read; once nobody looks,
and the answers must be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

from ethos_u_layers import BLOCKDEP, DMA_WAIT, KERNEL_WAIT, commands
from lowered import inputs_of_graph
from offloading import compiled
from penstock.backends.accelerator import Accelerator
from penstock.backends.program_passes import after_placement
from penstock.errors import BackendError, InternalError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array, Quantisation, Region, row_axis, row_count, rows_region
from penstock.ops.concatenation import Concatenation
from penstock.ops.sums import Mean
from penstock.ops.transpose_conv import Spread, TransposeConv
from penstock.ops.unary import Logistic
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placing import PlacedPoint
from penstock.program import lower as lowering
from penstock.program.program import (
    END,
    FIRST,
    Call,
    Command,
    Invoke,
    Loop,
    Program,
    Rows,
)
from penstock.program.steps import computed_rows, iterations
from penstock.program.writer import Addresses, Laid
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Devices, Machine
from penstock.simulators.memories import ConcreteOperand, Memories
from penstock_ethos_u.interpreter import disassemble, driver_payload, execute
from penstock_ethos_u.programs import submit
from penstock_ethos_u.vela import payload_configuration

STOP, DMA_START = 0x000, 0x010
OUTPUT = ((0x111, 0x115), (0x112, 0x116), (0x113, 0x117))
"""Registers of the output's and a block's width, height and depth, less one."""
WIDTH, HEIGHT = 0, 1
KERNELS = (0x002, 0x003, 0x005, 0x006)
"""Convolutions, depthwise ones, pools, element-wise operations."""
ALIGNMENT_BYTES = 16
HAZARD = "ethosu-110"
"""The code of what is not waited for."""
DEEPEST = 3
"""The highest BLOCKDEP of Ethos-U55 and U65; that of Ethos-U85 is 7."""
POINTS = 4
"""So many points of a frontier, from the one of least memory, have other rings."""


def chain(*layers: str, channels: int = 32, rows: int = 24, columns: int = 8) -> Graph:
    """An image through layers, each "conv", "pool", "depthwise", "table" or "sum" (with the layer
    before the last one) and the size of its window."""
    net = GraphBuilder("chain")
    x = net.conv2d(net.input((1, rows, columns, 2)), channels, 3, name="first")
    before = x
    for k, layer in enumerate(layers):
        kind, _, size = layer.partition(" ")
        x, before = _layer(net, kind, int(size or 1), x, before, f"{kind}{k}"), x
    return net.build(net.conv2d(x, 2, 3, stride=2, name="last"))


def _layer(net: GraphBuilder, kind: str, size: int, x: Value, before: Value, name: str) -> Value:
    match kind:
        case "conv":
            return net.conv2d(x, x.type.shape[3], size, name=name)
        case "pool":
            return net.max_pool2d(x, size, 1, name=name)
        case "depthwise":
            return net.depthwise_conv2d(x, (size, 3), name=name)
        case "table":
            quantisation = Quantisation((1 / 256,), (-128,))
            return net.apply(Logistic(), x, quantisation=quantisation, name=name)
        case _:
            return net.add(x, before, name=name)


def put_together() -> Graph:
    """Tensors one behind the other along channels, then a transposed convolution with a window of
    nine rows, and a mean of it."""
    net = GraphBuilder("together")
    x = net.conv2d(net.input((1, 16, 6, 2)), 16, 3, name="first")
    alike = x.type.quantisation
    parts = [net.conv2d(x, 16, 1, quantisation=alike, name="part"), x]
    x = net.apply(Concatenation(3), *parts, quantisation=alike, name="together")
    rng = np.random.default_rng(0)
    drawn = rng.integers(-127, 128, (16, 9, 3, 32)).astype(np.int8)
    weights = net.constant(drawn, Quantisation((0.01,), (0,)), "weights")
    scale = Quantisation((x.type.scale * 0.01,), (0,))
    bias = net.constant(np.zeros(16, np.int32), scale, "bias")
    spread = TransposeConv(Spread(32, 9, 2, 4), Spread(12, 3, 2, 1))
    x = net.apply(spread, x, weights, bias, name="spread")
    mean = net.apply(Mean((1, 2)), x, name="mean")
    x = net.conv2d(net.conv2d(x, 16, 5, name="tall"), 8, 3, stride=2, name="last")
    return net.build(x, net.conv2d(mean, 16, 1, name="of mean"))


def scattered_rows() -> Graph:
    """Layers whose rows are scattered, and gathered in scratch, where memory is scarce."""
    net = GraphBuilder("net", seed=1)
    x = net.input((1, 14, 7, 4))
    for channels, height in ((32, 4), (4, 5)):
        x = net.conv2d(x, channels, (height, 3))
    return net.build(net.depthwise_conv2d(x, (5, 3)))


NETWORKS: Mapping[str, Graph] = {
    "convolutions": chain("conv 3"),
    "tall windows": chain("conv 5"),
    "scattered rows": scattered_rows(),
    "copied weights": chain("conv 7", channels=64, rows=12, columns=24),
    "pools": chain("pool 3", "depthwise 5", channels=20),
    "a residual": chain("conv 3", "conv 3", "sum", channels=16, rows=20),
    "a table": chain("table", "conv 3", channels=16),
    "put together": put_together(),
}


@dataclass(frozen=True, slots=True)
class Submission:
    """A stream, and the bytes of its regions before it runs."""

    words: tuple[int, ...]
    accelerator: str
    regions: Mapping[int, Array]

    def after(self, words: Sequence[int]) -> bytes:
        """All regions, after other words have run.  Raises BackendError."""
        regions = {k: region.copy() for k, region in self.regions.items()}
        execute(bytes_of(words), regions, self.accelerator, waited=True)
        return b"".join(region.tobytes() for region in regions.values())

    def refused(self, words: Sequence[int]) -> bool:
        """Whether words are refused since they do not wait."""
        try:
            self.after(words)
        except BackendError as error:
            return error.code == HAZARD
        return False


def bytes_of(words: Sequence[int]) -> bytes:
    return np.array(words, "<u4").tobytes()


def apart(done: Compilation) -> tuple[Accelerator, ...]:
    """The accelerators, with a stream for each call."""
    return tuple(a.with_separate_calls for a in done.request.accelerators)


def submissions(program: Program, inputs: Mapping[str, Array]) -> list[Submission]:
    """What a program hands to the NPU, each stream once."""
    found: dict[tuple[int, ...], Submission] = {}

    def heard(device: object, payload: Array, size: int, *regions: Array | int) -> None:
        raw = payload[:size].tobytes()
        words = tuple(np.frombuffer(driver_payload(raw), "<u4").tolist())
        kept = {k: one.copy() for k, one in enumerate(regions[::2]) if not isinstance(one, int)}
        found.setdefault(words, Submission(words, payload_configuration(raw), kept))
        submit(device, payload, size, *regions)

    def listening(command: Command) -> Command:
        if isinstance(command, Loop | Call):
            return replace(command, body=tuple(map(listening, command.body)))
        assert isinstance(command, Invoke)
        return replace(command, driver=replace(command.driver, model=heard))

    answers(replace(program, run=tuple(map(listening, program.run))), inputs)
    return list(found.values())


Operation = tuple[dict[int, list[int]], list[int]]
"""The registers as they are then, by code, and the command that begins it."""


def operations(words: Sequence[int]) -> tuple[list[Operation], list[tuple[int, int, int]]]:
    """The operations of a stream; and of every wait its place among the commands, its code, and how
    many operations stand before it."""
    registers: dict[int, list[int]] = {}
    found, waits = list[Operation](), list[tuple[int, int, int]]()
    for place, command in enumerate(commands(list(words))):
        code = command[0] & 0xFFFF
        if code in (*KERNELS, DMA_START):
            found.append((dict(registers), command))
        elif code in (DMA_WAIT, KERNEL_WAIT):
            waits.append((place, code, len(found)))
        elif code != STOP:
            registers[code] = command
    return found, waits


def one_by_one(every: Sequence[Operation]) -> list[int]:
    """A stream in which every operation sets all its registers and waits for all before it."""
    found: list[int] = []
    for registers, operation in every:
        for command in (*registers.values(), [BLOCKDEP], [DMA_WAIT], [KERNEL_WAIT], operation):
            found += command
    return [*found, DMA_WAIT, KERNEL_WAIT, 0xFFFF << 16 | STOP]


def left(submission: Submission, every: Sequence[Operation]) -> bytes | None:
    """All regions after operations, one by one; None where one reads what are no weights."""
    try:
        return submission.after(one_by_one(every))
    except BackendError as error:
        if error.code == HAZARD:
            raise
        return None


def is_copy(operation: Operation) -> bool:
    return operation[1][0] & 0xFFFF == DMA_START


def block_counts(operation: Operation) -> tuple[int, ...]:
    """Blocks along width, height and depth of the output."""
    registers = operation[0]
    sides = (((registers[code][0] >> 16) + 1 for code in pair) for pair in OUTPUT)
    return tuple(-(-extent // block) for extent, block in sides)


def up_to(operation: Operation, side: int, blocks: int) -> Operation:
    """An operation with no more than so many blocks along a side of its output."""
    registers, command = operation
    extent, block = (registers[code][0] >> 16 for code in OUTPUT[side])
    least = min(extent, blocks * (block + 1) - 1)
    return {**registers, OUTPUT[side][0]: [OUTPUT[side][0] | least << 16]}, command


def without_waits(submission: Submission) -> Iterator[tuple[str, bool, bool]]:
    """Of every wait: what it is, whether it is needed, and whether the stream without is refused.

    What a wait for copies waits for is the last copy before it, and what follows is the next other
    operation; a wait for other operations, the other way round.  What follows one at the end are
    calls to come: it is needed if other bytes are left without the last copy, unless that has been
    waited for before."""
    every, waits = operations(submission.words)
    if not waits:
        return
    right = submission.after(submission.words)
    assert left(submission, every) == right
    listed = commands(list(submission.words))
    for place, code, count in waits:
        copies = code == DMA_WAIT
        before = [k for k in range(count) if is_copy(every[k]) == copies]
        behind = [k for k in range(count, len(every)) if is_copy(every[k]) != copies]
        earlier = before[-1 - (listed[place][0] >> 16)]
        changed = [*every[:earlier], *every[earlier + 1 :]]
        if behind:
            changed.insert(behind[0], every[earlier])
        known = any(
            listed[other] == [DMA_WAIT] and other < place and so_far > earlier
            for other, _, so_far in waits
        )
        needed = not known and left(submission, changed) != right
        words = [word for k, c in enumerate(listed) for word in c if k != place]
        kind = "copy" if copies else "blocks"
        yield kind if behind else "end", needed, submission.refused(words)


def with_raised_depths(submission: Submission) -> Iterator[tuple[str, bool, bool]]:
    """The same of every BLOCKDEP below the highest, which is raised to that, for one operation.

    Its first blocks then begin when the last ones of the operation before are not done.  Blocks
    are done channels first, then columns, then rows: where one column of them is no more than that,
    the last columns are not done.  So it is needed if the first blocks, all channels of them, leave
    other bytes where they are computed when the other operation has gone no further.  Operations of
    several rows of blocks, or of more channels, are not judged: none of ours is waited for so."""
    every, _ = operations(submission.words)
    listed = commands(list(submission.words))
    starts = [k for k, c in enumerate(listed) if c[0] & 0xFFFF in (*KERNELS, DMA_START)]
    for k, (one, two) in enumerate(pairwise(every)):
        if is_copy(one) or is_copy(two) or two[0][BLOCKDEP][0] >> 16 >= DEEPEST:
            continue
        columns, rows, channels = block_counts(one)
        if rows > 1 or channels > DEEPEST:
            continue
        done = columns - DEEPEST // channels
        begun = [up_to(one, WIDTH, done)] if done > 0 else []
        first = up_to(up_to(two, WIDTH, 1), HEIGHT, 1)
        early, late = [*every[:k], *begun, first, one], [*every[:k], one, first]
        raised = [[BLOCKDEP | DEEPEST << 16], listed[starts[k + 1]], two[0][BLOCKDEP]]
        changed = [*listed[: starts[k + 1]], *raised, *listed[starts[k + 1] + 1 :]]
        words = [word for c in changed for word in c]
        needed = left(submission, early) != left(submission, late)
        yield "depth", needed, submission.refused(words)


def striped(program: Program) -> Iterator[tuple[str, int]]:
    """Tensors between layers that are never whole there, and how many rows of each are needed."""
    outputs = {view.tensor for view in program.outputs}
    for view in {call.output.tensor: call.output for call, _ in calls(program)}.values():
        rows = rows_needed(program, view.tensor)
        if view.tensor not in outputs and 1 < rows < row_count(view.type.shape):
            yield view.tensor, rows


def calls(program: Program) -> Iterator[tuple[Call, Region]]:
    """Every call, with the region that it computes."""
    return _calls(program.run, {}, {})


def _calls(
    commands: Sequence[Command], variables: Mapping[str, int], counters: dict[str, int]
) -> Iterator[tuple[Call, Region]]:
    for command in commands:
        if isinstance(command, Loop):
            for inside in iterations(command, variables, counters):
                yield from _calls(command.body, inside, counters)
        else:
            assert isinstance(command, Call)
            out = rows_region(command.output.type.shape, *computed_rows(command, variables))
            if not out.empty:
                yield command, out


def rows_needed(program: Program, tensor: str) -> int:
    """The most rows from one that is still to be read up to the last one that is there."""
    written: list[int] = []
    read: list[int | None] = []
    for call, out in calls(program):
        axis = row_axis(len(out.upper))
        written.append(out.upper[axis] if call.output.tensor == tensor else 0)
        needs = zip(call.inputs, call.op.needs(call.site, out), strict=True)
        firsts = [need.lower[axis] for view, need in needs if view.tensor == tensor]
        read.append(min(firsts, default=None))
    most = 0
    for k, end in enumerate(written):
        later = [first for first in read[k + 1 :] if first is not None]
        if end and later:
            most = max(most, end - min(later))
    return most


def with_ring(done: Compilation, point: PlacedPoint, tensor: str, rows: int) -> Program:
    """The program of a point with a tensor in a ring of its own, of so many rows, behind all that
    the point has laid; all else as it was."""
    home, addresses = point.schedule.memory.default, point.addresses
    top = -(-dict(addresses.heights)[home] // ALIGNMENT_BYTES) * ALIGNMENT_BYTES

    def laid(expanded: ExpandedSchedule, addresses: Addresses) -> Mapping[str, Laid]:
        found = laid_as_planned(expanded, addresses)
        storage = found[tensor].storage
        ring = Rows(storage.row_bytes, rows)
        return {**found, tensor: Laid(storage, top, rows * ring.pitch, ring)}

    laid_as_planned = lowering.laid_storages
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "laid_storages", laid)
        program = lowering.lower(ExpandedSchedule(point.schedule), addresses)
    size = next(b.size_bytes for b in program.buffers if b.name == tensor)
    memories = tuple(
        replace(m, size_bytes=top + size) if m.name == home else m for m in program.memories
    )
    return after_placement(replace(program, memories=memories), apart(done))


def answers(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What comes out where nobody looks whose bytes are read."""
    memories = Memories(program)
    devices = Devices(memories)
    for view in program.inputs:
        memories.write(ConcreteOperand.whole(view), inputs[view.tensor])
    for call, out in calls(program):
        if call.scratch is not None:
            memories.take(memories.buffers[call.scratch])  # what lay there before is no help
        first, end = ConcreteOperand(call.output, out).rows
        for invoke in call.body:
            assert isinstance(invoke, Invoke)
            devices.invoke(invoke, {FIRST.name: first, END.name: end})
    found: dict[str, Array] = {}
    for view in program.outputs:
        raw = memories.bytes_from(view.buffer, 0)[: view.type.size_bytes]
        found[view.tensor] = raw.view(view.type.dtype.value).reshape(view.type.shape)
    return found


@pytest.mark.parametrize(
    ("network", "accelerator", "least"),
    [
        ("scattered rows", "ethos_u55:macs=128,memory_mode=sram_only", {"depth": 8}),
        ("copied weights", "ethos_u55:macs=64", {"copy": 6, "blocks": 8}),
        ("pools", "ethos_u65_256", {"copy": 5, "end": 8}),
        ("a residual", "ethos_u65_256", {"copy": 1, "end": 5}),
        ("a table", "ethos_u65:memory_mode=dedicated_sram", {"copy": 20}),
        ("put together", "ethos_u65_256", {"end": 10}),
        ("a residual", "ethos_u85:macs=256", {"copy": 4, "end": 2}),
        ("a table", "ethos_u85:macs=512,memory_mode=dedicated_sram", {"copy": 20}),
    ],
)
def test_a_wait_that_is_needed_and_removed_is_caught(
    network: str, accelerator: str, least: Mapping[str, int]
) -> None:
    """`least`: so many waits of each kind are needed, or more.

    Our streams have waits for copies of tables and of constants that are copied in segments, and,
    at the end, of what is fetched for calls to come; waits for blocks where a third segment is
    copied to where the first one was, which pays where constants are in flash; BLOCKDEPs where the
    rows of a window are copied together (of convolutions, depthwise and transposed ones).  Where
    all lies in SRAM nothing is fetched or copied but tables."""
    done = compiled(NETWORKS[network], accelerator)
    inputs = inputs_of_graph(done.graph, 3)
    every: dict[tuple[int, ...], Submission] = {}
    for point in done.points:
        program = lower_point(point, apart(done))
        every |= {s.words: s for s in submissions(program, inputs)}
    counts = Counter[str]()
    for submission in every.values():
        judged = [*without_waits(submission), *with_raised_depths(submission)]
        for kind, needed, refused in judged:
            assert refused or not needed, (kind, disassemble(bytes_of(submission.words)))
            counts[kind] += needed
    assert all(counts[kind] >= count for kind, count in least.items()), counts


@pytest.mark.parametrize(
    ("network", "accelerator", "least"),
    [
        ("convolutions", "ethos_u55:macs=128", 4),
        ("tall windows", "ethos_u55:macs=128,memory_mode=sram_only", 4),
        ("copied weights", "ethos_u65_256", 2),
        ("pools", "ethos_u65_256", 4),
        ("a residual", "ethos_u65:memory_mode=dedicated_sram", 4),
        ("a table", "ethos_u55:macs=128", 4),
        ("a residual", "ethos_u85:macs=128", 4),
    ],
)
def test_a_ring_one_row_too_small_is_caught(network: str, accelerator: str, least: int) -> None:
    done = compiled(NETWORKS[network], accelerator)
    inputs = inputs_of_graph(done.graph, 3)
    expected = run_graph(done.graph, inputs)
    tried: set[tuple[str, int]] = set()
    for point in done.points[:POINTS]:
        program = lowering.lower(ExpandedSchedule(point.schedule), point.addresses)
        for tensor, rows in striped(program):
            if (tensor, rows) in tried:
                continue
            tried.add((tensor, rows))
            enough, small = (with_ring(done, point, tensor, n) for n in (rows, rows - 1))
            assert same(Machine(enough).run(inputs), expected)
            assert same(answers(enough, inputs), expected)
            with pytest.raises(InternalError, match="is read where it is not"):
                Machine(small).run(inputs)
            assert not same(answers(small, inputs), expected), (tensor, rows)
    assert len({tensor for tensor, _ in tried}) >= 2
    assert len(tried) >= least


def same(found: Mapping[str, Array], expected: Mapping[str, Array]) -> bool:
    return all(np.array_equal(array, expected[name]) for name, array in found.items())
