"""Steps, streams, live ranges and tables of handwritten programs."""

from __future__ import annotations

from dataclasses import replace

from by_hand import compilation_of
from cascades import EVERY_PROGRAM
from penstock.program.expr import TableEntry, Var
from penstock.program.program import Program
from penstock.program.steps import (
    bound_tables,
    calls,
    entry_bytes,
    lives,
    row_tables,
    steps,
    streams,
    table_bytes,
)
from penstock.reports.making import ram_usage


def program_named(name: str) -> Program:
    return next(e.program for e in EVERY_PROGRAM if e.name == name)


def test_a_step_that_two_loops_call_is_one() -> None:
    program = program_named("one cascade in two loops")
    assert [call.output.tensor for call in calls(program)] == ["mid", "y", "mid", "y"]
    assert [(s.output.tensor, k) for s, k in steps(program).items()] == [("mid", 0), ("y", 1)]


def test_an_offset_that_varies_becomes_a_variable() -> None:
    program = program_named("places by offset")
    (call,), (step,) = calls(program), steps(program)
    assert isinstance(call.inputs[0].offset, TableEntry)
    assert [view.offset for view in step.inputs] == [Var("offset_0"), 0, 0]


def test_streams_are_in_the_order_of_their_first_pull() -> None:
    assert [view.tensor for view in streams(program_named("two streams"))] == ["a", "b"]
    assert streams(program_named("three deep")) == ()


def test_buffers_of_a_loop_are_live_during_all_its_steps() -> None:
    assert lives(program_named("three deep, streamed")) == {
        **{name: (0, 2) for name in ("x", "layer0", "layer1")},
        **{f"layer{k}/{n}": (0, 2) for k in range(3) for n in range(2)},
        "layer2": (0, 3),
    }
    assert lives(program_named("three deep"))["x"] == (-1, 2)


def test_tables_are_counted_once() -> None:
    rows = program_named("row tables")
    assert [(buffer, len(table)) for buffer, table in row_tables(rows)] == [("mid", 7), ("y", 7)]
    assert table_bytes(rows) == 4 * 14
    bounds = program_named("three deep, bounds in tables")
    assert len(bound_tables(bounds)) == 4
    assert table_bytes(bounds) == 4 * 16
    assert table_bytes(program_named("three deep")) == 0


def test_entries_take_as_few_bytes_as_they_can() -> None:
    assert entry_bytes((0, 255)) == 1
    assert entry_bytes((0, 256)) == entry_bytes((65535,)) == 2
    assert entry_bytes((0, 65536)) == entry_bytes((-1, 3)) == 4


def test_blocks_beside_the_arena_are_static_ram() -> None:
    example = next(e for e in EVERY_PROGRAM if e.name == "three deep, two memories")
    done = compilation_of(example)
    schedule = replace(done.schedule, plans=())  # those of another model
    ram = ram_usage(schedule, done.program, {}, stack_bytes=512)
    assert (ram.arena, ram.static, ram.stack, ram.total) == (4096, 4096, 512, 8704)
    assert ram.io == 11 * 5 * 3 + 5 * 5 * 4  # in two memories, so that nothing overlaps
