"""Laws of `matrix_rows`: attention computes the same row by row, and keeps few rows of scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lowered import assert_equal_to_graph, inputs_of_graph, lower
from offloading import assert_exact
from penstock import api
from penstock.ir.graph import Graph
from penstock.ir.verify import verify
from penstock.passes.matrix_rows import matrix_rows
from penstock.simulators.graph import run_graph
from strategies import seeds
from texts.graph_reader import graph_from_text


def attention(
    heads: int,
    rows: int,
    columns: int,
    depth: int = 2,
    *,
    shared: bool = False,
    transposed: bool = False,
    real: bool = False,
) -> Graph:
    """softmax(q k + mask) v; `shared`: all heads share v."""
    kind, plain = ("float32", "Plain") if real else ("int8", "")
    scale, fine = ("", "") if real else (" scale 0.25", " scale 0.00390625 zero -128")
    k, v = (columns, depth) if transposed else (depth, columns), 1 if shared else heads
    product = f"{plain}BatchMatmul(q, k, b_transposed={str(transposed).lower()})"
    mask = ", ".join(str(column % 3) for column in range(columns))
    return graph_from_text(f"""graph attention
input q: {kind}[1,{heads},{rows},{depth}]{scale}
input k: {kind}[1,{heads},{k[0]},{k[1]}]{scale}
input v: {kind}[1,{v},{columns},{depth}]{scale}
constant mask: {kind}[{columns}]{scale} = ({mask})
s: {kind}[1,{heads},{rows},{columns}]{scale} = {product}
m: {kind}[1,{heads},{rows},{columns}]{scale} = {plain}Add(s, mask)
p: {kind}[1,{heads},{rows},{columns}]{fine} = {plain}Softmax(m)
y: {kind}[1,{heads},{rows},{depth}]{scale} = {plain}BatchMatmul(p, v)
output y
""")


attentions = st.builds(
    attention,
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(2, 5),
    st.integers(1, 3),
    shared=st.booleans(),
    transposed=st.booleans(),
    real=st.booleans(),
)


@given(graph=attentions, seed=seeds)
def test_attention_computes_the_same_by_rows(graph: Graph, seed: int) -> None:
    made = matrix_rows(graph)
    assume(made is not None)
    assert made is not None
    verify(made)
    inputs = inputs_of_graph(graph, seed)
    np.testing.assert_array_equal(run_graph(made, inputs)["y"], run_graph(graph, inputs)["y"])
    assert_equal_to_graph(lower(made), seed)


def test_scalars_beside_a_product_stay_scalars() -> None:
    graph = graph_from_text("""graph scalars
input a: float32[1,4,2,2]
s: float32[1,4,2,2] = PlainBatchMatmul(a, a)
m: float32[1,1,1,1] = PlainReduction(s, function=ReductionFunction.MAX, axes=(0, 1, 2, 3))
y: float32[] = Reshape(m, shape=())
output y
""")
    made = matrix_rows(graph)
    assert made is not None
    inputs = inputs_of_graph(graph, 0)
    np.testing.assert_array_equal(run_graph(made, inputs)["y"], run_graph(graph, inputs)["y"])


@pytest.mark.parametrize("heads", [1, 4])
def test_few_rows_of_scores_live_at_a_time(heads: int) -> None:
    tokens, depth = 96, 8
    done = api.compile(attention(heads, tokens, tokens, depth), "cortex-m4", optimize="size")
    # A matrix of scores alone takes three times as much as q, k, v and y of a head.
    assert done.report.ram_bytes.arena < 4 * heads * tokens * depth
    assert_exact(done.compilation, "machine")
