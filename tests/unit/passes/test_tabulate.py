"""The tables of chains from int8 over real numbers to int8 hold what the kernels of TensorFlow Lite
Micro compute, element by element, for any scales."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.operators.drawing import Drawing, Drawn
from benchmarks.operators.reference import Reference, Refusal, tflite_micro
from penstock.frontends.open import parse
from penstock.ops.tabulated import Tabulated
from penstock.pipeline.graphs import simplify
from penstock.simulators.graph import run_graph
from tools.tflite_writer import TensorSpec

CHAINS = (
    ("SQRT",), ("SQUARE",), ("NEG",), ("ABS",), ("RSQRT",), ("FLOOR",), ("CEIL",), ("ROUND",),
    ("LOG",), ("EXP",), ("ELU",), ("LOGISTIC",), ("TANH",), ("ABS", "SQRT"),
    ("SQUARE", "NEG", "EXP"),
)  # fmt: skip
MODELS = 40


@pytest.fixture(scope="module")
def reference() -> Iterator[Reference]:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    with Reference(tflite_micro()) as found:
        yield found


def chain(names: tuple[str, ...], seed: int) -> Drawn:
    """A model with every int8 element as input, and scales at which most outputs differ."""
    d = Drawing(np.random.default_rng([seed, len(names)]))
    scale = float(np.float32(2.0 ** d.rng.uniform(-9, -3)))
    x = d.int8("x", (1, 256), scale, d.choose(-128, 0, d.integer(-128, 127)))
    d.inputs.append(x)
    for name in ("DEQUANTIZE", *names):
        y = d.tensor(TensorSpec(f"t{len(d.tensors)}", (1, 256), "float32"))
        d.operator(name, (len(d.tensors) - 2,), y)
    y = d.output((1, 256), float(np.float32(2.0 ** d.rng.uniform(-9, 0))))
    d.operator("QUANTIZE", (y - 1,), y)
    drawn = d.drawn()
    every = np.arange(-128, 128).astype(np.int8).reshape(1, 256)
    return Drawn(drawn.tensors, drawn.operators, drawn.inputs, drawn.outputs, (every,))


def defined(drawn: Drawn, reference: Reference) -> np.ndarray:
    """Whether each output is defined in C++: its real number is within int32 steps."""
    reals = Drawn(
        drawn.tensors, drawn.operators[:-1], drawn.inputs, (drawn.outputs[0] - 1,), drawn.values
    )
    answer = reference.run(reals.tflite(), reals.values)
    assert not isinstance(answer, Refusal)
    scale = drawn.tensors[drawn.outputs[0]].scales[0]
    with np.errstate(all="ignore"):
        return np.abs(answer[0] / np.float32(scale)) < 2.0**30


@pytest.mark.parametrize("names", CHAINS, ids="-".join)
def test_tables_equal_the_reference(names: tuple[str, ...], reference: Reference) -> None:
    for seed in range(MODELS):
        drawn = chain(names, seed)
        graph = simplify(parse(drawn.tflite(), "chain"))
        assert [type(node.op) for node in graph.nodes] == [Tabulated]
        found = run_graph(graph, {graph.inputs[0].name: drawn.values[0]})
        answer = reference.run(drawn.tflite(), drawn.values)
        assert not isinstance(answer, Refusal)
        compared = defined(drawn, reference)
        mine = found[graph.outputs[0].name]
        np.testing.assert_array_equal(mine[compared], answer[0][compared], drawn.describe())
