"""Engines in report.json and on the terminal, with the counts of a simulated core."""

from __future__ import annotations

import dataclasses
import json

import pytest
from small_compilation import Count, Example, make_example, with_steps
from test_report_summary import shown

from penstock import api
from penstock.backends.accelerator import Accelerator
from penstock.ir.composite import Composite
from penstock.reports.layer import model_layers
from penstock.reports.layer_table import LayerTable
from penstock.reports.report import CycleCounts, EngineWork, FallbackReport
from penstock.reports.summary import engine_lines, summary
from penstock.simulators.calling import ExecutionCounts
from toy_accelerator import STUB, Toy, toy_request

CPU = EngineWork("cpu", 2, 3, 300000, CycleCounts(900, None))
NPU = EngineWork("npu[red]", 1, 1, 1000000, CycleCounts(100, None))
LEFT = (
    FallbackReport(
        "net/pool", 'small.tflite: node 1 MAX_POOL "pool"', "no pattern matches it", 700
    ),
    FallbackReport("net/dense", "", "", 200),
)


@pytest.fixture(scope="module")
def compiled() -> api.Compiled:
    """A network, its convolutions on an accelerator."""
    return api.compile(toy_request("zoo:lenet5", "cortex-m4"))


@pytest.fixture
def shared_example(example: Example) -> Example:
    """The small compilation with an accelerator that runs its first layer."""
    first, *others = example.layers
    layers = (dataclasses.replace(first, engine="npu[red]", offloaded=True), *others)
    report = dataclasses.replace(example.report, engines=(CPU, NPU), left_to_cpu=LEFT)
    return dataclasses.replace(example, report=with_steps(report, layers))


def test_the_report_says_what_each_engine_does(compiled: api.Compiled) -> None:
    found = json.loads(json.dumps(compiled.report.as_json()))
    assert [engine["name"] for engine in found["engines"]] == ["cpu", "toy"]
    cpu, toy = found["engines"]
    assert (cpu["nodes"], toy["nodes"]) == (6, 2)
    assert toy["macs"] == 28 * 28 * 6 * 25 + 10 * 10 * 16 * 150
    assert cpu["macs"] == 120 * 400 + 84 * 120 + 10 * 84
    estimated = [engine["cycles"]["estimated"] for engine in found["engines"]]
    assert sum(estimated) == found["cycles"]["estimated"]
    assert [engine["cycles"]["simulated"] for engine in found["engines"]] == [None, None]
    layers = [layer for layer in compiled.layers if layer.offloaded]
    assert toy["cycles"]["estimated"] == sum(layer.cycles for layer in layers)
    assert toy["calls"] == sum(layer.calls for layer in layers)


def test_the_report_lists_every_node_that_is_left(compiled: api.Compiled) -> None:
    left = compiled.report.left_to_cpu
    assert [node.node for node in left] == [
        "pool1",
        "pool2",
        "dense1",
        "dense2",
        "logits",
        "scores",
    ]
    assert left[0].origin == 'lenet5: node 1 "pool1"'
    cycles = {layer.name: layer.cycles for layer in compiled.layers}
    assert [node.cycles for node in left] == [cycles[node.node] for node in left]
    cpu, _ = compiled.report.engines
    assert sum(node.cycles for node in left) == cpu.cycles.estimated


def test_without_accelerators_there_are_no_engines_and_other_keys_are_as_they_were() -> None:
    report = api.compile("zoo:lenet5", "cortex-m4").report
    assert (report.engines, report.left_to_cpu) == ((), ())
    with_toy = api.compile(toy_request("zoo:lenet5", "cortex-m4")).report
    assert report.as_json().keys() == with_toy.as_json().keys()


def test_an_accelerator_that_takes_nothing_leaves_all_to_the_processor() -> None:
    done = api.compile(toy_request("zoo:lenet5", "host", Toy(takes=lambda node: False)))
    assert [engine.name for engine in done.report.engines] == ["cpu", "toy"]
    cpu, toy = done.report.engines
    assert (len(done.report.left_to_cpu), cpu.nodes, toy.nodes) == (8, 8, 0)


def test_cycles_of_engines_sum_up_where_others_hand_over() -> None:
    wanted = toy_request("zoo:resnet8", "two-region", stream_input=True)
    report = api.compile(wanted).report
    assert [engine.name for engine in report.engines] == ["cpu", "toy", "caller"]
    assert sum(engine.cycles.estimated for engine in report.engines) == report.cycles.estimated
    assert sum(engine.macs for engine in report.engines) == report.macs.executed
    assert report.engines[2].nodes == 0


def test_one_node_and_one_call_are_singular() -> None:
    lines = [str(line) for line in engine_lines((CPU, NPU))]
    assert lines == ["cpu runs 2 nodes in 3 calls", "npu[red] runs 1 node in 1 call"]


def test_nodes_inside_of_a_composite_are_counted(compiled: api.Compiled) -> None:
    graph = compiled.compilation.graph
    inside = [n.op.nodes for n in graph.nodes if isinstance(n.op, Composite)]
    assert compiled.report.engines[1].nodes == sum(map(len, inside))


def test_tables_of_accelerators_are_counted_once(compiled: api.Compiled) -> None:
    """An array of C for each table, as for any other constant."""
    files = dict(compiled.compilation.bundle.files)
    assert f"{compiled.report.flash_bytes.weights}" in files["lenet5.h"].decode()


def test_the_summary_shows_engines_and_what_is_left(shared_example: Example) -> None:
    text = shown(summary(shared_example.report))
    assert "cpu 2 3 300,000 900 90.0 %" in text
    assert "npu[red] 1 1 1,000,000 100 10.0 %" in text
    assert "2 nodes fall back" in text
    assert 'node 1 MAX_POOL "pool" 700 no pattern matches it' in text
    assert "net/dense 200 –" in text


def test_the_summary_without_accelerators_speaks_of_none(example: Example) -> None:
    text = shown(summary(example.report))
    assert "engine" not in text
    assert "left" not in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_word_of_a_reason_is_lost_in_a_narrow_terminal(
    shared_example: Example, width: int
) -> None:
    why = "pattern 'conv' matches, but is refused: the window is 11 x 11, at most 7 x 7 fit"
    left = (dataclasses.replace(LEFT[0], reason=why),)
    report = dataclasses.replace(shared_example.report, left_to_cpu=left)
    found = shown(summary(report), width).split()
    assert set(why.split()) <= set(found)


def test_the_layer_table_has_engines_only_where_there_are_several(
    example: Example, shared_example: Example
) -> None:
    assert "engine" not in shown(LayerTable(example.report.model_layers))
    text = shown(LayerTable(shared_example.report.model_layers))
    assert "0 Conv2D npu[red] Relu 1×32×32×8" in text
    assert "1 MaxPool2D cpu pool" in text


def test_a_sum_that_would_mix_engines_is_not_shown(shared_example: Example) -> None:
    counts = (None, *shared_example.counts[1:])
    text = shown(LayerTable(shared_example.report.with_counts(counts).model_layers))
    assert "1,000,000 9,000,000 – 9.00 9,092" in text
    assert "0 700,000 600,000 – 10,240" in text
    assert "total 1,300,000 9,876,543 – – 21,442" in text
    assert "share" not in text
    assert "750,000" not in text


def stand_in(extra: str) -> api.Ran:
    """A run with a stub that does something more in each tap."""

    def change(accelerator: Accelerator) -> Accelerator:
        slow = STUB.replace("const int8_t *row = x;", f"const int8_t *row = x;\n{extra}")
        assert slow.count(extra) == 1
        header, _ = accelerator.codegen.sources
        code = dataclasses.replace(accelerator.codegen, sources=(header, ("toy_stub.c", slow)))
        return dataclasses.replace(accelerator, codegen=code)

    return api.run(toy_request("zoo:lenet5", "cortex-m4", change=change))


def test_what_a_stand_in_executes_is_in_no_figure() -> None:
    """A stub that takes a thousand cycles more for each row changes nothing that is reported, but
    the stack, which holds what it needs."""
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    slow = "for (volatile int i = 0; i < 200; i++) { }"
    plain, slowed = stand_in("(void)unit;"), stand_in(slow)
    cpu, toy = plain.report.engines
    assert (plain.report.cycles.simulated, plain.report.instructions.simulated) == (None, None)
    assert (toy.cycles.simulated, [plain.steps[0], plain.steps[2]]) == (None, [None, None])
    counted = [step.cycles for step in plain.steps if step is not None]
    assert len(counted) == 6
    assert sum(counted) < (cpu.cycles.simulated or 0) < 1.01 * sum(counted)
    stack = plain.report.stack_bytes_measured
    assert dataclasses.replace(slowed.report, stack_bytes_measured=stack) == plain.report
    assert slowed.steps == plain.steps
    text = shown(summary(plain.report))
    assert "estimated; only the processor is simulated" in text
    assert f"{cpu.cycles.simulated:,}" in text


def test_the_figures_of_what_an_accelerator_runs_are_null_in_json(
    compiled: api.Compiled,
) -> None:
    simulated = ExecutionCounts(cycles=7, instructions=5)
    counts = [None if layer.offloaded else simulated for layer in compiled.layers]
    ran = api.Ran(compiled.report.with_counts(counts), compiled, (), tuple(counts))
    found = ran.layer_rows()
    assert [row["engine"] for row in found][:2] == ["toy", "cpu"]
    assert [row["simulated_cycles"] for row in found][:3] == [None, 7, None]


def test_the_cycles_of_a_layer_without_counts_are_its_estimate(shared_example: Example) -> None:
    counts = (None, Count(600000, 1), Count(400000, 1))
    layers = shared_example.report.with_counts(counts).model_layers
    assert (layers[0].simulated_cycles, layers[0].simulated_instructions) == (None, None)
    assert [layer.best_cycles for layer in layers] == [9000000, 600000, 400000]


def test_a_layer_is_that_of_its_products_not_of_a_dearer_copy() -> None:
    step = make_example().layers[0]
    made = dataclasses.replace(
        step, name="a", origin="node 0", engine="npu", offloaded=True, cycles=10
    )
    copied = dataclasses.replace(
        step, name="b", origin="node 0", kind="Transpose", macs=0, cycles=9_000
    )
    for steps in ((copied, made), (made, copied)):
        (layer,) = model_layers(steps)
        assert (layer.engine, layer.kernels[0]) == ("npu", made.kernel)
