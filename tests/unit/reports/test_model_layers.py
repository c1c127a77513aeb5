"""Layers of the model: one record per operator of the file, whatever the steps that compute it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from small_compilation import Example

from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.program.constants import weight_bytes_by_tensor
from penstock.program.steps import table_bytes
from penstock.reports.layer import model_layers, with_counts


@pytest.fixture(scope="module", params=["array", "streamed"])
def network(request: pytest.FixtureRequest) -> api.Compiled:
    """A network whose deepest schedule computes some layers in several steps."""
    settings = {"stream_input": True, "optimize": "size"} if request.param == "streamed" else {}
    return api.compile("zoo:mobilenet_v1:alpha=0.25,resolution=32", "cortex-m4", **settings)


def test_every_operator_is_one_layer_in_the_order_of_the_model(network: api.Compiled) -> None:
    origins = [layer.main.origin for layer in network.model_layers if layer.main.origin]
    model = [node.origin for node in network.compilation.model.nodes]
    assert len(set(origins)) == len(origins)
    assert [origin for origin in model if origin in origins] == origins
    names = [json.dumps(layer.as_json()) for layer in network.model_layers]
    assert len(set(names)) == len(names)


def test_rows_have_the_short_names_of_the_pages() -> None:
    net = GraphBuilder("paths")
    left = net.conv2d(net.input((1, 4, 4, 2)), 2, 1, name="net/left/Relu;net/left/bias")
    done = api.compile(net.build(net.conv2d(left, 2, 1, name="net/right/Relu;net/right/bias")))
    found = done.model_layer_rows()
    assert [row["short_name"] for row in found] == ["left", "right"]
    assert [row["name"] for row in found] == [layer.name for layer in done.model_layers]
    assert done.as_json()["model_layers"] == found


def test_figures_are_sums_over_the_steps_of_the_schedule(network: api.Compiled) -> None:
    whole, steps = network.model_layers, network.layers
    assert sorted(k for layer in whole for k in layer.indices) == list(range(len(steps)))
    cost = network.compilation.schedule.cost
    assert sum(layer.cycles for layer in whole) == cost.cycles
    assert sum(layer.macs for layer in whole) == cost.macs
    assert sum(layer.calls for layer in whole) == cost.calls


def test_the_layer_with_the_most_live_bytes_sets_the_peak(network: api.Compiled) -> None:
    live = [layer.live_bytes for layer in network.model_layers if layer.live_bytes is not None]
    assert len(live) == len(network.model_layers)
    assert max(live) == network.timelines[0].peak_bytes


@pytest.mark.parametrize(
    ("model", "target", "accelerators"),
    [
        ("zoo:tc_resnet8", "cortex-m4", ()),
        ("zoo:lenet5", "two-region", ()),
        ("zoo:lenet5", "cortex-m4", ("nvdla",)),
        ("zoo:lenet5", "cortex-m4", ("smv",)),
    ],
)
def test_stored_bytes_are_those_of_the_flash(
    model: str, target: str, accelerators: tuple[str, ...]
) -> None:
    done = api.compile(model, target, accelerators=accelerators)
    program = done.compilation.program
    assert sum(layer.weight_bytes for layer in done.model_layers) == sum(
        weight_bytes_by_tensor(program).values()
    )
    assert sum(weight_bytes_by_tensor(program).values()) + table_bytes(program) == (
        done.report.flash_bytes.weights
    )


def test_counts_of_a_core_are_summed_over_the_steps(example: Example) -> None:
    steps = tuple(replace(one, origin="node") for one in example.layers)
    (layer,) = model_layers(with_counts(steps, example.counts))
    assert layer.simulated_cycles == layer.best_cycles == 8750001
    assert layer.simulated_instructions == 5490001
    assert [step.simulated_cycles for step in layer.steps] == [c.cycles for c in example.counts]
    (partly,) = model_layers(with_counts(steps, (None, *example.counts[1:])))
    assert partly.simulated_cycles == 750000
    assert partly.best_cycles == steps[0].cycles + 750000
