"""Engine times: the engines run as on the reference machine, without gaps, to scale."""

from __future__ import annotations

from itertools import groupby, pairwise

import pytest

from penstock import api
from penstock.reports.traced import engine_times
from penstock.simulators.machine import Machine
from toy_accelerator import toy_request


@pytest.fixture(scope="module", params=["whole layers", "cascades", "streamed"])
def compiled(request: pytest.FixtureRequest) -> api.Compiled:
    """A network, its convolutions on an accelerator."""
    streamed = request.param == "streamed"
    first = api.compile(toy_request("zoo:lenet5", "cortex-m4", stream_input=streamed))
    if request.param == "whole layers":
        return first
    least = first.report.frontier[0].ram_bytes
    return api.compile(toy_request("zoo:lenet5", "cortex-m4", stream_input=streamed, sram=least))


def test_engines_take_turns_as_on_the_machine(compiled: api.Compiled) -> None:
    """The machine runs the program, command by command; pulls, which it does not trace, aside."""
    done = compiled.compilation
    engines = {part.name: part.engine for part in done.parts.parts}
    ran: list[str] = []
    machine = Machine(done.program, lambda name, region, elements: ran.append(engines[name]))
    machine.run(api.drawn_sets(done, 1)[0])
    spans = engine_times(done.schedule).spans
    turns = [span.engine for span in spans if span.engine != "caller"]
    assert [engine for engine, _ in groupby(turns)] == [engine for engine, _ in groupby(ran)]


def test_spans_follow_each_other_and_last_as_long_as_the_estimate(compiled: api.Compiled) -> None:
    done = compiled.compilation
    found = engine_times(done.schedule)
    assert found.spans[0].lower_cycles == 0
    for before, after in pairwise(found.spans):
        assert after.lower_cycles == pytest.approx(before.upper_cycles)
    assert found.call_cycles[-1] == pytest.approx(done.schedule.cost.cycles)
    assert len(found.call_cycles) == done.schedule.cost.calls + 1
    assert list(found.call_cycles) == sorted(found.call_cycles)


def test_each_layer_takes_its_cycles_on_its_engine(compiled: api.Compiled) -> None:
    done = compiled.compilation
    found = engine_times(done.schedule).spans
    for engine in {layer.engine for layer in compiled.layers}:
        wanted = sum(layer.cycles for layer in compiled.layers if layer.engine == engine)
        spent = sum(s.upper_cycles - s.lower_cycles for s in found if s.engine == engine)
        assert spent == pytest.approx(wanted)
