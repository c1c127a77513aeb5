"""`--layer NAME`: a layer by itself, with the inputs that it has in its network."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as package
from command_line import CommandLine
from penstock import api
from penstock.api.layer import cut_layer
from penstock.backends.uma import backend
from penstock.cascader import Cascade
from penstock.errors import UsageError
from penstock.simulators.graph import run_graph
from penstock.uma import Driver, OpStrategy, UMABackend, is_constant, is_op, wildcard
from texts.graph_reader import graph_from_text

MODEL = "zoo:lenet5"


def test_its_inputs_are_those_of_the_network() -> None:
    cut = cut_layer(api.request(MODEL, "host"), "conv2", 2)
    graph = cut.request.graph
    assert graph is not None
    assert [node.name for node in graph.nodes] == ["conv2"]
    (x,) = graph.inputs
    done = package.compile(MODEL, target="host").compilation
    for drawn, alone in zip(api.drawn_sets(done, 2), cut.sets, strict=True):
        np.testing.assert_array_equal(alone[x.name], run_graph(done.model, drawn)[x.name])


@pytest.mark.parametrize("name", ["wide_1", "act", "net/wide_1/bias"])
def test_layers_have_the_same_names_everywhere(name: str) -> None:
    net = package.GraphBuilder("net")
    x = net.conv2d(net.input((1, 8, 8, 4)), 4, 3, name="net/wide_1/Relu6;net/wide_1/bias;act")
    graph = net.build(net.conv2d(x, 4, 3, name="net/wide_2/Relu6"))
    (node,) = (node for node in graph.nodes if node.inputs[0] is graph.inputs[0])
    cut = cut_layer(api.request(graph, "host"), name, 1)
    assert cut.request.model == f"net: {node.name}"
    stated = Cascade((name, "wide_2"), rows=2)
    (plan,) = package.compile(graph, "host", schedule=stated).compilation.schedule.plans
    assert len(plan.parts) == 2
    wanted = api.request(graph, "host", accelerators=("vanilla",))
    assert any("vanilla" in line for line in api.explain_pattern(wanted, name))
    for wrong in (
        lambda: cut_layer(wanted, "wide", 1),
        lambda: api.explain_pattern(wanted, "wide"),
        lambda: package.compile(graph, "host", schedule=Cascade(("wide",))),
    ):
        with pytest.raises(UsageError) as caught:
            wrong()
        assert "did you mean wide_" in caught.value.help


def test_it_is_verified_on_every_rung() -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    done = package.verify(MODEL, target="cortex-m4", layer="conv2")
    assert [part.name for part in done.compiled.compilation.parts.parts] == ["conv2"]
    steps = [(rung.step, rung.mismatches) for rung in done.rungs]
    assert steps == [("machine", 0), ("host", 0), ("core", 0)]


def test_an_accelerator_runs_it() -> None:
    done = package.verify(MODEL, target="host", layer="conv2", accelerators=("vanilla",))
    assert [part.engine for part in done.compiled.compilation.parts.parts] == ["vanilla"]
    assert done.passed


class Wrong(UMABackend):
    """An engine for convolutions whose functional model writes zeros."""

    target_name = "wrong"

    def __init__(self) -> None:
        super().__init__()
        self._register_pattern("conv2d", is_op("nn.conv2d")(wildcard(), is_constant()))
        self._register_operator_strategy("conv2d", strategy)
        self._register_codegen(includes='#include "wrong.h"')


def zeros(device: Any, y: Any, count: int) -> None:
    y[:count] = 0


def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    driver = Driver("wrong_zeros", "wrong", zeros, device=dict)
    found = OpStrategy()
    found.add_implementation(
        lambda call: [call.invoke(driver, call.result.address, call.output.elements)],
        name="wrong.conv2d",
    )
    return found


def test_where_it_first_differs_is_printed(
    penstock: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "REGISTERED", {})
    Wrong().register()
    found = penstock("verify", MODEL, "-t", "host", "--layer", "conv2", "--accelerator", "wrong")
    assert found.code != 0
    assert "mismatches on rung machine" in found.err
    assert re.search(r'why: .*"conv2" of set 0.*\[\d+(, \d+)*\]', found.err), found.err
    assert "wrong computes this tensor" in found.err


def test_run_takes_inputs_of_the_network() -> None:
    done = package.compile(MODEL, target="host").compilation
    (x,) = done.model.inputs
    given = {x.name: np.full(x.type.shape, 3, np.int8)}
    ran = package.run(MODEL, target="host", sets=[given], layer="pool1")
    expected = run_graph(done.model, given)["pool1"]
    np.testing.assert_array_equal(ran.joined_outputs["pool1"], expected)


def test_profile_counts_it_alone(penstock: CommandLine) -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    found = penstock("profile", MODEL, "--target", "cortex-m4", "--layer", "conv2")
    assert found.code == 0, found.err
    lines = re.findall(r"kernel of conv2: (\w+), ([\d,]+) cycles, (.*)", found.out)
    assert lines[0][0].endswith("_dsp")
    assert lines[0][2] == "runs"
    assert re.fullmatch(r"loses by [\d,]+", lines[-1][2])
    assert lines[-1][0] == "conv2d_s8"


def test_other_options_of_a_layer_are_commands_on_that_layer(
    penstock: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = ("zoo:resnet8", "--layer", "stage1/conv1")
    found = penstock("profile", *model, "--optimize", "size", "--no-simulate")
    assert found.code == 0, found.err
    (other,) = re.findall(r"other options:\n([\d,]+ bytes) .*\n *penstock (.*)\n", found.out)
    assert "--plan-streaming\n" not in found.out
    again = penstock(*shlex.split(other[1]), "--no-simulate")
    assert again.code == 0, again.err
    assert re.search(r"RAM +" + other[0].replace(" ", " +"), again.out), again.out


def test_a_layer_of_the_file_that_became_part_of_another_is_found() -> None:
    text = """graph net
input x: int8[1,4] scale 0.5
a: int8[1,4] scale 0.5 = Add(x, x) at "net: node 0"
y: int8[1,4] scale 0.5 = Relu(a) at "net: node 1"
output y
"""
    cut = cut_layer(api.request(graph_from_text(text), "host"), "a", 1)
    assert cut.request.graph is not None
    assert [(node.kind, node.name) for node in cut.request.graph.nodes] == [("Add", "y")]


def test_unknown_layers_are_refused_with_suggestions() -> None:
    with pytest.raises(UsageError, match='there is no layer "conv3"') as caught:
        package.verify(MODEL, target="host", layer="conv3")
    assert "conv1" in caught.value.help or "conv2" in caught.value.help


def test_ground_truth_is_that_of_the_network(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a layer by itself has no ground truth"):
        package.verify(MODEL, target="host", layer="conv2", goldens=tmp_path / "goldens.npz")


def test_kernels_that_no_family_prices_are_not_listed() -> None:
    assert package.compile(MODEL, target="host").report.competing_kernels == ()


def test_the_report_says_which_kernels_lost_and_by_how_much() -> None:
    found = package.compile(MODEL, target="cortex-m4").report.competing_kernels
    of_conv = [one for one in found if one.layer == "conv2"]
    assert [one.cycles for one in of_conv] == sorted(one.cycles for one in of_conv)
    assert len(of_conv) > 1
    (runs,) = (one for one in of_conv if one.lost_by == 0)
    assert runs.kernel == "conv2d_s8_dsp"
    assert all(one.lost_by == one.cycles - runs.cycles for one in of_conv)
