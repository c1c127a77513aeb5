"""nvdla's cycles: the functional model counts those that are stated; programs wait before the
processor runs a step, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from benchmarks.compiled_partition import compared, engine_cycles
from penstock import api
from penstock.errors import InternalError
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.program.program import Call, Command, Discard, Invoke, Loop, Program
from penstock.program.steps import Variables, iterations
from penstock.reports.steps import layers
from penstock.scheduling.options import Options
from penstock.simulators.machine import Machine
from penstock_nvdla.sequencer import Sequencer


def test_compiled_networks_take_the_stated_cycles_by_every_strategy() -> None:
    found = compared("zoo:resnet8:resolution=16", "large")
    assert [one.faults for one in found.strategies] == [()] * 4
    assert not found.failed
    layer, *_, best = found.strategies
    assert found.bound <= best.cycles < layer.cycles
    assert best.main_bytes < 0.7 * layer.main_bytes


def network(partition: str, config: str = "large") -> Compilation:
    request = api.request(
        "zoo:resnet8:resolution=16",
        "host",
        accelerators=(f"nvdla:config={config}",),
        options=Options(partition=partition),
        optimize="speed",
    )
    return compile_request(request)


def counted(program: Program, done: Compilation) -> int:
    (inputs,) = api.drawn_sets(done, 1)
    machine = Machine(program)
    machine.run(inputs)
    queue = machine.device("nvdla")
    assert isinstance(queue, Sequencer)
    return queue.cycles


def test_a_program_without_waits_is_refused() -> None:
    done = network("best")
    run = tuple(c for c in done.program.run if not isinstance(c, Invoke))
    assert len(run) < len(done.program.run)
    with pytest.raises(InternalError, match="before the program waits") as caught:
        counted(replace(done.program, run=run), done)
    assert caught.value.code == "machine-012"


@pytest.mark.parametrize(
    ("attrs", "sram"),
    [("config=small", 18_500), ("config=small", 30_000), ("config=large", 16_000)],
)
def test_cascades_take_the_stated_cycles_although_rings_wrap_around(attrs: str, sram: int) -> None:
    request = api.request("zoo:resnet8", "host", accelerators=(f"nvdla:{attrs}",), sram=sram)
    done = compile_request(request)
    assert counted(done.program, done) == engine_cycles(done.schedule)
    if "small" in attrs:
        assert any(plan.stripe for plan in done.schedule.plans)


def test_the_profile_states_the_cycles_of_each_layer() -> None:
    done = network("best")
    rows = [row for row in layers(done.schedule, done.program) if row.offloaded]
    assert sum(row.cycles for row in rows) == engine_cycles(done.schedule)
    for row in rows:
        assert row.breakdown is not None
        assert row.breakdown.cycles == row.cycles


def executed(
    commands: Sequence[Command], known: Variables, counters: dict[str, int]
) -> Iterator[Command]:
    """Commands in the order in which they run."""
    for command in commands:
        if isinstance(command, Loop):
            for inside in iterations(command, known, counters):
                yield from executed(command.body, inside, counters)
        elif not isinstance(command, Discard):
            yield command


@pytest.mark.parametrize("sram", [None, 18_500])
def test_a_wait_is_between_a_layer_and_a_step_of_the_processor_and_nowhere_else(
    sram: int | None,
) -> None:
    request = api.request("zoo:resnet8", "host", accelerators=("nvdla",), sram=sram)
    program = compile_request(request).program
    assert any(isinstance(c, Loop) for c in program.run) or sram is None
    pending = False
    for command in executed(program.run, {}, {}):
        if isinstance(command, Invoke):
            assert command.driver.name == "nvdla_wait"
            pending = False
        elif isinstance(command, Call) and command.engine == "nvdla":
            pending = True
        else:
            assert not pending, command
    assert not pending
