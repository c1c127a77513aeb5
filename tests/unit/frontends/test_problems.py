"""Several unsupported nodes are one error: a line for each cause, with the number of its nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import UnsupportedError
from penstock.frontends.causes import MOST_SHOWN, collected
from penstock.frontends.open import parse
from tools.onnx_writer import Model
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite


def problem(what: str, node: int, why: str = "") -> UnsupportedError:
    return UnsupportedError("model-020", what, where=f"m: node {node}", why=why, help="help")


def test_a_single_problem_is_unchanged() -> None:
    one = problem("SVDF: no", 3, "state")
    assert str(collected([one])) == str(one)


def test_equal_causes_are_one_line_with_a_count() -> None:
    every = [problem("SVDF: no", 1, "state"), problem("LSTM: no", 2)]
    every += [problem("SVDF: no", 4), problem("LSTM: no", 5), problem("LSTM: no", 6)]
    error = collected(every)
    assert (error.what, error.where) == ("SVDF: no", "m: node 1 and 1 more node")
    assert error.why.splitlines() == [
        "state; 1 more cause:",
        "       LSTM: no (m: node 2 and 2 more nodes)",
    ]


def test_long_lists_end_with_the_number_of_further_causes() -> None:
    error = collected([problem(f"OP{k}: no", k) for k in range(MOST_SHOWN + 4)])
    first, *lines = error.why.splitlines()
    assert first == f"{MOST_SHOWN + 3} more causes:"
    assert len(lines) == MOST_SHOWN + 1
    assert lines[-1].strip() == "and 3 more"


def test_each_kind_of_cause_has_its_remedy() -> None:
    every = [problem(f"{name}: no", k) for k, name in enumerate(("SVDF", "WHILE", "LSTM", "IF"))]
    helps = ("export without state", "unroll", "export without state", "unroll")
    error = collected([one.but(help=help) for one, help in zip(every, helps, strict=True)])
    assert [line.strip() for line in error.help.splitlines()] == [
        "SVDF: no, LSTM: no: export without state",
        "WHILE: no, IF: no: unroll",
    ]
    assert collected(every).help == "help"


@pytest.mark.parametrize(
    ("names", "help"),
    [
        (("RFFT2D", "RELU"), "compute it in your application: begin the network after it"),
        (("RELU", "RFFT2D"), "compute it in your application: end the network before it"),
        (("RELU", "RFFT2D", "RELU"), "replace it in the model by operators"),
        (("RFFT2D", "RELU", "RFFT2D"), "replace it in the model by operators"),
    ],
)
def test_the_remedy_for_an_operator_depends_on_its_place(names: tuple[str, ...], help: str) -> None:
    x = TensorSpec("x", (1, 4), scales=(0.5,), zero_points=(0,))
    tensors = (x, *(replace(x, name=f"t{k}") for k in range(len(names))))
    nodes = tuple(OperatorSpec(name, (k,), (k + 1,)) for k, name in enumerate(names))
    with pytest.raises(UnsupportedError) as caught:
        parse(write_tflite(tensors, nodes, (0,), (len(names),)), "m.tflite")
    assert caught.value.help.startswith(help)


def test_the_remedy_for_an_onnx_operator_depends_on_its_place() -> None:
    model = Model()
    inner = model.node("Unique", model.input(1, 4))
    with pytest.raises(UnsupportedError) as caught:
        parse(model.raw(model.node("Det", inner, scale=None)), "m.onnx")
    first, second = caught.value.help.splitlines()
    assert first.startswith("operator Unique: replace it in the model")
    assert second.strip().startswith("operator Det: compute it in your application: end")
