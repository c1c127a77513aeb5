"""Law: the machine catches what is wrong with a program's memory; numbers never change silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.small_tensors import int8
from cascades import total_of_stream
from lowered import Lowered, inputs_of_graph, lower
from penstock.errors import InternalError
from penstock.ir.graph import Graph, Value
from penstock.ir.op import Kernel
from penstock.ir.tensor import Data
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.row_vectors import Softmax
from penstock.program.program import Buffer, Call, Command, Kind, Loop, Program, Pull, View
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from programs import (
    EXAMPLES,
    SAME,
    Example,
    cascade,
    one_convolution,
    ring_layout,
    streamed,
    table_layout,
    two_convolutions,
)
from strategies import graphs, node_of, seeds


def with_buffer(program: Program, name: str, **changes: int) -> Program:
    """The program with another address or size of one buffer, in memories that are large enough."""
    buffers = tuple(replace(b, **changes) if b.name == name else b for b in program.buffers)
    ends = {b.memory: 0 for b in buffers}
    for b in buffers:
        ends[b.memory] = max(ends[b.memory], b.address + b.size_bytes)
    memories = tuple(
        replace(m, size_bytes=max(m.size_bytes, ends.get(m.name, 0))) for m in program.memories
    )
    return replace(program, buffers=buffers, memories=memories)


def caught(graph: Graph, program: Program, seed: int = 1) -> str:
    """The code of the error that running the program raises; "" where it computes the graph.

    Fails where it computes something else."""
    inputs = inputs_of_graph(graph, seed)
    expected = run_graph(graph, inputs)
    try:
        outputs = Machine(program).run(inputs)
    except InternalError as error:
        return error.code
    for value in graph.outputs:
        np.testing.assert_array_equal(outputs[value.name], expected[value.name])
    return ""


def living_pairs(lowered: Lowered) -> list[tuple[str, str]]:
    """Pairs of buffers that hold something at the same time, and may not share memory in place."""
    alive = living(lowered)
    return [
        (a, b)
        for a, (lower, upper) in alive.items()
        for b, (other_lower, other_upper) in alive.items()
        if lower < other_upper
        and other_lower < upper
        and not {(a, b), (b, a)} & (in_place_pairs(lowered.program))
        and a != b
    ]


def living(lowered: Lowered) -> dict[str, tuple[int, int]]:
    """By name of a buffer, the ticks in which any of its rows lives."""
    rows, lives = lowered.schedule.parts.rows, ExpandedSchedule(lowered.schedule).live_ranges
    found: dict[str, tuple[int, int]] = {}
    for s, storage in enumerate(rows.storages):
        mine = slice(lives.starts[s], lives.starts[s + 1])
        found[storage.name] = (int(lives.born[mine].min()), int(lives.dead[mine].max()))
    return found


def in_place_pairs(program: Program) -> set[tuple[str, str]]:
    """(input, output) buffers of steps that may write the one over the other."""
    return {
        (call.inputs[k].buffer, call.output.buffer)
        for call in program.run
        if isinstance(call, Call)
        for k in call.op.in_place(call.site)
    }


@given(graph=graphs(), data=st.data(), seed=seeds)
def test_a_buffer_at_the_address_of_a_living_one_is_caught(
    graph: Graph, data: st.DataObject, seed: int
) -> None:
    lowered = lower(graph)
    pairs = living_pairs(lowered)
    assume(pairs)
    moved, other = data.draw(st.sampled_from(pairs))
    address = lowered.program.buffer(other).address
    wrong = with_buffer(lowered.program, moved, address=address)
    assert caught(graph, wrong, seed) in ("machine-002", "machine-007")


@given(graph=graphs(), data=st.data(), seed=seeds)
def test_a_buffer_that_overlaps_another_is_caught_or_does_no_harm(
    graph: Graph, data: st.DataObject, seed: int
) -> None:
    program = lower(graph).program
    names = [b.name for b in program.buffers if b.kind is not Kind.CONSTANT]
    moved = program.buffer(data.draw(st.sampled_from(names)))
    other = program.buffer(data.draw(st.sampled_from(names)))
    shift = data.draw(st.integers(1 - moved.size_bytes, other.size_bytes - 1))
    wrong = with_buffer(program, moved.name, address=max(0, other.address + shift))
    assert caught(graph, wrong, seed) in ("", "machine-002", "machine-007")


@given(graph=graphs(), data=st.data())
def test_a_buffer_that_is_too_small_is_caught(graph: Graph, data: st.DataObject) -> None:
    program = lower(graph).program
    buffer = data.draw(st.sampled_from(program.buffers))
    size = data.draw(st.integers(0, buffer.size_bytes - 1))
    code = "machine-001" if buffer.kind is Kind.CONSTANT else "machine-005"
    assert caught(graph, with_buffer(program, buffer.name, size_bytes=size)) == code


@given(graph=graphs(), data=st.data())
def test_a_memory_that_is_too_small_is_caught(graph: Graph, data: st.DataObject) -> None:
    program = lower(graph).program
    index = data.draw(st.sampled_from([k for k, m in enumerate(program.memories) if m.size_bytes]))
    memories = list(program.memories)
    memories[index] = replace(memories[index], size_bytes=memories[index].size_bytes - 1)
    assert caught(graph, replace(program, memories=tuple(memories))) == "machine-001"


@given(graph=graphs(), data=st.data())
def test_a_missing_step_is_detected(graph: Graph, data: st.DataObject) -> None:
    program = lower(graph).program
    assume(program.run)
    gone = data.draw(st.integers(0, len(program.run) - 1))
    run = (*program.run[:gone], *program.run[gone + 1 :])
    assert caught(graph, replace(program, run=run)) == "machine-002"


@given(graph=graphs(), data=st.data())
def test_steps_in_a_wrong_order_are_caught(graph: Graph, data: st.DataObject) -> None:
    program = lower(graph).program
    order = data.draw(st.permutations(range(len(program.run))))
    run = tuple(program.run[k] for k in order)
    made = [call.output.buffer for call in run if isinstance(call, Call)]
    early = any(
        view.buffer in made[step:]
        for step, call in enumerate(run)
        if isinstance(call, Call)
        for view in call.inputs
    )
    assume(early)
    assert caught(graph, replace(program, run=run)) == "machine-002"


@given(graph=graphs(), data=st.data())
def test_a_read_of_freed_memory_is_caught(graph: Graph, data: st.DataObject) -> None:
    """An output is read from a buffer that died when its last reader had run."""
    program = lower(graph).program
    kept = {view.buffer for view in program.outputs}
    calls = [command for command in program.run if isinstance(command, Call)]
    dying = [v for c in calls for v in c.inputs if v.buffer not in kept and is_variable(program, v)]
    assume(dying)
    dead = data.draw(st.sampled_from(dying))
    ghost = replace(program.buffer(dead.buffer), name="ghost")
    view = replace(dead, buffer="ghost")
    wrong = replace(program, buffers=(*program.buffers, ghost), outputs=(view,))
    assert caught(graph, wrong) == "machine-002"


def is_variable(program: Program, view: View) -> bool:
    return program.buffer(view.buffer).data is None


def test_a_read_before_anything_was_written_is_caught() -> None:
    graph = one_convolution(3)
    program = streamed(graph)
    assert caught(graph, replace(program, run=())) == "machine-002"


def test_a_written_constant_is_caught() -> None:
    graph = two_convolutions(2, SAME, SAME)
    program = lower(graph).program
    first, second = program.run
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    onto = replace(first.output, buffer=second.inputs[1].buffer)
    assert caught(graph, replace(program, run=(replace(first, output=onto),))) == "machine-003"


@pytest.mark.parametrize(("shift", "code"), [(0, ""), (1, "machine-007"), (-1, "machine-007")])
def test_in_place_is_element_for_element(shift: int, code: str) -> None:
    x, z = Value("x", int8(1, 8)), Value("z", int8(1, 8))
    node = node_of("y", Add(), (x, z))
    graph = Graph("sum", (x, z), (node.output,), (node,))
    program = lower(graph).program
    for name, address in (("x", 8), ("z", 24), ("y", 8 + shift)):
        program = with_buffer(program, name, address=address)
    assert caught(graph, program) == code


SCRATCH_BYTES = 8


def with_scratch(address: int) -> tuple[Graph, Program]:
    """A softmax of eight elements in [0, 8) and its output in [8, 16), with scratch at an address,
    while [16, 24) waits to be handed out."""
    x, z = Value("x", int8(1, 8)), Value("z", int8(1, 8))
    node = node_of("y", Softmax(), (x,))
    graph = Graph("scratched", (x, z), (node.output, z), (node,))
    program = lower(graph).program
    (call,) = program.run
    assert isinstance(call, Call)
    kernel = Kernel("softmax_s8", scratch_bytes=SCRATCH_BYTES)
    scratch = Buffer("s", Kind.SCRATCH, program.memories[0].name, address, SCRATCH_BYTES)
    for at, name in enumerate(("x", "y", "z")):
        program = with_buffer(program, name, address=8 * at)
    program = replace(program, run=(replace(call, kernel=kernel, scratch="s"),))
    memory = replace(program.memories[0], size_bytes=64)
    memories = (memory, *program.memories[1:])
    return graph, replace(program, memories=memories, buffers=(*program.buffers, scratch))


@pytest.mark.parametrize(
    ("address", "code"),
    [(0, "machine-007"), (7, "machine-007"), (15, "machine-007"), (20, "machine-002"), (24, "")],
)
def test_scratch_over_anything_that_lives_is_caught(address: int, code: str) -> None:
    assert caught(*with_scratch(address)) == code


WINDOWS = (SAME, Window(3, 2, 1, 1, 1), Window(3, 1, 2, 2, 2), Window(2))


@pytest.mark.parametrize("second", WINDOWS, ids=str)
def test_a_ring_that_is_one_row_too_small_is_caught(second: Window) -> None:
    graph = two_convolutions(8, SAME, second)
    assert caught(graph, cascade(graph, ring_layout(graph, second.extent))) == ""
    assert caught(graph, cascade(graph, ring_layout(graph, second.extent - 1))) == "machine-002"


def test_a_row_table_with_one_slot_too_few_is_caught() -> None:
    graph = two_convolutions(7, SAME, SAME)
    assert caught(graph, cascade(graph, table_layout(graph, 3))) == ""
    assert caught(graph, cascade(graph, table_layout(graph, 2))) == "machine-002"


def test_an_output_row_over_an_input_row_that_is_still_read_is_caught() -> None:
    graph = two_convolutions(7, SAME, SAME)
    assert caught(graph, cascade(graph, table_layout(graph, 3, ahead=1))) == "machine-002"


def edited(
    commands: tuple[Command, ...], edit: Callable[[Command], Command | None]
) -> Iterator[tuple[Command, ...]]:
    """The commands with one of them edited, or left out for None; every one in turn."""
    for k, command in enumerate(commands):
        before, after = commands[:k], commands[k + 1 :]
        if isinstance(command, Loop):
            for body in edited(command.body, edit):
                yield (*before, replace(command, body=body), *after)
        elif (other := edit(command)) is not command:
            yield (*before, *([other] if other is not None else []), *after)


PULLING = [example for example in EXAMPLES if example.name.startswith("pulls")]


@pytest.mark.parametrize("example", PULLING, ids=lambda example: example.name)
def test_a_missing_pull_is_detected(example: Example) -> None:
    (run,) = edited(example.program.run, lambda c: None if isinstance(c, Pull) else c)
    assert caught(example.graph, replace(example.program, run=run)) == "machine-002"


def test_rows_that_a_view_does_not_have_are_caught() -> None:
    graph = one_convolution(3)
    program = lower(graph).program
    (call,) = program.run
    assert isinstance(call, Call)
    fewer = replace(call.inputs[0], upper=2)
    run = (replace(call, inputs=(fewer, *call.inputs[1:])),)
    assert caught(graph, replace(program, run=run)) == "machine-004"


def test_an_unsupported_kernel_call_is_detected() -> None:
    """Rows and rings are the work of kernels by rows."""
    graph = two_convolutions(4, SAME, SAME)
    program = cascade(graph, ring_layout(graph, 3))

    def other(command: Command) -> Command:
        if not isinstance(command, Call):
            return command
        return replace(command, kernel=replace(command.kernel, by_rows=False))

    for run in edited(program.run, other):
        assert caught(graph, replace(program, run=run)) == "machine-009"


def test_a_total_that_does_not_go_on_from_the_row_before_is_caught() -> None:
    example = total_of_stream(5)
    loop, finish = example.program.run
    assert isinstance(loop, Loop)
    pull, add = loop.body
    late = replace(loop, lower=1)
    turned = replace(loop, upper=3), replace(loop, lower=4), replace(loop, lower=3, upper=4)
    twice = replace(loop, body=(pull, add, add))
    for loops in ((late,), turned, (twice,)):
        program = replace(example.program, run=(*loops, finish))
        assert caught(example.graph, program) == "machine-002"


def test_a_total_over_which_something_is_written_is_caught() -> None:
    example = total_of_stream(5)
    over = with_buffer(example.program, "x", address=64)
    buffers = tuple(replace(b, memory="near") if b.name == "x" else b for b in over.buffers)
    assert caught(example.graph, replace(over, buffers=buffers)) in ("machine-002", "machine-007")


def test_data_of_another_size_than_its_buffer_is_caught() -> None:
    graph = one_convolution(3)
    program = lower(graph).program
    buffers = tuple(
        replace(b, data=Data(b"\0")) if b.kind is Kind.CONSTANT else b for b in program.buffers
    )
    assert caught(graph, replace(program, buffers=buffers)) == "machine-001"
