"""Kernel selection by element type: a kernel that lacks a type is never chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.small_tensors import Sample, int8, sample
from found import SAMPLES, every_computing_sample
from penstock.backends.cores.family import core_families
from penstock.backends.discovery import names, open_accelerators
from penstock.backends.offload import claimed
from penstock.backends.partition import choose
from penstock.backends.processor_parts import single_node_part
from penstock.errors import ModelError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.composite import Composite
from penstock.ir.element_types import ElementTypes
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op, Site
from penstock.ir.tensor import DType, TensorType
from penstock.opkit.layers import WIDE
from penstock.ops.binary import Add, Mul, Sub
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.pad import Pad
from penstock.ops.pool import AveragePool2D, MaxPool2D
from penstock.ops.reshape import Shape
from penstock.uma import OpStrategy, UMABackend, is_op, wildcard

WRONG = (DType.INT16, DType.UINT8, DType.FLOAT32)
HOST = load_target("host")
LAYERS = (Conv2D, DepthwiseConv2D, FullyConnected)
VARIANTS: dict[str, tuple[type[Op], ...]] = {
    "dsp": (*LAYERS, Add, Sub, Mul, AveragePool2D, MaxPool2D),
    "mve": (*LAYERS, Add, Sub, Mul, AveragePool2D, MaxPool2D),
    "portable": (),
    "thumb": (*LAYERS, Add, Sub, AveragePool2D),
}
"""By core family, the operators for which it has kernels."""
PLAIN = tuple(
    sample(op, int8(1, 4, 4, 8), int8(1, 4, 4, 8), scale=0.1, zero=0) for op in (Add(), Sub())
)
"""Sums without broadcasting, which every family has kernels for."""


def with_wrong_types(site: Site) -> Iterator[Site]:
    """The site with one tensor of another element type, for every tensor and type."""
    for wrong in WRONG:
        for k, type in enumerate(site.inputs):
            types = (*site.inputs[:k], replace(type, dtype=wrong), *site.inputs[k + 1 :])
            if type.dtype is not wrong:
                yield replace(site, inputs=types)
        if site.output.dtype is not wrong:
            yield replace(site, output=replace(site.output, dtype=wrong))


def node_at(op: Op, site: Site) -> Node:
    pairs = enumerate(zip(site.inputs, site.constants, strict=True))
    return Node(op, tuple(Value(f"x{k}", *pair) for k, pair in pairs), Value("y", site.output))


def test_every_core_family_is_listed() -> None:
    assert set(VARIANTS) == set(core_families())


@pytest.mark.parametrize(
    ("family", "op"), [(name, op) for name, ops in VARIANTS.items() for op in ops]
)
def test_a_core_kernel_takes_no_other_element_types(family: str, op: type[Op]) -> None:
    choices = core_families()[family].kernel, core_families()[family].fallback_kernel
    samples = (s for s in (*(s for _, s in SAMPLES), *PLAIN) if type(s.op) is op)
    samples = [s for s in samples if choices[0](s.op, s.site) is not None]
    assert samples
    for one in samples:
        for site in with_wrong_types(one.site):
            assert [select(one.op, site) for select in choices] == [None, None]


@pytest.mark.parametrize("name", core_families())
@every_computing_sample
def test_no_processor_kernel_serves_other_element_types(sample: Sample, name: str) -> None:
    """Also where the family has no kernel of its own, so that portable C would serve.

    Operators of several element types compute each by a kernel, or with parameters, of its own."""
    engine = replace(HOST.engines[0], kernels=name)
    kernel = single_node_part(node_at(sample.op, sample.site), engine).kernel
    for site in with_wrong_types(sample.site):
        if isinstance(sample.op, Shape) and site.output == sample.site.output:
            continue  # a shape does not depend on element types
        if getattr(sample.op, "TAKES_WIDE", False) and site.inputs[1].dtype is WIDE:
            continue  # wide weights have other elements
        node = node_at(sample.op, site)
        if computes(sample.op, site):
            if DType.BOOL in (x.dtype for x in sample.site.inputs):
                continue  # a bool is a byte, as uint8 is
            assert single_node_part(node, engine).kernel != kernel
        else:
            with pytest.raises(ModelError, match=r"must|may"):
                single_node_part(node, engine)


def computes(op: Op, site: Site) -> bool:
    """Whether the operator turns elements of the inputs' types into those of the output's."""
    try:
        return op.result_type(site.inputs).dtype is site.output.dtype
    except ModelError:
        return False


def accelerated() -> Graph:
    """Operators that accelerators run."""
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 8, 8, 16)), channels=16, kernel=1, name="conv")
    y = net.add(x, net.conv2d(x, channels=16, kernel=1, name="other"), name="add")
    z = net.fully_connected(net.max_pool2d(y, 2, name="pool"), 16, name="dense")
    signal = net.conv2d(net.input((1, 1, 20, 8)), channels=8, kernel=(1, 3), name="signal")
    return net.build(z, signal)


def with_type(graph: Graph, dtype: DType) -> Graph:
    """The graph with that element type of all computed tensors."""

    def changed(value: Value) -> Value:
        type = TensorType(value.type.shape, dtype, value.type.quantisation)
        return value if value.data is not None else replace(value, type=type)

    nodes = tuple(
        replace(n, inputs=tuple(map(changed, n.inputs)), output=changed(n.output))
        for n in graph.nodes
    )
    inputs, outputs = (tuple(map(changed, ends)) for ends in (graph.inputs, graph.outputs))
    return Graph(graph.name, inputs, outputs, nodes)


@pytest.mark.parametrize("name", names())
def test_an_accelerator_takes_no_other_element_types(name: str) -> None:
    (accelerator,) = open_accelerators((name,), HOST)

    def offloaded(graph: Graph) -> tuple[set[str], list[str]]:
        found, refusals = claimed(graph, accelerator)
        found, left = choose(found, accelerator, lambda node: 0, refusals)
        ours = {n.name for n in found.nodes if isinstance(n.op, Composite)}
        return ours, [item.reason for item in left]

    graph = accelerated()
    assert offloaded(graph)[0]
    for wrong in WRONG:
        ours, reasons = offloaded(with_type(graph, wrong))
        assert not ours
        assert any(f"input is {wrong.value}, must be int8" in reason for reason in reasons)


class Padder(UMABackend):
    """Pads tensors of the element types that it declares."""

    def __init__(self, declared: ElementTypes | None) -> None:
        super().__init__()

        def strategy(attrs: object, inputs: object, out: object, target: object) -> OpStrategy:
            found = OpStrategy()
            found.add_implementation(
                lambda call: (), name="pad", cost=lambda o, rows: 1, element_types=declared
            )
            return found

        self._register_pattern("pad", is_op("nn.pad")(wildcard()))
        self._register_operator_strategy("nn.pad", strategy)

    @property
    def target_name(self) -> str:
        return "padder"


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("declared", [None, DType.INT8, DType.INT16])
def test_an_implementation_runs_the_element_types_that_it_declares(
    dtype: DType, declared: DType | None
) -> None:
    x = Value("x", TensorType((1, 2), dtype))
    y = Value("y", TensorType((1, 4), dtype))
    graph = Graph("net", (x,), (y,), (Node(Pad((0, 1), (0, 1), 0), (x,), y),))
    types = None if declared is None else ElementTypes((declared,), declared)
    accelerator = Padder(types).accelerator({}, HOST)
    found, left = choose(claimed(graph, accelerator)[0], accelerator, lambda node: 0)
    runs = isinstance(found.nodes[0].op, Composite)
    assert runs is (dtype is (declared or DType.INT8))
    wanted = (declared or DType.INT8).value
    hint = "" if declared else " (it declares no element_types)"
    assert runs or left[0].reason.endswith(f"input 0 is {dtype.value}, must be {wanted}{hint}")
