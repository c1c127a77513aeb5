"""Cases: correct files agree, changed ones are detected, malformed ones are errors.

The hand-written file's figures were computed on paper; the reference below multiplies matrices of
floats, and shares nothing with penstock's forms."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beside
from benchmarks import cases
from benchmarks.cascader_cases import KEYS, check
from benchmarks.case_file import parse_number
from penstock.errors import ModelError, UnsupportedError

REPOSITORY = Path(__file__).resolve().parents[3]
SMALL = REPOSITORY / "tests" / "cases" / "cascader_small.json"
SHARED = beside.CASES


def small() -> dict[str, Any]:
    return json.loads(SMALL.read_text("utf-8"))


def written(document: object, folder: Path) -> Path:
    path = folder / "cases.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_the_cases_written_by_hand_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases.main([str(SMALL)]) == 0
    assert capsys.readouterr().out == (
        "propagators: 2 of 2 agree\n"
        "op_propagators: 7 of 7 agree\n"
        "pareto_frontier: 2 of 2 agree\n"
        "count_stripes: 3 of 3 agree\n"
        "14 of 14 agree\n"
    )


@beside.need(SHARED)
def test_the_shared_cases_agree() -> None:
    assert cases.main([str(SHARED / "tvm_cascader.json")]) == 0


@beside.need(SHARED)
def test_every_other_shared_file_is_known_and_not_checked_yet() -> None:
    checked = ("tvm_cascader.json", "smaug_tiling.json", "nvdla_*.json", "partition_*.json")
    others = [path for path in SHARED.glob("*.json") if not any(map(path.match, checked))]
    assert others
    for path in others:
        with pytest.raises(UnsupportedError, match="not checked yet") as caught:
            cases.main([str(path)])
        assert caught.value.exit_code == 1


CHANGES = (
    (("propagators", "cases", 1, "expected", "strides", 0), 2.5, "case 1 thirds: strides is [7/3]"),
    (
        ("propagators", "cases", 0, "expected", "stripes", 1),
        2,
        "stripes is [3, 1], expected [3, 2]",
    ),
    (("op_propagators", "cases", 0, "bias_transform", 1, 5), 4, "case 0 conv2d: bias_transform is"),
    (("op_propagators", "cases", 0, "weight_offset", 3), 1, "weight_offset is [0, 0, 0, 0]"),
    (("op_propagators", "cases", 1, "ifm_offset", 2), 3, "ifm_offset is [0, 0, -3, 0]"),
    (("op_propagators", "cases", 3, "expected_whole_ifm2", 1), 6, "expected_whole_ifm2 is"),
    (("op_propagators", "cases", 3, "ifm_transform", 2, 5), 0, "-3/8"),
    (("pareto_frontier", 0, "is_optimal", 2), True, "is_optimal is [true, true, false, true,"),
    (("count_stripes", "cases", 1, "expected_counts", 0, "count"), 2, "counts is {[1]: 1, [3]: 3}"),
)


@pytest.mark.parametrize(("place", "value", "message"), CHANGES)
def test_a_figure_that_is_changed_is_found(
    place: tuple[str | int, ...],
    value: object,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = changed(small(), place, value)
    assert cases.main([str(written(document, tmp_path))]) == 1
    out = capsys.readouterr().out
    assert message in out
    assert "13 of 14 agree" in out


def changed(document: Any, place: tuple[str | int, ...], value: object) -> Any:
    result = copy.deepcopy(document)
    inner = result
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return result


MALFORMED = (
    (("propagators", "cases", 0, "transform", 2), [0, 0, 2], "the last row is", "case 0"),
    (("propagators", "cases", 0, "transform"), [[1, 0], [0, 1]], "offsets", "case 0"),
    (("propagators", "cases", 1, "input", "shape"), [1, 2], "of 2 axes have 1, 1", "case 1"),
    (("propagators", "cases", 1, "transform"), [[1, 0, 0], [0, 0, 1]], "takes 2 axes", "case 1"),
    (("propagators", "cases", 1, "input", "shape"), ["x"], "valid integer", "input, shape, 0"),
    (("propagators", "cases", 1, "transform"), [[True, 0], [0, 1]], "a number", "transform, 0, 0"),
    (("propagators", "cases"), [], "no list of cases", "propagators"),
    (("op_propagators", "cases", 0, "op"), "attention", "attention", "op_propagators, case 0"),
    (("op_propagators", "cases", 0, "kernel"), [0, 1], "greater than 0", "kernel, 0"),
    (("op_propagators", "cases", 0, "ofm_layout"), "CHWN", "NHCWB16", "ofm_layout"),
    (("op_propagators", "cases", 0, "lut_transform"), [[1]], "lut_transform", "case 0"),
    (("op_propagators", "cases", 2, "weight_offset"), [0], "no input weight", "case 2"),
    (("op_propagators", "cases", 1, "ofm_channels"), 34, "no multiple of 33", "case 1"),
    (("op_propagators", "cases", 3, "ifm2_shape_nhwc"), [1, 2, 7, 1], "stretch", "case 3"),
    (("op_propagators", "cases", 3, "whole_tensor_ofm"), [1], "must have 5 axes", "case 3"),
    (("pareto_frontier", 0, "costs", 0), [1], "not of one length", "case 0"),
    (("count_stripes", "cases", 0, "stripe_config", "strides"), [1, 1], "1, 2, 1, 1, 1", "case 0"),
    (("count_stripes", "cases", 0, "stripe_config", "strides"), [-1], "at least 0", "case 0"),
    (("count_stripes", "cases", 0, "expected_counts", 1), {"shape": [3], "count": 1}, "twice", "0"),
)


@pytest.mark.parametrize(("place", "value", "what", "where"), MALFORMED)
def test_a_malformed_case_is_named(
    place: tuple[str | int, ...], value: object, what: str, where: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=what) as caught:
        cases.main([str(written(changed(small(), place, value), tmp_path))])
    assert where in caught.value.where
    assert str(tmp_path) in caught.value.where


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no JSON", "bench-021"),
        ('{"pareto_frontier": NaN}', "bench-021"),
        ('{"pareto_frontier": [{"costs": [[1e999999999, 1]], "is_optimal": [true]}]}', "bench-021"),
        ("[" * 100_000, "bench-021"),
        ("[]", "bench-022"),
        ("{}", "bench-024"),
        ('{"what": 1}', "bench-024"),
        ('{"pareto_frontier": 3}', "bench-022"),
        ('{"pareto_frontier": [3]}', "bench-022"),
    ],
)
def test_a_file_without_cases_is_a_four_part_error(text: str, code: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        cases.main([str(written(text, tmp_path))])
    assert caught.value.code == code
    assert caught.value.exit_code == 1
    assert caught.value.where
    assert caught.value.help


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        cases.main([str(tmp_path / "nothing.json")])


@pytest.mark.parametrize("key", KEYS)
def test_a_file_may_have_one_section_only(key: str, tmp_path: Path) -> None:
    assert cases.main([str(written({key: small()[key]}, tmp_path))]) == 0


# The reference: products of float matrices, for any window, layout and shape.

TO_BRICKS = np.array(
    [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 1 / 16, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 16],
     [0, 0, 0, 0, 1]]
)  # fmt: skip


def from_bricks(channels: int) -> np.ndarray[Any, Any]:
    missing = -(-channels // 16) * 16 - channels
    rows = [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 16, 0, 0, -missing]]
    return np.array([*rows, [0, 0, 0, 0, 0, 1]])


pairs = st.tuples(st.integers(1, 7), st.integers(1, 7))


@given(
    op=st.sampled_from(("conv2d", "depthwise_conv2d", "pooling")),
    kernel=pairs,
    stride=pairs,
    dilation=pairs,
    padding=st.tuples(*[st.integers(0, 5)] * 4),
    layouts=st.tuples(*[st.sampled_from(("NHWC", "NHCWB16"))] * 2),
    shape=st.tuples(st.just(1), *[st.integers(1, 80)] * 3),
    outputs=st.integers(1, 80),
)
def test_operators_agree_with_products_of_float_matrices(
    op: str,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    layouts: Any,
    shape: Any,
    outputs: int,
) -> None:
    outputs = outputs if op == "conv2d" else shape[3]
    size = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    channels = [0, 0, 0, 0, shape[3]] if op == "conv2d" else [0, 0, 0, 1, 0]
    ifm = np.array(
        [[1, 0, 0, 0, 0], [0, stride[0], 0, 0, size[0] - stride[0]],
         [0, 0, stride[1], 0, size[1] - stride[1]], channels, [0, 0, 0, 0, 1]]
    )  # fmt: skip
    deep = shape[3] if op == "conv2d" else 1
    constants = [[0, 0, 0, 0, n] for n in (*kernel, deep, 1)]
    weight = np.array([[0, 0, 0, 1, 0], *constants])
    bias = np.array([[0, 0, 0, 1, 0], [0, 0, 0, 0, 10], [0, 0, 0, 0, 1]])
    if layouts[1] == "NHCWB16":
        ifm, weight, bias = (m @ from_bricks(outputs) for m in (ifm, weight, bias))
    offset = [0, -padding[0], -padding[1], 0]
    if layouts[0] == "NHCWB16":
        ifm, offset = TO_BRICKS @ ifm, [0, -padding[0], 0, -padding[1], 0]
    case = {
        "op": op, "kernel": kernel, "stride": stride, "dilation": dilation, "padding_tlbr": padding,
        "ifm_layout": layouts[0], "ofm_layout": layouts[1], "ifm_shape_nhwc": shape,
        "ofm_channels": outputs, "ifm_transform": ifm.tolist(), "ifm_offset": offset,
    }  # fmt: skip
    if op != "pooling":
        case |= {"weight_transform": weight.tolist(), "bias_transform": bias.tolist()}
    assert_agrees(case)


@given(
    shape=st.tuples(st.just(1), *[st.integers(1, 80)] * 3),
    stretched=st.tuples(*[st.booleans()] * 3),
    layouts=st.tuples(*[st.sampled_from(("NHWC", "NHCWB16"))] * 3),
)
def test_two_operands_agree_with_products_of_float_matrices(
    shape: Any, stretched: Any, layouts: Any
) -> None:
    shape2 = (1, *(1 if s else n for n, s in zip(shape[1:], stretched, strict=True)))
    ifm = np.eye(5)
    ifm2 = np.eye(5)
    for axis in (1, 2, 3):
        if shape2[axis] == 1:
            ifm2[axis] = [0, 0, 0, 0, 1]
    whole, whole1, whole2 = (
        bricked(*pair)
        for pair in zip((shape, shape, shape2), (layouts[2], *layouts[:2]), strict=True)
    )
    if layouts[2] == "NHCWB16":
        ifm, ifm2 = ifm @ from_bricks(shape[3]), ifm2 @ from_bricks(shape[3])
    ifm = TO_BRICKS @ ifm if layouts[0] == "NHCWB16" else ifm
    ifm2 = TO_BRICKS @ ifm2 if layouts[1] == "NHCWB16" else ifm2
    assert_agrees({
        "op": "binary_elementwise", "ofm_shape_nhwc": shape, "ifm2_shape_nhwc": shape2,
        "ifm_layout": layouts[0], "ifm2_layout": layouts[1], "ofm_layout": layouts[2],
        "ifm_transform": ifm.tolist(), "ifm2_transform": ifm2.tolist(), "whole_tensor_ofm": whole,
        "expected_whole_ifm": whole1, "expected_whole_ifm2": whole2,
    })  # fmt: skip


def bricked(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    n, h, w, c = shape
    return (n, h, -(-c // 16), w, 16) if layout == "NHCWB16" else shape


def assert_agrees(case: dict[str, Any]) -> None:
    """As it would be read from a file."""
    document = json.loads(json.dumps({"op_propagators": [case]}), parse_float=parse_number)
    (section,) = check(document, "drawn")
    assert section.difference == ""
    assert section.agreed == 1
