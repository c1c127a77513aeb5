"""Laws of copies of rows, over small networks and targets with two memories and a copy engine.

Every schedule runs exactly in the reference machine, which poisons the target of a copy until the
processor waits for it, and rejects writes to its source; it moves the bytes that the schedule
states and takes the cycles that a recount over the commands finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from copy_recount import Recount
from lowered import Lowered, assert_counts_are_the_schedules, assert_equal_to_graph
from penstock.backends.processor_parts import assign
from penstock.errors import InternalError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.target import Target
from penstock.ir.graph import Graph
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placing import place
from penstock.pipeline.search import schedule
from penstock.program.program import Call, Command, Copy, Loop, View, Wait
from penstock.reports.steps import numbered_steps
from penstock.reports.timeline import timelines
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.text.frontier import print_frontier, read_frontier
from slow_memory import SLOW, TWO_REGIONS
from small_networks import networks
from strategies import seeds

ROWS_ONLY = Options(copies=False, placement_work=0, max_stripe=4)
"""Without copies of constants, whose stalls are accounted for by cascade."""


@st.composite
def targets(draw: st.DrawFn) -> Target:
    """Targets with a slow and a fast memory, and a processor that computes faster than it loads."""
    slow, fast, flash = TWO_REGIONS.memories
    slow = replace(
        slow,
        bandwidth_bytes_per_cycle=draw(st.sampled_from((0.125, 0.25, 1))),
        latency_cycles=draw(st.integers(0, 60)),
    )
    fast = replace(
        fast,
        size_bytes=draw(st.sampled_from((16, 40, 100, 1000))),
        bandwidth_bytes_per_cycle=draw(st.sampled_from((1, 4))),
        latency_cycles=draw(st.integers(0, 2)),
    )
    engine = replace(
        TWO_REGIONS.engines[0],
        cycles_per_mac=draw(st.sampled_from((0.25, 1.0, 8.0))),
        cycles_per_element=draw(st.sampled_from((0.5, 20.0))),
        cycles_per_loop=0.0,
        cycles_per_call=draw(st.sampled_from((1.0, 30.0))),
    )
    assert TWO_REGIONS.copier is not None
    copier = replace(TWO_REGIONS.copier, setup_cycles=draw(st.integers(0, 12)))
    memories = (slow, fast, flash)
    return replace(TWO_REGIONS, memories=memories, engines=(engine,), copier=copier)


def copying(graph: Graph, target: Target, options: Options) -> tuple[Schedule, ...]:
    """The schedules of a graph that copy rows."""
    found = schedule(assign(graph, target), target, options).schedules
    return tuple(s for s in found if any(plan.row_copies for plan in s.plans))


def lowered(graph: Graph, target: Target, found: Schedule) -> Lowered | None:
    """A schedule with its program; None if its memories are too small after placement."""
    (point,) = place(Frontier((found,)), target, ROWS_ONLY)
    if not point.fits(target):
        return None
    return Lowered(graph, point.schedule, lower_point(point))


@given(graph=networks(), target=targets(), double=st.booleans(), out=st.booleans(), seed=seeds)
def test_schedules_with_copies_run_with_the_stated_costs(
    graph: Graph, target: Target, double: bool, out: bool, seed: int
) -> None:
    options = replace(ROWS_ONLY, row_double_buffering=double, row_copies_out=out)
    every = copying(graph, target, options)
    parts = assign(graph, target)
    assert read_frontier(print_frontier(Frontier(every)), parts) == Frontier(every)
    for found in every[:4]:
        copies = [copy for plan in found.plans for copy in plan.row_copies]
        assert double or not any(copy.overlapped for copy in copies)
        assert (double and out) or not any(copy.out for copy in copies)
        if (done := lowered(graph, target, found)) is not None:
            assert_counts_are_the_schedules(done, assert_equal_to_graph(done, seed))
            counted = Recount.cycles(target, done.program)
            assert abs(counted - done.schedule.cost.cycles) <= len(found.parts.parts)


def chain() -> Graph:
    """Two 3x3 convolutions, whose input is the network's."""
    net = GraphBuilder("chain")
    x = net.conv2d(net.input((1, 24, 16, 8)), 8, 3, name="first")
    return net.build(net.conv2d(x, 8, 3, name="second"))


def fastest(options: Options) -> Schedule:
    parts = assign(chain(), SLOW)
    return min(schedule(parts, SLOW, options).schedules, key=lambda s: s.cost.cycles)


def test_copies_and_double_buffering_save_cycles() -> None:
    single = replace(ROWS_ONLY, row_double_buffering=False)
    inwards = replace(ROWS_ONLY, row_copies_out=False)
    searches = replace(ROWS_ONLY, row_copies=False), single, inwards, ROWS_ONLY
    without, once, twice, out = map(fastest, searches)
    assert without.cost.cycles > once.cost.cycles > twice.cost.cycles > out.cost.cycles
    assert not any(plan.row_copies for plan in without.plans)


def changed(
    commands: tuple[Command, ...], change: Callable[[tuple[Command, ...]], tuple[Command, ...]]
) -> tuple[Command, ...]:
    """The commands, with the body of every loop changed."""
    return tuple(
        replace(command, body=change(changed(command.body, change)))
        if isinstance(command, Loop)
        else command
        for command in commands
    )


def waits_last(body: tuple[Command, ...]) -> tuple[Command, ...]:
    """Each wait follows the call that it precedes."""
    waits = tuple(command for command in body if isinstance(command, Wait))
    return (*(command for command in body if not isinstance(command, Wait)), *waits)


def slot_less(view: View, ring: str) -> View:
    """The view of a ring whose last slot is its first one."""
    if view.buffer != ring:
        return view
    offsets = [view.rows.offset(row) for row in range(view.type.shape[1])]
    table = tuple(min(offsets) if offset == max(offsets) else offset for offset in offsets)
    return replace(view, rows=replace(view.rows, table=table))


def with_slot_less(commands: tuple[Command, ...], ring: str) -> Iterator[Command]:
    """The commands, with one slot less in a ring."""
    for command in commands:
        match command:
            case Loop():
                yield replace(command, body=tuple(with_slot_less(command.body, ring)))
            case Call():
                inputs = tuple(slot_less(view, ring) for view in command.inputs)
                yield replace(command, inputs=inputs, output=slot_less(command.output, ring))
            case Copy():
                source, target = (slot_less(v, ring) for v in (command.source, command.target))
                yield replace(command, source=source, target=target)
            case _:
                yield command


def outcome(done: Lowered, run: tuple[Command, ...]) -> str:
    """The code of the error that the machine reports for other commands; "" if there is none."""
    try:
        assert_equal_to_graph(replace(done, program=replace(done.program, run=run)), seed=1)
    except InternalError as error:
        return error.code
    return ""


def test_the_machine_catches_a_late_wait_and_a_ring_with_a_slot_less() -> None:
    done = lowered(chain(), SLOW, fastest(replace(ROWS_ONLY, row_copies_out=False)))
    assert done is not None
    run, ring = done.program.run, "input/tcm"
    assert outcome(done, run) == ""
    assert outcome(done, changed(run, waits_last)) in ("machine-002", "machine-008")
    assert outcome(done, tuple(with_slot_less(run, ring))) in ("machine-002", "machine-008")


def without_waits(body: tuple[Command, ...], token: str) -> tuple[Command, ...]:
    return tuple(c for c in body if not (isinstance(c, Wait) and c.token == token))


def test_the_machine_catches_a_missing_wait_for_rows_copied_out() -> None:
    done = lowered(chain(), SLOW, fastest(ROWS_ONLY))
    assert done is not None
    run, tensor = done.program.run, "second"
    assert outcome(done, run) == ""
    assert outcome(done, without_waits(run, tensor)) == "machine-006"
    inside = changed(run, lambda body: without_waits(body, tensor))
    assert outcome(done, inside) == "machine-008"
    less = outcome(done, tuple(with_slot_less(run, "second/tcm")))
    assert less in ("machine-002", "machine-008")


def test_the_last_wait_comes_before_the_next_cascade() -> None:
    """Two cascades, each in rows: the second one reads what the first one has copied out."""
    every = copying(chain(), SLOW, ROWS_ONLY)
    found = [s for s in every if [c.out for c in s.plans[0].row_copies] == [False, True]]
    (plan, after), *_ = (s.plans for s in found if len(s.plans) > 1)
    assert plan.row_copies[1].tensor in {copy.tensor for copy in after.row_copies}
    for one in found:
        done = lowered(chain(), SLOW, one)
        assert done is not None
        assert outcome(done, done.program.run) == ""
        loops = [k for k, command in enumerate(done.program.run) if isinstance(command, Loop)]
        tensor = one.plans[0].row_copies[1].tensor
        assert done.program.run[loops[0] + 1] == Wait("dma", tensor)


def test_layers_keep_their_names_in_reports() -> None:
    done = lowered(chain(), SLOW, fastest(ROWS_ONLY))
    assert done is not None
    steps = {one.tensor: one for one in numbered_steps(done.schedule, done.program)}
    assert {name for name, one in steps.items() if one.number is not None} == {"first", "second"}
    assert [*steps][-2:] == ["second", "second/tcm"]
    copy = steps["second/tcm"]
    assert copy.inputs == ("second",)
    assert not copy.moves
    slow, fast = timelines(done.schedule, done.program)
    writers = {span.name: span.layers for span in (*slow.spans, *fast.spans)}
    assert writers["second/tcm"] == ("second",)
    assert writers["second"] == ("second/tcm",)
