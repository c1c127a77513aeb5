"""Program passes run at four points; each sees and may change what `PassPhase` states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

import penstock
from examples.uma import phases, regions
from examples.uma.phases import PASSES, Rows, each_call, network
from penstock.backends.uma import backend as facade
from penstock.errors import BackendError
from penstock.ir.tensor import Data, row_count
from penstock.program.steps import calls, walk
from penstock.uma import AcceleratorTarget, Buffer, Call, Command, Loop, PassPhase, Program

LAYERS, STRIPES, PLACED, EMITTED = PASSES
Pass = Callable[[Program, AcceleratorTarget], Program]


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facade, "REGISTERED", {})


def compiled(passes: dict[PassPhase, Pass]) -> penstock.Compiled:
    Rows(passes).register()
    return penstock.compile(network(), "host", accelerators=("rows",), optimize="size")


def driver_calls(done: penstock.Compiled) -> list[int]:
    code = done.bundle()["pools.c"].decode()
    return [code.count(f"    rows_{name}(") for name in ("begin", "max", "end")]


def seen(phase: PassPhase) -> list[Program]:
    """The programs that a pass of a phase sees."""
    found: list[Program] = []

    def spy(program: Program, target: AcceleratorTarget) -> Program:
        found.append(program)
        return program

    compiled({phase: spy})
    return found


def overlaps(program: Program) -> bool:
    """Whether two buffers of one memory share bytes."""
    return any(
        a.memory == b.memory and max(a.address, b.address) < min(
            a.address + a.size_bytes, b.address + b.size_bytes
        )
        for a, b in combinations(program.buffers, 2)
    )  # fmt: skip


def is_whole(call: Call) -> bool:
    return (call.lower, call.upper) == (0, row_count(call.output.type.shape))


def test_before_stripes_there_is_one_call_of_whole_tensors_for_each_node() -> None:
    program, *_ = seen(LAYERS)
    assert [call.output.tensor for call in calls(program)] == ["first", "second"]
    assert not any(isinstance(command, Loop) for command in program.run)
    assert all(map(is_whole, calls(program)))
    assert all(call.body for call in calls(program))
    assert not overlaps(program)


def test_after_stripes_there_are_stripes_without_addresses() -> None:
    programs = seen(STRIPES)
    assert len(programs) == 1, "the selected schedule"
    assert any(isinstance(command, Loop) for command in programs[0].run)
    assert not all(map(is_whole, calls(programs[0])))
    assert not any(map(overlaps, programs))


def test_after_placement_buffers_have_their_addresses() -> None:
    (program,) = seen(PLACED)
    final = compiled({}).compilation.program
    assert program.buffers == final.buffers
    assert overlaps(program), "the output is placed where a row of the input was"


def test_the_phases_run_in_order() -> None:
    order: list[PassPhase] = []

    def spy(phase: PassPhase) -> Pass:
        def record(program: Program, target: AcceleratorTarget) -> Program:
            order.append(phase)
            return program

        return record

    compiled({phase: spy(phase) for phase in reversed(PASSES)})
    assert list(dict.fromkeys(order)) == [LAYERS, STRIPES, PLACED, EMITTED]


def test_a_pass_before_stripes_decides_whether_there_are_any() -> None:
    striped, whole = compiled({}), compiled({LAYERS: phases.whole})
    assert whole.report.ram_bytes.total > striped.report.ram_bytes.total
    heights = [row_count(call.output.type.shape) for call in calls(whole.compilation.program)]
    assert heights == [8, 4]
    assert all(map(is_whole, calls(whole.compilation.program)))


def test_a_pass_after_stripes_sees_their_heights() -> None:
    assert driver_calls(compiled({STRIPES: phases.set_up})) == [2, 2, 0]
    assert driver_calls(compiled({})) == [0, 2, 0]


def test_a_pass_after_placement_changes_commands_across_calls() -> None:
    assert driver_calls(compiled({k: PASSES[k] for k in (LAYERS, STRIPES, PLACED)})) == [1, 2, 0]


def test_a_pass_before_emission_has_the_last_word() -> None:
    done = compiled(PASSES)
    assert driver_calls(done) == [1, 2, 2]
    assert [str(call.body[-1]) for call in calls(done.compilation.program)] == [
        str(phases.Invoke(phases.END, ()))
    ] * 2


def test_all_passes_together_are_exact_on_every_rung() -> None:
    Rows(PASSES).register()
    done = penstock.verify(
        network(), "cortex-m4", accelerators=("rows",), every_point=True, optimize="size"
    )
    assert {rung.step: rung.comparison.mismatches for rung in done.rungs} == {
        "machine": 0, "points": 0, "host": 0, "core": 0,
    }  # fmt: skip


def renamed(program: Program, target: AcceleratorTarget) -> Program:
    return replace(program, name="other")


def shorter(program: Program, target: AcceleratorTarget) -> Program:
    return replace(program, run=program.run[:-1])


def moved(program: Program, target: AcceleratorTarget) -> Program:
    first, *rest = program.buffers
    return replace(program, buffers=(replace(first, address=first.address + 64), *rest))


def without_bodies(program: Program, target: AcceleratorTarget) -> Program:
    return each_call(program, target, lambda call: replace(call, body=()))


def with_cost(program: Program, target: AcceleratorTarget) -> Program:
    return each_call(
        program,
        target,
        lambda call: replace(call, kernel=replace(call.kernel, cycles=lambda rows, memories: 1)),
    )


def elsewhere(program: Program, target: AcceleratorTarget) -> Program:
    return each_call(program, target, lambda call: replace(call, engine="cpu"))


def with_other_loops(program: Program, target: AcceleratorTarget) -> Program:
    def changed(command: Command) -> Command:
        return replace(command, step=command.step + 1) if isinstance(command, Loop) else command

    return replace(program, run=tuple(map(changed, program.run)))


ALL = (LAYERS, STRIPES, PLACED, EMITTED)
REFUSED: list[tuple[Pass, tuple[PassPhase, ...], str]] = [
    (renamed, ALL, "changes the name of the program"),
    (shorter, ALL, "changes the number of commands"),
    (moved, ALL, 'changes buffer "'),
    (elsewhere, ALL, "in more than its "),
    (without_bodies, (LAYERS, STRIPES), "in more than its kernel"),
    (phases.whole, (STRIPES,), "changes memory or cost of the kernel of the call that computes"),
    (with_cost, (STRIPES,), "changes memory or cost of the kernel"),
    (with_cost, (PLACED, EMITTED), "in more than its body"),
    (with_other_loops, (STRIPES, PLACED, EMITTED), 'changes the loop over "r'),
]


@pytest.mark.parametrize(
    ("run", "phase", "what"),
    [(run, phase, what) for run, refusing, what in REFUSED for phase in refusing],
)
def test_a_pass_that_changes_more_is_refused(run: Pass, phase: PassPhase, what: str) -> None:
    with pytest.raises(BackendError) as caught:
        compiled({phase: run})
    error = caught.value
    assert (error.code, error.where) == ("backend-064", f"rows, phase {phase.name}")
    assert what in error.what
    assert error.what.startswith(f"pass {run.__name__} changes ")
    assert error.why.startswith("a pass of this phase may change ")


def test_a_pass_may_not_change_what_others_compute() -> None:
    def foreign(program: Program, target: AcceleratorTarget) -> Program:
        return replace(
            program,
            run=tuple(replace(c, origin="mine") if isinstance(c, Call) else c for c in program.run),
        )

    Rows({EMITTED: foreign}).register()
    with pytest.raises(BackendError, match='"dense1" on cpu'):
        penstock.compile("zoo:lenet5", "host", accelerators=("rows",))


def patched(raw: Callable[[bytes], bytes]) -> Pass:
    """A pass that changes the bytes of the command streams."""

    def patch(program: Program, target: AcceleratorTarget) -> Program:
        def changed(buffer: Buffer) -> Buffer:
            if not buffer.is_stream or buffer.data is None:
                return buffer
            data = Data(raw(buffer.data.raw))
            return replace(buffer, data=data, size_bytes=len(data.raw))

        return replace(program, buffers=tuple(map(changed, program.buffers)))

    return patch


@pytest.mark.parametrize("phase", [PLACED, EMITTED])
def test_streams_exist_before_emission_only(phase: PassPhase) -> None:
    found: list[int] = []

    def count(program: Program, target: AcceleratorTarget) -> Program:
        found.append(sum(buffer.is_stream for buffer in program.buffers))
        return program

    backend: Any = regions.Pools()
    backend._register_tir_pass(phase, count)
    backend.register()
    penstock.compile(regions.network(), "host", accelerators=("pools",))
    assert found == [int(phase is EMITTED)]


def test_a_pass_before_emission_may_change_the_bytes_of_streams() -> None:
    def run(raw: Callable[[bytes], bytes]) -> penstock.Verified:
        backend: Any = regions.Pools()
        backend._register_tir_pass(EMITTED, patched(raw))
        backend.register()
        return penstock.verify(regions.network(), "host", accelerators=("pools",))

    plain, marked = run(lambda raw: raw), run(lambda raw: raw[:-1] + b"\x2a")  # in the padding
    assert marked.passed
    files, others = (dict(done.compiled.compilation.bundle.files) for done in (plain, marked))
    assert [name for name in files if files[name] != others[name]] == ["chain_weights.c"]
    with pytest.raises(BackendError, match=r'changes buffer "pool2: commands 0"'):
        run(lambda raw: raw + bytes(16))


def test_the_pass_of_the_rfc_makes_driver_calls_before_stripes() -> None:
    graph = penstock.compile("zoo:tc_resnet8:frames=33", accelerators=("ultra_trail",))
    bodies = [call.body for call in calls(graph.compilation.program) if call.body]
    names = {c.driver.name for body in bodies for c in walk(body) if isinstance(c, phases.Invoke)}
    assert names >= {"ultra_trail_convolve", "ultra_trail_load_weights"}
