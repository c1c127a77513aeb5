"""ethos_u.interpreter on networks that Vela compiled: TensorFlow Lite's numbers, and every wait and
block dependency is needed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import beside
from available import SHARED
from benchmarks.ethos_u_streams import ACCELERATORS, MODELS, SCHEDULES, run, tensors
from benchmarks.shared import Shared
from benchmarks.vela import VelaStream, has_vela, vela_stream
from penstock.errors import BackendError, ToolError, UnsupportedError
from penstock_ethos_u.interpreter import assemble, disassemble, execute
from penstock_ethos_u.interpreter.hardware import find_hardware

pytestmark = [
    pytest.mark.skipif(not has_vela(), reason="the package ethos-u-vela is not installed"),
    beside.need(SHARED),
]
QUICK = (
    ("kws_ref_model", "ethos-u55-128", "default"),
    ("kws_ref_model", "ethos-u65-256", "8 KiB"),
    ("vww_96_int8", "ethos-u55-256", "default"),
    ("pretrainedResnet_quant", "ethos-u55-128", "8 KiB"),
    ("pretrainedResnet_quant", "ethos-u65-256", "default"),
    ("kws_ref_model", "ethos-u65-512", "default"),
    ("kws_ref_model", "ethos-u85-128", "8 KiB"),
    ("pretrainedResnet_quant", "ethos-u85-256", "default"),
    ("str_ww_ref_model", "ethos-u85-512", "default"),
    ("ad01_int8", "ethos-u85-2048", "default"),
    ("person_detect", "ethos-u55-256", "size"),
)
U85_OPERATORS = (
    "arg_max", "batch_matmul", "greater_select", "leaky_relu", "mirror_pad_reflect", "prelu",
    "resize_bilinear_align", "resize_nearest_halfpixel", "reverse_v2", "transpose_nhwc_nchw",
)  # fmt: skip
"""Operators for which Vela uses operations that only Ethos-U85 has, or that differ there."""
EVERY = tuple(product(MODELS, ACCELERATORS, SCHEDULES))
OPERATORS = (
    "average_pool_3x3_same_s1", "average_pool_3x3_same_s2", "maximum", "softmax_4d", "tanh",
    "transpose_conv_3x3_s2_same", "resize_bilinear_2x_halfpixel", "mul_same", "sub_same",
    "prelu", "leaky_relu",
)  # fmt: skip


@cache
def stream_of(model: str, accelerator: str, schedule: str) -> VelaStream:
    return vela_stream(SHARED / f"{model}.tflite", accelerator, SCHEDULES[schedule])


def mismatches(model: str, accelerator: str, schedule: str, sets: int) -> int:
    stream = stream_of(model, accelerator, schedule)
    return run(stream, accelerator, Shared(SHARED), SHARED / f"{model}.tflite", sets).mismatches


@pytest.mark.parametrize(("model", "accelerator", "schedule"), QUICK)
def test_a_network_is_bit_exact(model: str, accelerator: str, schedule: str) -> None:
    assert mismatches(model, accelerator, schedule, sets=2) == 0


@pytest.mark.long
@pytest.mark.parametrize(("model", "accelerator", "schedule"), EVERY)
def test_every_network_is_bit_exact(model: str, accelerator: str, schedule: str) -> None:
    assert mismatches(model, accelerator, schedule, sets=5) == 0


@pytest.mark.parametrize(
    ("name", "accelerator"),
    [
        *((name, "ethos-u55-128") for name in OPERATORS),
        *((name, "ethos-u85-256") for name in U85_OPERATORS),
    ],
)
def test_an_operator_is_bit_exact(name: str, accelerator: str) -> None:
    path = SHARED / "ops" / f"rand_op_{name}.tflite"
    beside.needed(path)
    outcome = run(vela_stream(path, accelerator), accelerator, Shared(SHARED), path, sets=5)
    assert outcome.mismatches == 0
    assert outcome.elements > 0


def test_every_tensor_of_a_network_without_cascades_appears() -> None:
    stream = stream_of("kws_ref_model", "ethos-u55-128", "default")
    path = SHARED / "kws_ref_model.tflite"
    assert tensors(stream, "ethos-u55-128", Shared(SHARED), path) == (13, 13)


def family(accelerator: str) -> str:
    return find_hardware(accelerator).family


def changed(lines: list[str], place: int, line: str | None, accelerator: str) -> bytes:
    """A stream with another line at a place, or none."""
    middle = [] if line is None else [line]
    text = "\n".join([*lines[:place], *middle, *lines[place + 1 :]])
    return assemble(text, family(accelerator))


def places(stream: VelaStream, words: str, accelerator: str) -> Iterator[tuple[list[str], int]]:
    lines = disassemble(stream.words, family(accelerator)).splitlines()
    return ((lines, k) for k, line in enumerate(lines) if words in line)


def caught(words: bytes, stream: VelaStream, accelerator: str) -> bool:
    """Whether a stream is a hazard."""
    try:
        execute(words, stream.regions([np.zeros(490, np.int8)]), accelerator)
    except BackendError as error:
        return error.code == "ethosu-110"
    return False


@pytest.mark.parametrize(
    ("accelerator", "count"), [("ethos-u55-128", 19), ("ethos-u65-256", 19), ("ethos-u85-128", 17)]
)
def test_every_wait_that_is_removed_is_caught(accelerator: str, count: int) -> None:
    stream = stream_of("kws_ref_model", accelerator, "default")
    waits = list(places(stream, "_WAIT", accelerator))
    assert len(waits) == count
    for lines, place in waits:
        assert caught(changed(lines, place, None, accelerator), stream, accelerator), lines[place]


@pytest.mark.parametrize(
    ("accelerator", "most", "count"), [("ethos-u55-256", 3, 7), ("ethos-u85-128", 7, 10)]
)
def test_every_block_dependency_that_is_raised_is_caught(
    accelerator: str, most: int, count: int
) -> None:
    """But that of the first operation, which has none before it."""
    stream = stream_of("kws_ref_model", accelerator, "default")
    lower = [
        (a, k) for a, k in places(stream, "BLOCKDEP", accelerator) if not a[k].endswith(f" {most}")
    ]
    raised = f"NPU_SET_BLOCKDEP {most}"
    found = [
        caught(changed(lines, place, raised, accelerator), stream, accelerator)
        for lines, place in lower
    ]
    assert found == [False] + [True] * (count - 1)


def test_a_chain_that_is_torn_is_refused() -> None:
    accelerator = "ethos-u85-256"
    stream = stream_of("pretrainedResnet_quant", accelerator, "default")
    sums = list(places(stream, "NPU_OP_ELEMENTWISE mode=1", accelerator))
    assert len(sums) == 7
    for lines, place in sums[:2]:
        words = changed(lines, place, None, accelerator)
        regions = stream.regions([np.zeros((1, 32, 32, 3), np.int8)])
        with pytest.raises(UnsupportedError, match="another operation inside a chain"):
            execute(words, regions, accelerator)


def test_refusals_of_vela_are_reported(tmp_path: Path) -> None:
    (tmp_path / "none.tflite").write_bytes(b"none")
    with pytest.raises(ToolError, match="Vela makes no command stream of none"):
        vela_stream(tmp_path / "none.tflite", "ethos-u55-128")
