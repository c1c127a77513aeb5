"""Law: operators that accept tensors of rank 0 are exact on them, for every family of kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from found import SAMPLES
from offloading import assert_exact, compiled
from penstock.errors import ModelError
from penstock.ir.graph import Graph, Node, Value

TARGETS = ("cortex-m4", "cortex-m55", "cortex-m0plus")


def scalar_nodes() -> Iterator[Node]:
    """The operators of all samples with scalars as variable inputs, if they accept these."""
    for name, sample in SAMPLES:
        pairs = zip(sample.site.inputs, sample.site.constants, strict=True)
        inputs = tuple(
            Value(f"{name}/{k}", type.with_shape(()) if data is None else type, data)
            for k, (type, data) in enumerate(pairs)
        )
        try:
            shape = sample.op.result_type(tuple(value.type for value in inputs)).shape
        except (ModelError, IndexError):
            continue
        if 0 not in shape and any(value.data is None for value in inputs):
            yield Node(sample.op, inputs, Value(name, sample.site.output.with_shape(shape)))


NODES = tuple(scalar_nodes())


def graph(nodes: Sequence[Node]) -> Graph:
    """A network of nodes that do not read each other."""
    inputs = tuple(value for node in nodes for value in node.variable_inputs)
    return Graph("scalars", inputs, tuple(node.output for node in nodes), tuple(nodes))


def test_binary_and_unary_operators_accept_scalars() -> None:
    kinds = {node.kind for node in NODES}
    assert {"Add", "Sub", "Mul", "Maximum", "Relu", "Logistic", "Quantize"} <= kinds


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("node", [pytest.param(node, id=node.name) for node in NODES])
def test_an_operator_on_scalars_is_exact(node: Node, target: str) -> None:
    assert_exact(compiled(graph((node,)), target=target))


def test_operators_on_scalars_are_exact_in_c(host_compilers: Sequence[str]) -> None:
    assert_exact(compiled(graph(NODES), target="cortex-m4"), "host")
