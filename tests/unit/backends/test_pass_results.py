"""Hooks of code generation run after all passes and see their results; passes run once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

import penstock
from examples.uma import phases
from penstock.backends.uma import backend
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.uma import (
    AcceleratorTarget,
    Call,
    Command,
    Composite,
    Driver,
    KernelCall,
    OpStrategy,
    PassPhase,
    Program,
    UMABackend,
    is_constant,
    is_op,
    wildcard,
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "REGISTERED", {})


class ConfigGenerator:
    """Collects a line of a header for each layer, as a graph pass with state."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, graph: Graph, target: AcceleratorTarget) -> Graph:
        layers = [node for node in graph.nodes if isinstance(node.op, Composite)]
        self.lines += [f"#define LAYER_{k} {n.output.type.elements}" for k, n in enumerate(layers)]
        return graph


class CodegenGenerateExternCalls:
    """Counts the calls of the accelerator, as a program pass with state."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, program: Program, target: AcceleratorTarget) -> Program:
        self.calls += sum(isinstance(c, Call) and c.engine == target.name for c in program.run)
        return program


NOP = Driver("configured_run", "configured", lambda device: None, device=dict)


def compute(call: KernelCall) -> Sequence[Command]:
    return [call.invoke(NOP)]


def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    found = OpStrategy()
    found.add_implementation(compute, name="configured.conv2d", cost=lambda layer, rows: 1)
    return found


class Configured(UMABackend):
    """The flow of RFC 0060: passes with state, whose results end up in a header."""

    target_name = "configured"

    def __init__(self, **more: Any) -> None:
        super().__init__()
        config, externs = ConfigGenerator(), CodegenGenerateExternCalls()
        self._register_pattern("conv2d", is_op("nn.conv2d")(wildcard(), is_constant()))
        self._register_relay_pass(PassPhase.POST_PARTITIONING, config)
        self._register_operator_strategy("nn.conv2d", strategy)
        self._register_tir_pass(PassPhase.TIR_PHASE_2, externs)

        def gen_includes() -> str:
            return f'#include "config.h"  /* {externs.calls} calls */\n'

        def gen_sources(target: AcceleratorTarget) -> Mapping[str, str]:
            return {"config.h": "\n".join(config.lines) + "\n"}

        self._register_codegen(**{"includes": gen_includes, "sources": gen_sources, **more})


def network() -> Graph:
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 6, 6, 2)), 4, 3, name="a")
    x = net.max_pool2d(net.conv2d(x, 3, 3, name="b"), 2)
    return net.build(net.fully_connected(x, 3))


def test_a_stateful_pass_writes_a_header() -> None:
    Configured().register()
    bundle = penstock.compile(network(), target="host", accelerators=("configured",)).bundle()
    assert bundle["config.h"] == b"#define LAYER_0 144\n#define LAYER_1 108\n"
    assert b'#include "config.h"  /* 2 calls */\n' in bundle["net.c"]


def test_hooks_may_take_the_program_that_is_emitted() -> None:
    def words(target: AcceleratorTarget, program: Program) -> str:
        calls = [c for c in program.run if isinstance(c, Call) and c.engine == target.name]
        return f"/* {target.name}: {', '.join(c.output.tensor for c in calls)} */"

    def files(target: AcceleratorTarget, program: Program) -> Mapping[str, str]:
        return {"config.h": words(target, program)}

    Configured(includes=words, sources=files).register()
    bundle = penstock.compile(network(), target="host", accelerators=("configured",)).bundle()
    assert b"/* configured: a, b */\n" in bundle["net.c"]
    assert bundle["config.h"] == b"/* configured: a, b */"


def test_hooks_without_arguments_are_called_without() -> None:
    Configured(sources=lambda: {"config.h": "/* nothing */"}).register()
    bundle = penstock.compile(network(), target="host", accelerators=("configured",)).bundle()
    assert bundle["config.h"] == b"/* nothing */"


class Counting(phases.Rows):
    """Counts the runs of a pass of each phase, and the shapes that its strategy receives."""

    def __init__(self) -> None:
        self.runs, self.shapes = Counter[str](), Counter[tuple[int, ...]]()
        super().__init__({phase: self.counted(phase.name) for phase in phases.PASSES})
        for phase in (PassPhase.PRE_PARTITIONING, PassPhase.POST_PARTITIONING):
            self._register_relay_pass(phase, self.counted(phase.name))
        for k, one in enumerate(self._registered.strategies):
            self._registered.strategies[k] = replace(one, function=self.seen)

    def counted(self, name: str) -> Callable[[Any, Any], Any]:
        def count(found: Any, target: Any) -> Any:
            self.runs[name] += 1
            return found

        return count

    def seen(self, attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
        self.shapes[inputs[0].shape] += 1
        return phases.strategy(attrs, inputs, out_type, target)


def signal() -> Graph:
    """A network that may be incremental, and whose axes and channels may be exchanged."""
    net = GraphBuilder("signal")
    x = net.conv2d(net.input((1, 4, 64, 4)), 16, (3, 1), name="conv")
    x = net.max_pool2d(x, 2, name="pool")
    return net.build(net.conv2d(x, 4, 1, name="end"))


WAYS: dict[str, Callable[[Graph], object]] = {
    "compile": lambda g: penstock.compile(g, target="host", accelerators=("rows",)).bundle(),
    "a budget": lambda g: penstock.compile(g, target="host", accelerators=("rows",), sram="64KiB"),
    "size": lambda g: penstock.compile(g, target="host", accelerators=("rows",), optimize="size"),
    "streamed": lambda g: penstock.compile(
        g, target="host", accelerators=("rows",), stream_input=True
    ),
    "two workers": lambda g: penstock.compile(
        g, target="host", accelerators=("rows",), workers=2, plan_streaming=True
    ),
    "verify": lambda g: penstock.verify(g, target="host", accelerators=("rows",)),
}


@pytest.mark.parametrize("way", WAYS)
def test_passes_and_strategies_run_once_on_what_is_compiled(way: str) -> None:
    counting = Counting()
    counting.register()
    WAYS[way](signal())
    names = ("PRE_PARTITIONING", "POST_PARTITIONING_0", *(p.name for p in phases.PASSES))
    assert counting.runs == dict.fromkeys(names, 1)
    assert counting.shapes == {(1, 4, 64, 16): 1}


def test_a_hook_that_returns_no_text_is_refused() -> None:
    Configured(includes=lambda: None).register()
    with pytest.raises(penstock.BackendError, match="includes is None, must be C code in a str"):
        penstock.compile(network(), target="host", accelerators=("configured",))
