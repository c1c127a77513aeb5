"""ultra_trail: an engine for temporal convolutions, after UltraTrail; the example of the UMA RFC.

An array of `dimension` x `dimension` multipliers computes one tap of `dimension` input channels and
`dimension` output channels per cycle.  Three configuration words describe a layer (`engine.py`).

Source: TVM RFC 0060, "Adding a New Custom Accelerator"; Bernardo et al., UltraTrail, 2020 (array
and memories).  Sizes, configuration words and int8 arithmetic are penstock's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock import uma
from penstock.uma import AcceleratorTarget, Graph, Offloaded, PassPhase, is_constant, is_op
from penstock_ultra_trail import engine
from penstock_ultra_trail.codegen import gen_includes, gen_sources
from penstock_ultra_trail.passes import (
    CodegenGenerateExternCalls,
    Convolution1D,
    ReuseFeatures,
)


class UltraTrailBackend(uma.UMABackend):
    """Backend of ultra_trail: convolutions along one axis with bias, and optionally ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self._register_target_attr("dimension", default=8, least=1)
        self._register_pattern("conv1d_relu", conv1d_relu_pattern(), one_signal)
        self._register_relay_pass(PassPhase.POST_PARTITIONING, ConfigGenerator())
        self._register_relay_pass(PassPhase.POST_PARTITIONING, BufferScopeAnnotator())
        self._register_operator_strategy("nn.conv1d", custom_conv1d_strategy)
        self._register_tir_pass(PassPhase.TIR_PHASE_0, CodegenGenerateExternCalls())
        self._register_tir_pass(PassPhase.TIR_PHASE_2, ReuseFeatures())
        self._register_codegen(includes=gen_includes, sources=gen_sources)
        for name, size in {"fmem0": 4096, "fmem1": 4096, "fmem2": 4096, "wmem": 32768}.items():
            self._register_memory(name, size)

    @property
    def target_name(self) -> str:
        return "ultra_trail"


def conv1d_relu_pattern() -> uma.Pattern:
    """Return the pattern of a convolution with bias and optional ReLU."""
    convolution = is_op("nn.conv1d")(uma.wildcard(), is_constant())
    return is_op("nn.bias_add")(convolution, is_constant()).optional(lambda x: is_op("nn.relu")(x))


def one_signal(layer: Offloaded) -> bool | str:
    """Layers must convolve one signal along one axis in one group, with parameters in range.

    A parameter is in range if it fits its bit field in the configuration words (`engine.Words`).

    A constraint: returns True, or the reason for refusal.  Messages quote the first sentence."""
    n, p = engine.fields(layer), layer.parameters
    across = p["pad_top"] + p["pad_left"] - n["padding"]
    if across or layer.output.elements != n["out_length"] * n["out_c"]:
        return f"the output is {list(layer.output.shape)}, with padding {across} across the axis"
    if p["groups"] > 1 or len(layer.composite.nodes) > 1:
        return f"there are {p['groups']} groups, and the ReLU may have a scale of its own"
    words = engine.Words(**n)
    wrong = [f"{name} {number}" for name, number in n.items() if getattr(words, name) != number]
    return not wrong or f"too large for its field: {', '.join(wrong)}"


def annotate(
    graph: Graph, target: AcceleratorTarget, derive: Callable[[Offloaded], dict[str, object]]
) -> Graph:
    """Return the graph with attributes added to each composite that the accelerator runs.

    derive: returns the attributes to add to a composite, as a mapping from names to values."""

    def annotated(node: uma.Node) -> uma.Node:
        if not isinstance(node.op, uma.Composite) or node.op.engine != target.name:
            return node
        known = dict(node.op.attributes) | derive(Offloaded(node, target))
        return replace(node, op=replace(node.op, attributes=tuple(known.items())))

    return graph.with_nodes(tuple(map(annotated, graph.nodes)))


class ConfigGenerator:
    """A graph pass that stores the configuration words of each layer in its attribute `words`."""

    def __call__(self, graph: Graph, target: AcceleratorTarget) -> Graph:
        return annotate(graph, target, lambda o: {"words": bytes(engine.Words(**engine.fields(o)))})


class BufferScopeAnnotator:
    """A graph pass that assigns feature memories to the input and the output of each layer.

    The pass sets the layer's attribute `scopes` to (index of the input's memory, index of the
    output's memory).  If a tensor does not fit its memory, the pass sets the attribute `misfit` to
    an error message instead."""

    def __call__(self, graph: Graph, target: AcceleratorTarget) -> Graph:
        last = {value.name: k for k, node in enumerate(graph.nodes) for value in node.inputs}
        held: dict[int, str] = {}

        def placed(layer: Offloaded) -> dict[str, object]:
            x, weights, y = *layer.main.inputs[:2], layer.node.output
            free = sorted(range(3), key=lambda m: last.get(held.get(m, ""), -1))  # first done with
            source = next((m for m in free if held.get(m) == x.name), free[0])
            goal = next(m for m in free if m != source)
            for name, value in {f"fmem{source}": x, "wmem": weights, f"fmem{goal}": y}.items():
                if value.type.size_bytes > target.memories[name].size_bytes:
                    return {"misfit": f"{value.name} does not fit into {name}"}
            held.update({source: x.name, goal: y.name})
            return {"scopes": (source, goal)}

        return annotate(graph, target, placed)


def custom_conv1d_strategy(attrs: Any, *facts: object) -> uma.OpStrategy:
    """Return the strategy of a convolution: one kernel, which issues one operation."""

    def conv1d(call: uma.KernelCall) -> Sequence[uma.Command]:
        x = call.operand(0).rows(0, call.operand(0).view.upper)
        constants = [call.operand(1).address, call.operand(2).address]
        tables = [*map(call.table, ("words", "multiplier", "shift")), *constants]
        return [call.issue(Convolution1D(*attrs["scopes"]), [x], tables=tables)]

    def tables(layer: Offloaded) -> dict[str, uma.Array]:
        return {"words": np.frombuffer(attrs["words"], np.int32), **layer.tables}

    strategy, fits = uma.OpStrategy(), attrs.get("misfit", True)
    strategy.add_implementation(conv1d, name="conv1d", cost=cycles, condition=fits, tables=tables)
    return strategy


def cycles(layer: Offloaded, rows: int) -> float:
    """Return the cycles of a call that computes `rows` output rows.

    They are pixels of these rows * taps * input blocks * output blocks, plus a cycle per 4 bytes
    copied.  A block is `dimension` channels."""
    n, dimension = engine.fields(layer), int(layer.target.attrs["dimension"])
    blocks = -(-n["in_c"] // dimension) * -(-n["out_c"] // dimension)
    return layer.work(rows).elements // n["out_c"] * n["taps"] * blocks + layer.bytes(rows) / 4
