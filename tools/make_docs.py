"""Writes the pages of docs/ that are tables: supported.md, options.md and deviations.md.

python -m tools.make_docs
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from benchmarks.operators.deviations import DEVIATIONS
from penstock.frontends.onnx.rewrites import quantised_names
from penstock.frontends.onnx.scales import DEQUANTISE, MOVING, QUANTISE
from penstock.ops.registry import operator_files
from penstock.scheduling.options import Options

DOCS = Path(__file__).parent.parent / "docs"


def supported() -> str:
    """The operators, each with the names that it takes and what it means."""
    rows = [
        f"| {op.__name__} | {', '.join(op.FOREIGN)} | {', '.join(file.onnx_names(op))} "
        f"| {_meaning(file.module.__doc__)} |"
        for file in operator_files()
        for op in file.ops
        if op.FOREIGN or file.onnx_names(op)
    ]
    head = (
        "# Supported operators\n\nint8 with one scale a tensor (weights: one a channel) unless the "
        "operator's file says otherwise.\nWritten by `python -m tools.make_docs`; a test fails "
        "when it is stale.\n\n| operator | takes (TFLite) | takes (ONNX) | meaning |\n"
        "| --- | --- | --- | --- |\n"
    )
    moving = ", ".join((*MOVING, QUANTISE, DEQUANTISE, *quantised_names()))
    tail = f"\nOf ONNX, the front end understands by itself: {moving}.\n"
    return head + "\n".join(rows) + "\n" + tail


def options() -> str:
    """The options of the search."""
    rows = [
        f"| `--{f.name.replace('_', '-')}` | {f.default} | {f.metadata['help']} |"
        for f in dataclasses.fields(Options)
    ]
    head = "# Options of the search\n\n| option | default | meaning |\n| --- | --- | --- |\n"
    return head + "\n".join(rows) + "\n"


DEVIATIONS_HEAD = """# Deviations from TensorFlow Lite Micro

penstock computes what the reference kernels of TensorFlow Lite Micro compute, element by element
(package `tflite-micro` 0.dev20261023182759, commit 8f6596d).
`python -m benchmarks.random_operators` compares every operator on random models. The table lists
every exception; the command judges those by an equivalent model that TensorFlow Lite Micro runs
correctly, or by real arithmetic, from which an element may be one step away.
Written by `python -m tools.make_docs` from `benchmarks/operators/deviations.py`.

| operator | where | TensorFlow Lite Micro | penstock | source |
| --- | --- | --- | --- | --- |
"""
DEVIATIONS_TAIL = """
Where TensorFlow and TensorFlow Lite Micro differ otherwise, penstock follows TensorFlow Lite Micro:

- **Multipliers.** RELU, LEAKY_RELU, ABS, SUB, and FULLY_CONNECTED with one scale for all weights
  multiply and divide scales in double precision. TensorFlow, and TensorFlow Lite Micro before 2026,
  do so in single precision (tensorflow/tflite-micro, issue 3271). Elements next to a tie differ by
  one step.
- **LOGISTIC and TANH** use fixed-point arithmetic and saturate early where the input's scale is
  above 4; from 8 on, they are a step, which is low at the zero point itself
  (`kernels/internal/reference/integer_ops/logistic.h`, `tanh.h`). TensorFlow uses a table.
- **HARD_SWISH** divides by powers of two above 2^15 in 16 bits; the result is 1 or -1 instead of 0
  (`fixedpoint/fixedpoint.h` of gemmlowp, `RoundingDivideByPOT`).
- **SUM** is that of `micro/kernels/reduce_common.cc`. The reference kernel of TensorFlow 2.19
  returns a constant.

penstock refuses scales with which the reference leaves the range of int32 before it clamps an
output, and scales outside [2^-32, 2^32).
"""


def deviations() -> str:
    """The documented differences from TensorFlow Lite Micro."""
    rows = (
        f"| {', '.join(d.operators)} | {d.where} | {d.reference} | {d.penstock} | {d.source} |\n"
        for d in DEVIATIONS
    )
    return DEVIATIONS_HEAD + "".join(rows) + DEVIATIONS_TAIL


PAGES = {"supported.md": supported, "options.md": options, "deviations.md": deviations}


def _meaning(doc: str | None) -> str:
    return (doc or "").splitlines()[0].split(": ", 1)[-1]


def main() -> None:
    """Writes the pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
