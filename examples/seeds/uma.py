"""Seed: TVM RFC 0060, UMA, an interface for accelerators.  What it offers beside ours of today."""

from __future__ import annotations

import tempfile
from pathlib import Path

from penstock import api
from penstock.errors import CapacityError
from penstock.hardware.load import target_text

MODEL = "zoo:lenet5"

CLAIMS = """\
RFC 0060, "UMABackend References": an accelerator joins with one Python class and 6 calls:
    target attributes, relay passes, patterns, operator strategies, TIR passes, code generation.
What became of it (facts/tvm-prior-art.md 2): 6 commits; of three accelerators announced one
    exists; no cost model, no memory model, no simulation; code that is not claimed runs on the
    host without a word; removed with Relay in 2025."""

MISSING = """\
Not there yet: the interface.  penstock has one engine, a processor with portable C kernels, which
takes every node; --accelerator is refused with a message.  A target is data, so a board joins with
a TOML file, as above; kernels are found in a folder, one file each, with constraints that explain
themselves; the machine executes any Program.  Patterns, passes, strategies and encoders are to
come."""


def main() -> None:
    print(CLAIMS)
    print(f"\npenstock today: a board of one's own, with 2 KiB of RAM, and {MODEL}:")
    with tempfile.TemporaryDirectory() as folder:
        board = Path(folder) / "small-board.toml"
        text = target_text("cortex-m4").replace('"cortex-m4"', '"small-board"', 1)
        board.write_text(text.replace('size = "64MiB"', 'size = "2KiB"', 1))
        try:
            api.compile(MODEL, str(board))
        except CapacityError as error:
            print("\n".join(f"    {line}" for line in str(error).splitlines()))
    compiled = api.compile(MODEL, "cortex-m4")
    print("the same on a board that is large enough; who takes what:")
    for part in compiled.compilation.schedule.steps:
        print(f"    {part.engine}: {part.kernel.name:22} {part.name}")
    print(f"\n{MISSING}")


if __name__ == "__main__":
    main()
