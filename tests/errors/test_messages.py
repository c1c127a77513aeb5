"""Every error code that users can meet has a golden: the exact text on the terminal."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from benchmarks.traffic import GroupLimits, Traffic, problem_from_edges
from command_line import CommandLine
from errors.golden import ACCELERATORS, CHECKOUT, CORE, Golden, raised_codes
from errors.wrong_accelerators import WRONG_ACCELERATORS
from errors.wrong_backends import WRONG_BACKENDS
from errors.wrong_descriptions import WRONG_DESCRIPTIONS, implementation, running
from errors.wrong_uma import WRONG_UMA
from foreign_nodes import graph_of, int8
from installed import install
from penstock import api, execution
from penstock.api import cache
from penstock.backends import discovery
from penstock.backends.processor_parts import assign
from penstock.cascader import BufferMode, Cascade, StatedPrefetch, parts, single_cascade
from penstock.errors import PenstockError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.hardware.quantities import parse_frequency
from penstock.ir.affine import Affine
from penstock.ir.tensor import DType, Quantisation, TensorType
from penstock.limits import check_time_limit
from penstock.pipeline.capacity import boards_with
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.graphs import simplify
from penstock.pipeline.request import Request
from penstock.pipeline.search import cost_model_and_memories
from penstock.pipeline.stated_schedules import stated_schedule
from penstock.reports.report import InterfaceTensor
from penstock.scheduling.cascades.groups import group_too_large, grouping_problem
from penstock.scheduling.grouping.strategies import best
from penstock.scheduling.model.stated import StatedSchedule
from penstock.scheduling.model.stripe import StripeConfig
from penstock.scheduling.options import Options
from penstock.simulators.cortex_m55 import qemu_program
from penstock.simulators.cortex_m_timing import core_named
from penstock.simulators.drawn_inputs import draw_inputs
from penstock.tiling.layer import Axis, Dimension, Layer, LayerOperand, Scratchpad, Scratchpads
from penstock.tiling.least_traffic import LeastTraffic
from penstock.tiling.nest import Cut, TileShape, choose
from penstock.tiling.sequence import TileSequence
from penstock.toolchains.command import Command
from penstock.toolchains.compiler import Compiler
from penstock.toolchains.elf_file import ElfImage
from penstock.toolchains.host import host_compiler, sanitised_compiler
from penstock.workers import executor_of, mapped
from small_networks import towers
from texts.graph_reader import graph_from_text

COMMANDS: dict[str, str] = {
    "capacity-001": "compile zoo:lenet5 --sram 2k --keep-input --max-parts 4",
    "golden-002": "verify good.tflite --goldens missing.npz",
    "golden-003": "verify good.tflite --goldens no_archive.npz",
    "golden-004": "verify good.tflite --goldens contradiction.npz",
    "golden-010": "verify good.tflite --goldens of_another_model.npz",
    "incremental-001": "compile pooled.tflite --incremental 3",
    "incremental-002": "compile zoo:lenet5 --incremental 1",
    "incremental-003": "compile one_pixel.tflite --incremental 1",
    "incremental-004": "compile softmax.tflite --incremental 1",
    "input-001": "run good.tflite --input a.npy --input b.npy",
    "input-002": "run good.tflite --input no_array.npy",
    "input-003": "run good.tflite --input shape_3.npy",
    "input-004": "run two_streams.tflite --input two_runs.npy --input three_runs.npy",
    "model-001": "compile missing.tflite",
    "model-002": "compile scale_is_nan.tflite",
    "model-003": "compile version_2.tflite",
    "model-004": "compile half_floats.tflite",
    "model-005": "compile pages.tflite",
    "model-026": "compile many_rows.onnx",
    "model-028": "compile computed_state.tflite",
    "model-030": "compile shared_state.tflite",
    "model-027": "compile sparse.tflite",
    "model-006": "compile half.tflite.gz",
    "model-031": "compile empty.tflite",
    "framework-001": "compile damaged.keras",
    "onnx-001": "compile damaged.onnx",
    "onnx-002": "compile opset_6.onnx",
    "onnx-003": "compile elsewhere.onnx",
    "onnx-004": "compile cycle.onnx",
    "onnx-005": "compile permuted.onnx",
    "onnx-007": "compile no_scale.onnx",
    "onnx-008": "compile any_width.onnx",
    "onnx-009": "compile integers.onnx",
    "usage-032": "compile any_batch.onnx --dimension batch",
    "usage-033": "verify good.tflite --reference onnx",
    "calibration-001": "compile floats.onnx --quantise no_archive.npz",
    "calibration-002": "compile floats.onnx --quantise of_another_model.npz",
    "calibration-003": "compile floats.onnx --quantise three_columns.npz",
    "calibration-004": "compile floats.onnx --quantise no_samples.npz",
    "calibration-007": "compile good.tflite --evaluate pixels.npz",
    "calibration-005": "compile floats.onnx --constant x=no_archive.npz",
    "calibration-006": "compile floats.onnx --constant x=three_columns.npy",
    "usage-170": "compile floats.onnx --constant x",
    "usage-171": "compile floats.onnx --constant y=three_columns.npy",
    "usage-172": "compile floats.onnx --integers x=int4",
    "usage-216": "compile zoo:lenet5 --float16",
    "usage-215": "verify zoo:lenet5 --float16 --reference tflite",
    "usage-181": "verify zoo:lenet5 --layer conv3",
    "usage-182": "verify zoo:lenet5 --layer conv2 --reference tflite",
    "usage-145": "compile no_scale.onnx --quantise no_samples.npz",
    "usage-146": "compile floats.onnx --quantise no_samples.npz --assume-int8",
    "model-012": "compile padding_7.tflite",
    "model-013": "compile one_input.tflite",
    "model-014": "compile weights_off_zero.tflite",
    "model-015": "compile wrong_shape.tflite",
    "model-016": "compile cycle.tflite",
    "model-020": "compile rfft2d.tflite",
    "model-021": "compile floats.tflite",
    "model-033": "compile no_elements.tflite",
    "model-023": "compile two_scales.tflite",
    "model-024": "compile scales_apart.tflite",
    "model-025": "compile bias_too_large.tflite",
    "output-001": "compile good.tflite -o .",
    "output-002": "compile good.tflite -o good.tflite/out",
    "output-005": "compile good.tflite -o linked --force",
    "limit-002": "compile good.tflite --size-limit 100",
    "target-001": "compile good.tflite --target missing.toml",
    "target-002": "compile good.tflite --target not_toml.toml",
    "target-003": "compile good.tflite --target no_size.toml",
    "target-004": "compile good.tflite --target no_arena.toml",
    "target-005": "compile good.tflite --target hostile_flag.toml",
    "usage-001": "compile good.tflite --sram lots",
    "usage-002": "compile good.tflite --target moon",
    "usage-010": "golden zoo:lenet5 -o out.npz",
    "usage-011": "compile good.tflite --memory attic=1k",
    "usage-012": "compile good.tflite --memory ram",
    "usage-013": "compile good.tflite --rounding triple",
    "usage-060": "compile good.tflite --package zephir",
    "usage-183": "compile good.tflite --format vela",
    "usage-184": "verify good.tflite --last-rung arm-runner",
    "usage-023": "compile good.tflite --accelerator vanilla:macs=4",
    "usage-019": "compile good.tflite --accelerator vanilla:macs_per_cycle=many",
    "usage-021": "backend new my-npu",
    "usage-022": "backend new vanilla",
    "usage-162": "run good.tflite --output y.txt",
    "usage-016": "compile good.tflite --order-states -1",
    "usage-056": "compile good.tflite --partition tears",
    "usage-152": (
        "compile good.tflite --accelerator nvdla:config=large,banked=True --partition cascades"
    ),
    "usage-058": "compile good.tflite --target ethos_u55:macs=256",
    "usage-059": "compile good.tflite --memory ram=64k --memory ram=32k",
    "usage-018": "compile good.tflite --workers 0",
    "usage-020": "compile good.tflite --bogus",
    "usage-111": "compile zoo:lenet",
    "usage-112": "compile zoo:lenet5:depth=3",
    "usage-113": "compile zoo:lenet5:seed=many",
    "usage-114": "compile any_batch.onnx --dimension bacth=1",
    "usage-164": "compile any_batch.onnx --channels-last imaeg",
    "usage-115": "compile explicit_state.tflite --state x1",
    "usage-116": "compile recurrent.onnx --state second/h=second/h_out",
    "usage-117": "compile explicit_state.tflite --state x2=x3",
    "usage-118": "compile good.tflite --state pixels=clamped",
    "usage-121": "scan no_models",
    "usage-122": "scan . --stop-after read --verify",
    "usage-158": "compile good.tflite --target stm32f407 --kernels mve",
    "usage-150": "compile good.tflite --name 3d-model",
    "usage-148": "scan . --time-limit 0",
    "usage-141": "compare missing.json good.tflite",
    "usage-142": "compare good.tflite good.tflite",
    "usage-144": "compile floats.tflite --assume-int8",
    "usage-123": "compile halves.onnx --io model",
    "usage-130": "compile two_streams.tflite --incremental 1",
    "usage-131": "compile explicit_state.tflite --incremental 1",
    "usage-132": "compile zoo:lenet5 --incremental 29",
}
"""By code, the command that meets it."""


def _without_a_simulated_core() -> None:
    done = compile_request(Request("good.tflite", load_target("host")))
    with execution.firmware(done):
        pass


_LINE = (Dimension(4, "c"),)
_DOUBLED = Layer(
    "doubled",
    (Axis("c", 4),),
    (LayerOperand("x", "input", _LINE),),
    LayerOperand("y", "output", _LINE),
)


class _Beyond(LeastTraffic):
    """A tiler whose tiles do not join."""

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        return ((0, 3, 6),)


def _with_a_group_too_large() -> None:
    target = load_target("two-region").resized({"tcm": 2048})
    parts = assign(simplify(towers()), target)
    _, memories = cost_model_and_memories(target)
    problem = grouping_problem(parts)
    order = range(len(problem.nodes))
    raise group_too_large(problem, order, order[:-1], memories, Options(partition="greedy"))


def _loaded() -> api.Network:
    """A network with two inputs and one output."""
    builder = GraphBuilder("pair")
    a, b = (builder.input((1, 4), name=name) for name in "ab")
    return api.load(builder.build(builder.add(a, b)))


_INTEGERS = """graph integers
input tokens: int32[1,4]
y: int32[1,4] = IntegerPairs(tokens, tokens, function=IntegerFunction.ADD)
output y
"""


def _with_a_worker_that_ends() -> None:
    with executor_of(2) as executor:
        next(mapped(os._exit, (1,), executor))


def _with_an_executor_that_is_closed() -> None:
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    with executor_of(threads) as executor:
        next(mapped(abs, (1,), executor))


def _with_a_time_limit_in_a_thread() -> None:
    with ThreadPoolExecutor(1) as threads:
        threads.submit(check_time_limit, 60, here=True).result()


def _with_a_sum_along_five_axes() -> None:
    graph = GraphBuilder("net")
    graph.add(graph.input((2, 1, 3, 1, 2)), graph.input((1, 3, 1, 2, 1)))


def _stated(
    cascades: tuple[Cascade, ...],
    target: str = "host",
    *,
    alternative: int = 0,
    rows: int = 0,
    columns: int = 0,
) -> None:
    """A schedule of `towers`, or of a convolution of a larger image and a softmax."""
    graph, chip = towers(), load_target(target)
    if rows:
        net = GraphBuilder("large")
        stem = net.conv2d(net.input((1, rows, columns, 1)), 2, 3, name="stem")
        graph = net.build(net.softmax(stem, name="soft"))
    stated = StatedSchedule(cascades, alternative)
    stated_schedule(assign(graph, chip), stated, chip, lambda graph: assign(graph, chip))


def _with_a_task_that_cannot_be_sent() -> None:
    generator = (k for k in range(3))
    with ThreadPoolExecutor(1) as threads, executor_of(threads) as executor:
        next(mapped(list, (generator,), executor))


CALLS: dict[str, Callable[[], object]] = {
    "affine-001": lambda: Affine.of_augmented(((1, 0), (1, 1)), (0,)),
    "capacity-004": _with_a_group_too_large,
    "cascader-001": lambda: single_cascade(assign(towers(), load_target("host")), 1, 99),
    "cascader-003": lambda: _stated((Cascade(("sum",)),), alternative=9),
    "cascader-004": lambda: _stated((Cascade(("stem",)), Cascade(("stem", "wide0")))),
    "cascader-005": lambda: _stated((Cascade(("wide0",)), Cascade(("stem",)))),
    "cascader-006": lambda: _stated((Cascade(("stern",)),)),
    "cascader-007": lambda: _stated(
        (Cascade(("wide0", "slim0"), (1, 2, 8, 2), modes={"wide0": BufferMode.FULL}),)
    ),
    "cascader-008": lambda: _stated((Cascade(("wide0", "slim0"), (1, 2, 8)),)),
    "cascader-009": lambda: _stated((Cascade(("stem",), prefetches=(StatedPrefetch("stem"),)),)),
    "cascader-010": lambda: _stated((Cascade(("stem", "wide0"), (1, 2, 2, 16)),)),
    "cascader-011": lambda: _stated((Cascade(("stem",), (1, 1, 1, 1)),), rows=2, columns=5000),
    "cascader-012": lambda: _stated((Cascade(("stem", "soft"), (1, 8, 8, 1)),), rows=8, columns=8),
    "cascader-013": lambda: _stated((Cascade(("stem",), memory={"stem": "tcm"}),)),
    "cascader-014": lambda: _stated((Cascade(("sum",), memory={"sum": "tcm"}),), "two-region"),
    "cascader-015": lambda: parts(cast(Any, "model.tflite")),
    "golden-001": lambda: draw_inputs([((1, 4), "complex64", 0)], 0, seed=0),
    "grouping-003": lambda: best(
        Traffic(
            problem_from_edges(["conv", "dense"], [(0, 1)], [4, 4], [1, 9], [1]),
            GroupLimits(8, 8, False),
        )
    ),
    "usage-003": lambda: parse_frequency("168 Mhertz"),
    "model-011": lambda: graph_of(
        "CONV_2D", (int8("x", 1, 2, 2, 1), int8("w", 1, 1, 1, 1)), (int8("y", 1, 2, 2, 1),),
        padding="SAME",
    ),
    "stripe-001": lambda: StripeConfig((4, 4), (8, 8), (4, 4), (1, 2), (2, 2), (0,)),
    "stripe-002": lambda: StripeConfig((4,), (8,), (-4,), (1,), (2,), (0,)).count_stripes(),
    "tiling-001": lambda: Layer("sum", (Axis("c", 4),), (), LayerOperand("y", "result", ())),
    "tiling-002": lambda: Scratchpads((Scratchpad("left", 1024, ("input",)),)),
    "tiling-003": lambda: LeastTraffic().tile(_DOUBLED, Scratchpads.shared(1)),
    "tiling-004": lambda: choose(_Beyond(), _DOUBLED, Scratchpads.shared(64)),
    "tiling-008": lambda: TileSequence(LeastTraffic().tile(_DOUBLED, Scratchpads.shared(64)), ()),
    "tool-002": lambda: Command(("no-such-compiler", "-c", "x.c"), "x.c").run(),
    "tool-044": lambda: Command(
        ("sh", "-c", "echo \"m.c:1: undefined reference to \\`npu_pool'\" >&2; exit 1"), "m.c"
    ).run(),
    "tool-003": lambda: Command(
        ("sh", "-c", "echo \"x.c:1: error: expected ';'\" >&2; exit 1"), "x.c"
    ).run(),
    "tool-005": lambda: sanitised_compiler(Compiler("cc", ("false",), ())),
    "tool-007": lambda: ElfImage("model.elf", (), (), 0, 0).symbol("kws_run"),
    "tool-010": lambda: core_named("cortex-m99"),
    "tool-021": _without_a_simulated_core,
    "tool-022": _with_a_worker_that_ends,
    "tool-027": _with_a_task_that_cannot_be_sent,
    "tool-028": _with_an_executor_that_is_closed,
    "usage-031": lambda: api.request("zoo:lenet5", accumulate=False),  # pyright: ignore[reportCallIssue, reportUnknownLambdaType]
    "usage-125": lambda: api.run("zoo:lenet5", "host", [{}]),
    "usage-160": lambda: api.request("zoo:lenet5", stream_input="no"),  # pyright: ignore[reportArgumentType, reportUnknownLambdaType]
    "usage-161": lambda: api.run("zoo:lenet5", "host", {}),  # pyright: ignore[reportArgumentType, reportUnknownLambdaType]
    "input-010": lambda: _loaded().evaluate({"a": [0] * 4, "b": [0] * 4}, [1, 2]),
    "input-011": lambda: _loaded().predict({"a": [0] * 4, "b": [[0] * 4]}),
    "input-012": lambda: _loaded().predict({"a": [0] * 4, "b": [0] * 4}, sequence=True),
    "input-013": lambda: _loaded().predict({"a": [0] * 4}),
    "input-014": lambda: _loaded().predict({"a": [0] * 4, "b": ["one", "two"]}),
    "input-015": lambda: _loaded().predict({"a": [0] * 4, "b": [0] * 3}),
    "input-016": lambda: _loaded().predict({"a": [0] * 4, "b": np.zeros(4, np.int8)}),
    "input-017": lambda: _loaded().predict({"a": [0] * 4, "b": [0, np.nan, 0, 0]}),
    "input-018": lambda: api.load(graph_from_text(_INTEGERS)).predict([0.5] * 4),
    "usage-180": lambda: api.load(api.compile("zoo:lenet5", "host"), sram="64KiB"),
    "usage-163": lambda: api.verify("zoo:lenet5", "host", hops=0),
    "usage-140": lambda: api.sweep("zoo:lenet5", accelerator="smv", axes={"tiler": []}),
    "usage-126": lambda: api.run("zoo:lenet5", "host", [{"input": [0]}]),  # pyright: ignore[reportArgumentType, reportUnknownLambdaType]
    "usage-149": _with_a_time_limit_in_a_thread,
    "usage-147": lambda: api.compare(7, "after.json"),  # pyright: ignore[reportArgumentType]
    "usage-143": lambda: InterfaceTensor.of(
        "x", TensorType((1, 4), DType.INT32, Quantisation((0.5,), (0,)))
    ).quantize(np.zeros(4)),
    "model-022": _with_a_sum_along_five_axes,
    "usage-101": lambda: GraphBuilder("net").fully_connected(
        GraphBuilder("other").input((1, 4)), 0
    ),
    **WRONG_BACKENDS,
    **WRONG_DESCRIPTIONS,
    **WRONG_ACCELERATORS,
    **WRONG_UMA,
}  # fmt: skip
"""By code, the call that meets it, where no command does."""

OTHERWISE_TESTED = {
    "execution-002": "it needs an accelerator without C: tests/unit/test_rungs_not_run.py",
    "framework-003": "its words are those of the framework: test_frameworks.py",
    "framework-004": "its words are those of the converter: test_frameworks.py",
    "framework-005": "it needs Keras: test_frameworks.py",
    "onnx-010": "every operator computes on real numbers; one that does not would raise it",
    "golden-006": "root may write anywhere: tests/unit/simulators/test_golden_archive.py",
    "tool-008": "only our own linker script could cause it: test_cortex_m_build.py",
    "tool-009": "its words are those of the ELF reader: test_cortex_m_build.py",
    "tool-020": "only a C library that loses output could cause it",
    "tool-024": "its words are those of QEMU: test_cortex_m55.py",
    "output-004": "it needs a device that is full: tests/unit/cli/test_processes.py",
    "limit-003": "it needs a process without memory: tests/untrusted/test_untrusted_models.py",
    "model-032": "only a row of a scan shows it: tests/untrusted/test_untrusted_models.py",
    "usage-165": "it needs another system than Linux",
    "limit-001": "only a row of a scan shows it: tests/unit/cli/test_scan.py",
    "tool-026": "it names this machine's versions: tests/unit/test_executors.py",
    "tool-041": "its words are those of TensorFlow Lite Micro: test_tflite_micro.py",
    "tool-046": "its words are those of onnxruntime: tests/unit/frontends/test_quantise.py",
    "tool-043": "its words are those of onnxruntime: tests/unit/simulators/test_onnx_reference.py",
    "verify-002": "it names the version of onnxruntime: tests/unit/cli/test_onnx_faults.py",
    "verify-003": "it needs onnxruntime: tests/unit/cli/test_verified_goldens.py",
    "tool-042": "its words are those of the signal that ended the other process",
}
"""Codes without a golden: why, and where they are tested."""


@pytest.mark.parametrize("code", COMMANDS)
def test_the_message_of_a_command(penstock: CommandLine, golden: Golden, code: str) -> None:
    said = penstock(*COMMANDS[code].split())
    assert said.err.startswith(f"error[{code}]: ")
    assert said.code == (2 if code.startswith("usage") else 1)
    assert said.out == ""
    golden.check(code, said.err)


@pytest.mark.parametrize("code", CALLS)
def test_the_message_of_a_call(penstock: CommandLine, golden: Golden, code: str) -> None:
    golden.check_call(code, CALLS[code])


def test_the_message_of_a_model_that_has_changed(
    penstock: CommandLine, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.VARIABLE, "kept")
    api.compile("good.tflite")
    found = api.compile("good.tflite")
    Path("good.tflite").write_bytes(b"")
    golden.check_call("usage-214", lambda: found.compilation)


def test_the_message_of_a_flash_that_is_too_small(penstock: CommandLine, golden: Golden) -> None:
    said = penstock("compile", "good.tflite", "--flash", "16")
    golden.check("capacity-002", re.sub(r"need \d+ bytes", "need N bytes", said.err))


def test_boards_that_are_proposed_have_enough_memory_and_the_same_kernels() -> None:
    board = load_target("stm32f407")
    assert boards_with(128 * 1024, 1, board) == ("nrf52840", "stm32f746", "nrf5340")
    assert boards_with(128 * 1024 + 1, 2000 * 1024, board) == ("stm32h743", "rp2350", "stm32l4r5")
    assert boards_with(2**30, 1, board) == ()


@pytest.mark.parametrize(
    ("target", "words", "remedies"),
    [
        ("nrf52840", ("--flash", "50KiB"), ["use at least --flash 66059"]),
        (
            "nrf52840",
            ("--flash", "64KiB"),
            ["use at least --flash 66059", "--kernels portable is slower"],
        ),
        (
            "rp2040",
            ("--flash", "64KiB"),
            ["use at least --flash", "--kernels portable is slower"],
        ),
        (
            "nrf52840",
            ("--memory", "flash=50KiB"),
            ["use a board with more flash: stm32f407"],
        ),
        ("nrf52840", ("--memory", "flash=50KiB", "--sram", "8KiB"), []),
    ],
    ids=lambda words: words if isinstance(words, str) else " ".join(words),
)
def test_remedies_for_flash_fit(
    penstock: CommandLine, target: str, words: tuple[str, ...], remedies: list[str]
) -> None:
    """On the nRF52840, the portable kernels need 63 KiB."""
    said = penstock("compile", "zoo:lenet5", "--target", target, *words)
    assert said.err.startswith("error[capacity-002]")
    *found, last = said.err.partition("help: ")[2].split("; ")
    assert [one[: len(begin)] for one, begin in zip(found, remedies, strict=True)] == remedies
    assert ("choose a network with fewer weights" in last) == (not remedies)
    for one in found:
        if match := re.search(r"--kernels (\S+) is slower and stores the constants in (\d+)", one):
            board = ("--target", target, "--kernels", match[1])
            done = penstock("compile", "zoo:lenet5", *board, *words, "--json")
            assert done.json["flash_bytes"]["weights"] == int(match[2])


def test_the_memory_without_a_remedy_comes_first(penstock: CommandLine) -> None:
    fixed = ("--target", "nrf52840", "--memory", "flash=8KiB")
    said = penstock("compile", "zoo:lenet5", *fixed, "--sram", "2KiB")
    assert said.err.startswith("error[capacity-002]: the constants alone need ")
    assert "; the network needs 2176 bytes of RAM, the budget is 2048\n" in said.err
    assert "help: no kernels of this core fit into that flash" in said.err
    both = penstock("compile", "zoo:lenet5", "--flash", "8KiB", "--sram", "2KiB")
    assert both.err.startswith("error[capacity-001]: the network needs 2176 bytes of RAM")
    assert "; use a larger --flash; " in both.err


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("ziglang", "unicorn")),
    reason="the packages of penstock[simulate] are not installed",
)
def test_the_message_of_a_stack_that_is_too_small(penstock: CommandLine, golden: Golden) -> None:
    said = penstock("run", "good.tflite", "--stack", "0")
    assert said.code == 1
    golden.check("capacity-003", re.sub(r"\d+ bytes|--stack \d+", "N bytes", said.err))
    verified = penstock("verify", "good.tflite", "--stack", "0")
    assert (verified.code, verified.err) == (1, said.err)
    rungs = {words[0]: words for words in map(str.split, verified.out.splitlines()) if words}
    assert [rungs[name][3] for name in ("machine", "host", "core")] == ["0", "0", "0"]
    assert " ".join(rungs["core"][4:]).endswith("bytes, 0 are reserved")


def test_the_message_of_wrong_goldens(
    penstock: CommandLine, golden: Golden, host_compilers: Sequence[str]
) -> None:
    said = penstock("verify", "good.tflite", "--goldens", "wrong_answers.npz", "-t", "host")
    assert said.code == 1
    golden.check("verify-001", said.err)


def test_the_message_of_outputs_that_the_model_has_not(
    penstock: CommandLine, golden: Golden, host_compilers: Sequence[str]
) -> None:
    words = ("--output", "a.npy", "--output", "b.npy")
    golden.check("usage-017", penstock("run", "good.tflite", "-t", "host", *words).err)


def test_the_message_of_an_output_that_cannot_be_written(
    penstock: CommandLine, golden: Golden, host_compilers: Sequence[str]
) -> None:
    said = penstock("run", "good.tflite", "-t", "host", "--output", "nowhere/a.npy")
    golden.check("output-003", said.err)


def test_the_messages_of_missing_tools(
    penstock: CommandLine, golden: Golden, no_tools: None
) -> None:
    host_compiler.cache_clear()
    golden.check("tool-004", penstock("run", "good.tflite", "-t", "host").err)
    host_compiler.cache_clear()
    golden.check("tool-001", penstock("run", "good.tflite").err)
    golden.check("tool-006", penstock("run", "good.tflite", "--compiler", "gcc").err)
    with pytest.raises(PenstockError) as caught:
        qemu_program()
    golden.check("tool-025", str(caught.value))


def hide_package(monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    """As if a package were not installed."""
    find = importlib.util.find_spec

    def found(name: str) -> ModuleSpec | None:
        return None if name == hidden else find(name)

    monkeypatch.setattr(importlib.util, "find_spec", found)


def test_the_message_of_a_missing_reference(
    penstock: CommandLine, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_package(monkeypatch, "tflite_micro")
    golden.check("tool-040", penstock("golden", "good.tflite", "-o", "out.npz").err)


def test_the_message_of_a_missing_quantiser(
    penstock: CommandLine, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_package(monkeypatch, "onnxruntime")
    said = penstock("compile", "floats.onnx", "--quantise", "samples.npz")
    assert said.code == 1
    golden.check("tool-045", said.err)


def test_the_message_of_a_missing_framework(
    penstock: CommandLine, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_package(monkeypatch, "tensorflow")
    said = penstock("compile", "net.keras")
    assert said.code == 1
    golden.check("framework-002", said.err)


def test_the_message_of_a_mistake_of_an_author(penstock: CommandLine, golden: Golden) -> None:
    def reads_too_much(call: object) -> object:
        raise IndexError("there is no input 7")

    with pytest.raises(PenstockError) as caught:
        running(implementation(compute=reads_too_much))
    golden.check("backend-042", re.sub(r"\.py:\d+", ".py:LINE", str(caught.value)))


def test_the_message_of_a_broken_plugin(
    penstock: CommandLine, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "penstock-lost", "1.0", "lost_npu", "lost_module:Lost")
    monkeypatch.syspath_prepend(tmp_path)
    said = penstock("compile", "good.tflite", "--accelerator", "lost_npu")
    assert said.code == 1
    golden.check("backend-049", said.err)


def test_the_message_of_an_unknown_accelerator(penstock: CommandLine, golden: Golden) -> None:
    said = penstock("compile", "good.tflite", "--accelerator", "npu")
    assert said.code == 2
    golden.check("usage-014", re.sub(r"(accelerators are) .*", r"\1 NAMES", said.err))


def test_the_message_of_an_accelerator_that_is_not_installed(
    penstock: CommandLine, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "entry_points", lambda group: ())
    said = penstock("compile", "good.tflite", "--accelerator", "ethos_u65_256")
    assert said.code == 2
    golden.check("usage-166", said.err)


def test_the_message_of_an_internal_error(
    penstock: CommandLine, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(api, "compile", broken)
    said = penstock("compile", "good.tflite")
    assert said.code == 3
    golden.check("internal-001", re.sub(r"\.py:\d+", ".py:LINE", said.err))


def test_every_code_has_a_golden_or_a_reason(golden: Golden) -> None:
    met = {
        code
        for code, classes in raised_codes(CORE).items()
        if classes != {"InternalError"} or code == "internal-001"
    }
    assert len(met) > 60
    assert met - golden.codes() == set(OTHERWISE_TESTED)
    assert golden.codes() <= met, "goldens of codes that nobody raises"


def test_every_message_has_a_fault_and_a_place() -> None:
    found = [*CHECKOUT.glob("tests/errors/messages/*.txt")]
    found += CHECKOUT.glob("accelerators/*/tests/messages/*.txt")
    for path in sorted(found):
        lines = path.read_text("utf-8").splitlines()
        assert lines[0].startswith(f"error[{path.stem}]: "), path.name
        assert lines[1].startswith("  --> "), path.name
        assert any(line.startswith(("  why: ", "  help: ")) for line in lines[2:]), path.name


def test_a_code_is_of_one_class() -> None:
    found = raised_codes(CORE, *ACCELERATORS)
    assert {code: c for code, c in found.items() if len(c) > 1} == {}


def test_a_board_with_too_little_ram_names_boards_with_enough(penstock: CommandLine) -> None:
    """No other board has the kernels of the RP2040; a budget does not hide the boards."""
    fixed = ("compile", "zoo:lenet5", "--memory", "sram=2KiB")
    said = penstock(*fixed, "--target", "rp2040", "--keep-input")
    assert said.err.startswith("error[capacity-001]")
    assert "memory and other kernels, which may need more: stm32f407, " in said.err
    for budget in ((), ("--sram", "1900")):
        said = penstock(*fixed, "--target", "stm32f407", "--keep-input", *budget)
        assert "boards with enough memory: nrf52840, " in said.err
