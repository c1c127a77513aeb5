"""Peers: the results of other compilers for the same models, from the shared folder's facts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.markdown_table import column_of, number
from benchmarks.shared import Shared

BOUNDS = "memory-bounds.md"
CORTEX_M = "cortex-m.md"
CMSIS_NN = "cmsis-nn-baseline.json"

NAMES: Mapping[str, str] = {
    "MLPerf vww_96": "vww_96_int8",
    "MLPerf kws": "kws_ref_model",
    "MLPerf resnet-8": "pretrainedResnet_quant",
    "MobileNetV1 0.25 128": "rand_mobilenet_v1_0.25_128_int8",
    "MobileNetV1 1.0 224": "rand_mobilenet_v1_1.0_224_int8",
    "MobileNetV2 0.35 144": "rand_mobilenet_v2_0.35_144_int8",
    "ssd_slim 120x160x1": "ssd_slim_120x160x1",
    "VWW": "vww_96_int8",
    "KWS": "kws_ref_model",
    "IC": "pretrainedResnet_quant",
    "AD": "ad01_int8",
}
"""What the facts call a model, and its file; other names are the file's own."""


@dataclass(frozen=True, slots=True)
class Peers:
    """Figures of others for one model; None where the facts have none.

    Bytes of activations with input and output; `tflm_arena` also holds TFLite Micro's own data.
    `peak_live` and `row_bound` are computed from the graph, the others were measured; `streamed`:
    without the network's input. `cmsis_nn_*`
    are CMSIS-NN's kernels on a Cortex-M4, cycles by the model that penstock uses."""

    peak_live_bytes: int | None = None
    row_bound_bytes: int | None = None
    row_bound_streamed_bytes: int | None = None
    tflm_arena_bytes: int | None = None
    vela_bytes: int | None = None
    tvm_bytes: int | None = None
    cmsis_nn_gcc_cycles: int | None = None
    cmsis_nn_gcc_instructions: int | None = None
    cmsis_nn_zig_cycles: int | None = None
    cmsis_nn_zig_instructions: int | None = None


def read_peers(shared: Shared) -> Mapping[str, Peers]:
    """Peers by a model's file name without suffix; what a missing file would say is None."""
    bounds = _text(shared.facts / BOUNDS)
    rows = _numbers(column_of(bounds, "model", "row bound, F"))
    streamed = _numbers(column_of(bounds, "model", "row bound, input streamed"))
    others = _by_file(column_of(bounds, "model", "best living peer"))
    peaks = _numbers(column_of(_text(shared.models / "README.md"), "model", "peak live"))
    arenas = _numbers(column_of(_text(shared.facts / CORTEX_M), "model", "arena_used B"))
    runs = _cmsis_runs(shared.facts / CMSIS_NN)
    found: dict[str, Peers] = {}
    for name in sorted({*rows, *others, *peaks, *arenas, *runs}):
        cell = others.get(name, "")
        arena = arenas.get(name) or named_number(cell, "TFLM arena")
        found[name] = Peers(
            peaks.get(name),
            rows.get(name),
            streamed.get(name),
            arena,
            named_number(cell, "Vela"),
            named_number(cell, "TVM cascader") or named_number(cell, "TVM"),
            **runs.get(name, {}),
        )
    return found


def named_number(cell: str, name: str) -> int | None:
    """The number behind a name; what stands in parentheses is about something else.

    >>> named_number("Vela 49,152; TVM cascader 46,352 (38,400 at 1.13x)", "TVM cascader")
    46352
    >>> named_number("(0.35 160: Vela 144,640)", "Vela") is None
    True
    """
    outside = re.sub(r"\([^)]*\)", "", cell)
    found = re.search(rf"\b{name}\s+(\d[\d,]*)", outside)
    return number(found[1]) if found else None


def _cmsis_runs(path: Path) -> dict[str, dict[str, int]]:
    """By file, the totals of CMSIS-NN on a Cortex-M4 by compiler."""
    text = _text(path)
    runs = json.loads(text)["runs"] if text else {}
    found: dict[str, dict[str, int]] = {}
    for compiler in ("gcc", "zig"):
        for name, run in runs.get(f"{compiler}-m4-O3", {}).items():
            figures = found.setdefault(name, {})
            figures[f"cmsis_nn_{compiler}_cycles"] = int(run["total"]["cycles"])
            figures[f"cmsis_nn_{compiler}_instructions"] = int(run["total"]["instr"])
    return found


def _numbers(cells: Mapping[str, str]) -> dict[str, int | None]:
    return {name: number(cell) for name, cell in _by_file(cells).items()}


def _by_file(cells: Mapping[str, str]) -> dict[str, str]:
    """The cells by file name; a remark in parentheses is no part of a name."""
    plain = {re.sub(r"\s*\(.*\)$", "", name): cell for name, cell in cells.items()}
    return {NAMES.get(name, name): cell for name, cell in plain.items()}


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
