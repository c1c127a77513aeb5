"""ethos_u.interpreter: commands, text, payloads, bounds, counts, accumulators, ranges, scaling."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ethos_u_judge as judge
from ethos_u_text import MAX_POOL, STOP, ran, text
from penstock.uma import BackendError, CapacityError, UnsupportedError
from penstock_ethos_u.interpreter import (
    assemble,
    disassemble,
    driver_payload,
    execute,
)
from penstock_ethos_u.interpreter.feature_map import (
    ElementBox,
    FeatureMap,
    first_overlap,
    runs,
    size_bytes,
    union,
)
from penstock_ethos_u.interpreter.output import scaled


def test_an_operation_on_bytes_counts_what_it_does() -> None:
    memory = np.arange(1024, dtype=np.uint8)
    done = execute(assemble(text()), {0: memory}, "ethos-u55-128")
    assert memory[256:512].tolist() == list(range(256))
    assert done.operations == {"max_pool": 1}
    assert done.bytes_read == {0: 256}
    assert done.bytes_written == {0: 256}
    assert done.ordered == ()


def test_words_after_the_stop_command_are_ignored() -> None:
    words = assemble(text()) + b"\xff\xff\xff\xff"
    assert execute(words, {0: np.zeros(512, np.uint8)}, "ethos-u65-256").operations


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([0x0002, 0x03FF], "there is no command 0x03ff"),
        ([0x0002, 0x8002], "there is no command 0x8002"),
        ([0x0002, 0x4000], "NPU_SET_IFM_BASE0 has no payload"),
        ([0x0111], "it ends without NPU_OP_STOP"),
        ([0x0002, 0x10002], "NPU_OP_CONV 0x1 has bits of no field"),
    ],
)
def test_a_stream_that_is_none(words: list[int], what: str) -> None:
    with pytest.raises(BackendError, match=what) as raised:
        disassemble(np.array(words, "<u4").tobytes())
    assert f"word {len(words) - (what[:2] != 'it')}" in raised.value.where


def test_text_of_bytes_of_text_is_the_same_text() -> None:
    shown = disassemble(assemble(text()))
    assert disassemble(assemble(shown)) == shown
    assert "0x000000 NPU_SET_IFM_REGION 0\n0x000004 NPU_SET_IFM_BASE0 0x0\n" in shown
    assert shown.endswith("NPU_OP_POOL mode=0\n\n0x0000f4 NPU_OP_STOP mask=65535\n\n")


@pytest.mark.parametrize(
    "line",
    ["NPU_OP_FLY", "NPU_SET_BLOCKDEP 4", "NPU_SET_BLOCKDEP x", "NPU_SET_OFM_SCALE size=1",
     "NPU_SET_IFM_PAD_TOP"],
)  # fmt: skip
def test_text_that_is_none(line: str) -> None:
    if line == "NPU_SET_IFM_PAD_TOP":
        assert assemble(line) == assemble(f"{line} 0 # nothing is 0")
        return
    with pytest.raises(BackendError, match="unknown command, field or value"):
        assemble(f"# a line before\n{line}\n")


def test_the_stream_of_a_payload() -> None:
    words = assemble(text())
    actions = [0x10000001, 1, 2, 5, 2 | len(words) // 4 << 16]
    assert driver_payload(b"COP1" + np.array(actions, "<u4").tobytes() + words) == words


@pytest.mark.parametrize(
    "payload", [b"", b"COP3", b"COP1", b"COP1\x07\0\0\0", b"COP1\x02\0\x01\0", b"COP1\x02\0\x00"]
)
def test_a_payload_that_is_none(payload: bytes) -> None:
    with pytest.raises(BackendError) as raised:
        driver_payload(payload)
    assert raised.value.code == "ethosu-102"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"IFM_BASE0": "800"}, r"IFM accesses bytes \[0x320, 0x420\) of region 0"),
        ({"OFM_BASE0": "769"}, r"OFM accesses bytes \[0x301, 0x401\) of region 0"),
        ({"OFM_REGION": "5"}, "OFM lies in region 5, which was not given"),
        ({"OFM_STRIDE_Y": "-200"}, r"OFM accesses bytes \[-0x158, 0x140\) of region 0"),
        ({"IFM_HEIGHT0_M1": "0", "IFM_BASE2": "1000"}, "IFM accesses bytes"),
    ],
)
def test_accesses_outside_a_region_are_refused(changes: dict[str, str], what: str) -> None:
    with pytest.raises(CapacityError, match=what) as raised:
        ran(text(**changes))
    assert raised.value.where.startswith("operation 0 (max_pool), word ")


@pytest.mark.parametrize(
    "changes",
    [
        {"ACTIVATION": "function=4"},
        {"PARALLEL_MODE": "1"},
        {"IFM_UPSCALE": "3"},
        {"IFM_PRECISION": "precision=3"},
        {"OFM_PRECISION": "rounding=3"},
        {"IFM_PAD_TOP": "9"},
    ],
)
def test_operations_without_a_model_are_refused(changes: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError) as raised:
        ran(text(**changes))
    assert raised.value.code == "ethosu-106"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("NPU_OP_BRANCH condition=0", "NPU_OP_BRANCH"),
        ("NPU_SET_DMA0_LEN 16\nNPU_SET_DMA0_SRC_REGION index_mode=1\nNPU_OP_DMA_START", "indexed"),
        ("NPU_OP_ELEMENTWISE mode=11", "mode 11 of NPU_OP_ELEMENTWISE"),
        ("NPU_SET_ACC_FORMAT input=1\nNPU_OP_DEPTHWISE", "ACC_FORMAT"),
    ],
)
def test_operations_of_u85_without_a_model_are_refused(line: str, what: str) -> None:
    words = assemble(f"NPU_SET_WEIGHT_FORMAT\n{line}\n{STOP}", "u85")
    with pytest.raises(UnsupportedError, match=what) as raised:
        execute(words, {0: np.zeros(64, np.uint8)}, "ethos-u85-256")
    assert raised.value.code == "ethosu-106"


def test_each_family_has_its_own_commands() -> None:
    with pytest.raises(BackendError, match="unknown command"):
        assemble("NPU_SET_PARALLEL_MODE 1", "u85")
    with pytest.raises(BackendError, match="there is no command 0x012e"):
        disassemble(assemble("NPU_SET_WEIGHT_FORMAT fast=1", "u85"))


def test_registers_keep_their_values() -> None:
    """A second operation needs to set only what is new."""
    memory = np.arange(1024, dtype=np.uint8)
    again = text().replace(STOP, f"NPU_SET_OFM_BASE0 512\n{MAX_POOL}\n{STOP}")
    done = execute(assemble(again), {0: memory}, "ethos-u55-128")
    assert done.operations == {"max_pool": 2}
    assert memory[512:768].tolist() == list(range(256))


def test_negative_strides_reverse() -> None:
    memory = np.arange(1024, dtype=np.uint8)
    done = text(OFM_STRIDE_Y="-64", OFM_BASE0=str(512 + 192))
    execute(assemble(done), {0: memory}, "ethos-u55-128")
    rows = memory[512:768].reshape(4, 64)
    np.testing.assert_array_equal(rows[::-1].ravel(), np.arange(256, dtype=np.uint8))


def test_sums_that_accumulators_do_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    from ethos_u_layers import Stage, api

    for kind, right in (("Int32", False), ("Int40", True)):
        stage = Stage()
        op = api.NpuConv2DOperation()
        op.ifm, op.ofm = stage.map((1, 1, 600), "INT16"), stage.map((1, 1, 8), "INT16")
        op.kernel, op.padding = api.NpuKernel(1, 1), api.NpuPadding(0, 0, 0, 0)
        op.accumulator_type = api.NpuAccumulatorType[kind]
        stage.filled(op.ifm, [[[32767] * 600]])
        stage.add(op)
        stage.weights(op, np.full((8, 1, 1, 600), 127), 16)
        stage.biases(op, [(0, 1 << 30, 50)] * 8)
        if right:
            stage.run()
            assert stage.result(op.ofm) == [[[32767 * 127 * 600 >> 20] * 8]]
        else:
            with pytest.raises(BackendError) as raised:
                stage.run()
            assert raised.value.code == "ethosu-109"
            assert "overflow accumulators of 32 bits" in raised.value.what


small = st.integers(0, 40)
pieces = st.lists(st.tuples(small, st.integers(1, 6)), max_size=8)


def bytes_in(found: list[tuple[int, int]]) -> set[int]:
    return {byte for lower, size in found for byte in range(lower, lower + size)}


@given(one=pieces, other=pieces)
def test_ranges_are_sets_of_bytes(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    made = [runs(np.array([a for a, _ in p], np.int64), np.array([n for _, n in p], np.int64))
            for p in (one, other)]  # fmt: skip
    both = union(*made)
    found = {byte for lower, upper in both.tolist() for byte in range(lower, upper)}
    assert found == bytes_in(one) | bytes_in(other)
    assert size_bytes(both) == len(found)
    assert all(a[1] < b[0] for a, b in zip(both.tolist(), both.tolist()[1:], strict=False))
    common = bytes_in(one) & bytes_in(other)
    first = first_overlap(*made)
    assert (first is None) == (not common)
    if first:
        assert set(range(*first)) <= common


@given(
    value=st.integers(-(2**39), 2**39 - 1),
    scale=st.integers(0, 2**32 - 1),
    shift=st.integers(0, 63),
    rounding=st.sampled_from(("TFL", "TRUNCATE", "NATURAL")),
)
def test_scaling_equals_exact_fractions(value: int, scale: int, shift: int, rounding: str) -> None:
    if abs(Fraction(value * scale, 2**shift)) < 2**62:
        found = int(scaled(np.array([value]), scale, shift, rounding.lower())[0])
        assert found == judge.scaled(value, scale, shift, rounding)


@given(data=st.data())
def test_ranges_of_a_box_are_the_bytes_of_its_elements(data: st.DataObject) -> None:
    draw = data.draw
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 40)))
    element_bytes = draw(st.sampled_from((1, 2, 4)))
    bases = draw(st.tuples(*[st.integers(0, 2000)] * 4))
    map = FeatureMap(
        "ifm", 0, shape, bases, draw(st.integers(1, 6)), draw(st.integers(1, 6)),
        draw(st.integers(1, 6)), draw(st.integers(-300, 300)), draw(st.integers(-100, 100)),
        draw(st.integers(0, 200)), draw(st.booleans()), element_bytes, True, 0,
    )  # fmt: skip
    box = ElementBox(*(_interval(draw, size) for size in shape))
    every = map.addresses(box).ravel().tolist()
    expected = {at + k for at in every for k in range(element_bytes)}
    found = {b for lower, upper in map.ranges(box).tolist() for b in range(lower, upper)}
    assert found == expected


def _interval(draw: st.DrawFn, size: int) -> tuple[int, int]:
    lower = draw(st.integers(0, size - 1))
    return lower, draw(st.integers(lower + 1, size))
