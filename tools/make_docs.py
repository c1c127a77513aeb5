"""Writes docs/supported.md and docs/options.md from the operators' and options' own words.

python -m tools.make_docs
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

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


PAGES = {"supported.md": supported, "options.md": options}


def _meaning(doc: str | None) -> str:
    return (doc or "").splitlines()[0].split(": ", 1)[-1]


def main() -> None:
    """Writes the pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
