"""adversarial_names: renames every tensor of a model and compares what is compiled from it.

    python -m benchmarks.adversarial_names [FOLDER] [--network NAME ...] [--seeds COUNT]

Names in a model file are labels and must not affect code generation.  Each network is compiled as
it is and with adversarial names, for cortex-m4 and for cortex-m55 beside ethos_u55.  RAM, flash,
cycles, frontier, buffers with their addresses and contents, the generated C without comments and
identifiers, and the outputs for seeded inputs must be the same.  Outputs are those of the simulated
core on cortex-m4, where counted cycles and code bytes are compared as well, and of the machine that
interprets programs beside ethos_u55.  Exits with 1 if anything differs.

Without FOLDER: the models beside the repository.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from rich.table import Table

from benchmarks.drawn_names import drawn_name
from benchmarks.entry import console, entry
from benchmarks.shared import find_shared
from benchmarks.unchanged import TWELVE
from penstock import api
from penstock.codegen.bundle import Bundle
from penstock.ir.tensor import Array
from penstock.program.program import Program
from penstock.simulators.machine import Machine
from tools.tflite_rewriting import renamed, tensor_names

Target = tuple[str, tuple[str, ...]]
TARGETS: tuple[Target, ...] = (("cortex-m4", ()), ("cortex-m55", ("ethos_u55",)))
"""Targets with the accelerators beside them."""
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d\w*|\S")


@dataclass(frozen=True, slots=True)
class Build:
    """What is compiled from a model, without names.  `aspects`: comparable values by what they
    are; `outputs`: of one seeded inference, in the model's order."""

    aspects: dict[str, object]
    outputs: tuple[Array, ...]

    def differences(self, other: Build) -> tuple[str, ...]:
        """The aspects in which two builds differ."""
        found = [name for name, value in self.aspects.items() if other.aspects[name] != value]
        pairs = zip(self.outputs, other.outputs, strict=True)
        if not all(np.array_equal(mine, theirs) for mine, theirs in pairs):
            found.append("outputs")
        return tuple(found)


def main(arguments: Sequence[str]) -> int:
    """Prints a line for each network and target; returns 1 if something differs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.adversarial_names", description=__doc__
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--seeds", type=int, default=1, metavar="COUNT", help="namings of each")
    wanted = parser.parse_args(arguments)
    models = find_shared(wanted.folder).named(wanted.network or list(TWELVE))
    table = Table(title="compiled from renamed tensors")
    for heading in ("network", "target", "namings", "differences"):
        table.add_column(heading, no_wrap=True)
    different = False
    for model in models:
        for target, accelerators in TARGETS:
            found = tuple(differences(model, target, accelerators, wanted.seeds))
            different = different or bool(found)
            beside = " + ".join((target, *accelerators))
            print(f"{model.stem} on {beside}: {'; '.join(found) or 'same'}", file=sys.stderr)
            table.add_row(model.stem, beside, str(wanted.seeds), "; ".join(found) or "none")
    console().print(table)
    return int(different)


def differences(model: Path, target: str, accelerators: Sequence[str], seeds: int) -> Iterator[str]:
    """The aspects that change with adversarial names, each with the seed of the naming."""
    raw = model.read_bytes()
    known = tensor_names(raw)
    intact = build(model, target, accelerators)
    for seed in range(seeds):
        random = Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / model.name
            path.write_bytes(renamed(raw, [drawn_name(known, random) for _ in known]))
            changed = build(path, target, accelerators)
        yield from (f"{aspect} (seed {seed})" for aspect in intact.differences(changed))


def build(model: Path, target: str, accelerators: Sequence[str]) -> Build:
    """Compiles a model and runs one seeded inference.

    Without accelerators, the simulated core runs it, and code is cross-compiled."""
    request = api.request(model, target, accelerators=accelerators)
    if accelerators:
        compiled = api.compile(request)
        report, done = compiled.report, compiled.compilation
        found = Machine(done.program).run(api.drawn_sets(done, 1)[0])
        outputs = tuple(found[value.name] for value in done.model.outputs)
    else:
        ran = api.profile(request)
        report, done = ran.report, ran.compiled.compilation
        outputs = tuple(ran.outputs[0].values())
    aspects = {
        "RAM": report.ram_bytes,
        "flash": report.flash_bytes,
        "cycles": report.cycles,
        "instructions": report.instructions,
        "frontier": report.frontier,
        "buffers": buffers(done.program),
        "C": c_tokens(done.bundle),
    }
    return Build(aspects, outputs)


def buffers(program: Program) -> list[object]:
    """Memories and buffers of a program, without names."""
    found = [(b.kind, b.memory, b.address, b.size_bytes, b.data) for b in program.buffers]
    return [program.memories, *found]


def c_tokens(bundle: Bundle) -> list[list[str]]:
    """The tokens of every C file, see `without_labels`."""
    return [without_labels(data.decode()) for name, data in bundle.files if name.endswith(".c")]


def without_labels(text: str) -> list[str]:
    """The tokens of C without comments, its identifiers numbered in order of appearance.

    >>> without_labels("int x = y; /* z */ x += 3;")
    ['name0', 'name1', '=', 'name2', ';', 'name1', '+', '=', '3', ';']
    """
    numbers: dict[str, str] = {}
    return [
        numbers.setdefault(token, f"name{len(numbers)}") if token[0].isidentifier() else token
        for token in _TOKEN.findall(_COMMENT.sub("", text))
    ]


if __name__ == "__main__":
    entry(main)
