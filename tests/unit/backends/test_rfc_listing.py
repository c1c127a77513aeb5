"""The backend of RFC 0060 runs as the RFC lists it: only its imports, its helper functions and the
build call are ours.

Source of the class: TVM RFC 0060, "Adding a New Custom Accelerator" (Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import penstock
from available import TARGET
from examples.seeds import uma as seed
from lowered import inputs_of_graph, lower
from penstock.backends.discovery import open_accelerators
from penstock.backends.uma import backend
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from penstock.uma import (
    AcceleratorTarget,
    Composite,
    Driver,
    Graph,
    Invoke,
    KernelCall,
    Offloaded,
    OpStrategy,
    PassPhase,
    Program,
    TensorType,
    UMABackend,
    elements,
    is_constant,
    is_op,
    requantise,
    wildcard,
)


# fmt: off
class UltraTrailBackend(UMABackend):
    def __init__(self):
        super(UltraTrailBackend, self).__init__()  # noqa: UP008

        # Target configuration
        self._register_target_attr("dimension", default=8)

        # Relay to Relay function registration
        self._register_pattern("conv1d_relu", conv1d_relu_pattern())

        self._register_relay_pass(PassPhase.POST_PARTITIONING, ConfigGenerator())
        self._register_relay_pass(PassPhase.POST_PARTITIONING, BufferScopeAnnotator())

        # Relay to TIR function registration
        self._register_operator_strategy("nn.conv1d", custom_conv1d_strategy)

        self._register_tir_pass(PassPhase.TIR_PHASE_0, CodegenGenerateExternCalls())

        # TIR to runtime function registration
        self._register_codegen(format="c", includes=gen_includes, replace_call_extern=None)

    @property
    def target_name(self):
        return "ultra_trail"
# fmt: on


def conv1d_relu_pattern():
    """A convolution along one axis with bias, and ReLU where there is one."""
    conv = is_op("nn.conv1d")(wildcard(), is_constant())
    return is_op("nn.bias_add")(conv, wildcard()).optional(lambda x: is_op("nn.relu")(x))


class ConfigGenerator:
    """Says of every composite how large the array is."""

    def __call__(self, graph: Graph, target: AcceleratorTarget) -> Graph:
        return annotated(graph, "config", target.attrs["dimension"])


class BufferScopeAnnotator:
    """Says of every composite in which buffers its tensors are; after its config."""

    def __call__(self, graph: Graph, target: AcceleratorTarget) -> Graph:
        ops = (node.op for node in graph.nodes if isinstance(node.op, Composite))
        assert all(op.attribute("config") for op in ops)
        return annotated(graph, "scopes", ("fmem", "wmem", "bmem"))


def annotated(graph: Graph, name: str, value: Any) -> Graph:
    """The graph whose composites have that attribute."""
    return graph.with_nodes(
        tuple(
            replace(n, op=replace(n.op, attributes=(*n.op.attributes, (name, value))))
            if isinstance(n.op, Composite)
            else n
            for n in graph.nodes
        )
    )


class CodegenGenerateExternCalls:
    """Counts what calls the driver; the calls are there already."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, program: Program, target: AcceleratorTarget) -> Program:
        bodies = (command.body for command in program.run if hasattr(command, "body"))
        self.calls = sum(isinstance(inner, Invoke) for body in bodies for inner in body)
        return program


def gen_includes() -> str:
    return '#include "ultra_trail.h"\n'


def custom_conv1d_strategy(
    attrs: Mapping[str, Any],
    inputs: Sequence[TensorType],
    out_type: TensorType,
    target: AcceleratorTarget,
) -> OpStrategy:
    """One command, on a square array of `dimension` multipliers a side."""
    assert attrs["scopes"] == ("fmem", "wmem", "bmem")
    assert attrs["config"] == target.attrs["dimension"]
    assert out_type.shape[3] == inputs[1].shape[0]
    strategy = OpStrategy()
    strategy.add_implementation(
        conv1d, name="custom_conv1d.generic", cost=conv1d_cycles, tables=lambda o: o.tables
    )
    return strategy


def conv1d(call: KernelCall) -> list[Invoke]:
    addresses = [call.operand(k).address for k in range(3)]
    tables = [call.table("multiplier"), call.table("shift"), call.result.address]
    numbers = [call.parameters[name] for name in NUMBERS]
    return [call.invoke(CONV1D, *addresses, *tables, *numbers)]


def conv1d_cycles(offloaded: Offloaded, rows: int) -> float:
    return offloaded.macs(rows) / int(offloaded.target.attrs["dimension"]) ** 2


NUMBERS = ("in_w", "in_c", "out_w", "out_c", "kernel_w", "stride_w", "pad_left",
           "in_zero", "out_zero", "least", "most")  # fmt: skip


def conv1d_model(
    device: Any, x: Any, w: Any, b: Any, m: Any, s: Any, y: Any, *numbers: int
) -> None:
    p = dict(zip(NUMBERS, numbers, strict=True))
    image = elements(x, np.int8, p["in_w"], p["in_c"]).astype(int) - p["in_zero"]
    taps = elements(w, np.int8, p["out_c"], p["kernel_w"], p["in_c"]).astype(int)
    out = elements(y, np.int8, p["out_w"], p["out_c"])
    for column in range(p["out_w"]):
        sums = elements(b, np.int32, p["out_c"]).astype(int)
        for k in range(p["kernel_w"]):
            at = column * p["stride_w"] - p["pad_left"] + k
            if 0 <= at < p["in_w"]:
                sums = sums + taps[:, k] @ image[at]
        factors = elements(m, np.int32, p["out_c"]), elements(s, np.int8, p["out_c"])
        out[column] = requantise(sums, *factors, p["out_zero"], (p["least"], p["most"]))


CONV1D = Driver("ultra_trail_conv1d", "ultra_trail", conv1d_model, device=dict)


@pytest.fixture
def network() -> Graph:
    """Two convolutions along one axis, of which the second has no ReLU, and a dense layer."""
    net = GraphBuilder("keywords")
    x = net.conv2d(net.input((1, 1, 20, 6)), 8, (1, 5), stride=(1, 2), activation="relu", name="a")
    x = net.conv2d(x, 4, (1, 3), name="b")
    x = net.reshape(x, (1, -1), name="flat")
    return net.build(net.fully_connected(x, 3, name="logits"))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> UltraTrailBackend:
    monkeypatch.setattr(backend, "REGISTERED", {})
    ut_backend = UltraTrailBackend()
    ut_backend.register()
    return ut_backend


def test_it_partitions_as_in_the_rfc(registered: UltraTrailBackend, network: Graph) -> None:
    mod = registered.partition(network)
    found = {n.name: n.op for n in mod.nodes if isinstance(n.op, Composite)}
    assert list(found) == ["a", "b"]
    for op in found.values():
        assert (op.name, op.engine) == ("conv1d_relu", "ultra_trail")
        assert op.attribute("config") == 8
        assert op.attribute("scopes") == ("fmem", "wmem", "bmem")


def test_its_program_equals_the_network(network: Graph) -> None:
    (accelerator,) = open_accelerators(("ultra_trail:dimension=16",), load_target("host"))
    done = lower(network, accelerators=(accelerator,))
    assert [part.engine for part in done.schedule.steps] == ["ultra_trail"] * 2 + ["cpu"]
    (extern_calls,) = accelerator.passes(PassPhase.TIR_PHASE_0)
    assert extern_calls.calls == 2
    inputs = inputs_of_graph(network, seed=1)
    expected = run_graph(network, inputs)
    for name, array in Machine(done.program).run(inputs).items():
        np.testing.assert_array_equal(array, expected[name])


def test_its_attribute_reaches_what_it_registered(network: Graph) -> None:
    def cycles(dimension: int) -> int:
        text = f"ultra_trail:dimension={dimension}"
        accelerators = open_accelerators((text,), load_target("host"))
        return lower(network, accelerators=accelerators).schedule.cost.cycles

    # 10 outputs of 8 channels from 5 x 6, and 10 of 4 channels from 3 x 8
    products = (10 * 8 * 5 * 6, 10 * 4 * 3 * 8)
    assert cycles(1) - cycles(8) == sum(n - round(n / 64) for n in products)


def test_its_code_begins_with_its_includes(network: Graph) -> None:
    (accelerator,) = open_accelerators(("ultra_trail",), load_target("host"))
    program = lower(network, accelerators=(accelerator,)).program
    assert accelerator.codegen.generated(program)[0] == '#include "ultra_trail.h"\n'
    assert accelerator.codegen.replace_call_extern is None


def test_the_listing_with_stubs_is_exact_on_every_rung(network: Graph) -> None:
    """The seed adds memories, and the sources of the driver's stub, to the same listing."""
    seed.UltraTrail().register(replace=True)
    done = penstock.verify(network, TARGET, accelerators=("ultra_trail",))
    engines = [part.engine for part in done.compiled.compilation.parts.parts]
    assert engines.count("ultra_trail") == 2
    assert {rung.step: rung.mismatches for rung in done.rungs} == {
        "machine": 0, "host": 0, "core": 0,
    }  # fmt: skip
