"""Compile time: seconds of whole commands that a user waits for.

    python -m benchmarks.compile_time [FOLDER] [--accelerator NAME] [--network NAME ...] [--runs N]

A separate process runs each command N times. The table has the minimum and median of wall-clock
seconds and the minimum of processor seconds of `penstock compile`, and those of Arm's Vela on the
same file if it is installed, FOLDER is given and the accelerator is an Ethos-U. Before them are
those of start-up: of `import numpy`, `import penstock` and help texts. Without --network, further
rows compile a network with squeeze-and-excite blocks and 164 nodes (`tools/squeeze_excite.py`) and
chains of convolutions for processors alone. Compare ratios, since absolute times depend on the
machine and its load. The first run after an installation compiles the searches to machine code and
is not counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.ethos_u import ACCELERATORS
from benchmarks.shared import find_shared
from benchmarks.vela import has_vela
from penstock.errors import ToolError
from tools.network import Network
from tools.squeeze_excite import squeeze_excite

ZOO = ("zoo:mobilenet_v1", "zoo:mobilenet_v2")
NETWORKS = ("rand_mobilenet_v1_1.0_224_int8", "mobilenetv2_160_035")
CORES = ("cortex-m4", "cortex-m0plus", "cortex-m55")
"""Processors for which the network with squeeze-and-excite is compiled."""
CHAINS = (100, 200, 500)
"""Numbers of convolutions; above a few hundred, the time must grow with the number only."""
STARTS = (("-c", "import numpy"), ("-c", "import penstock"), ("-m", "penstock", "--help"),
          ("-m", "penstock", "compile", "--help"))  # fmt: skip
Spent = tuple[float, float]
"""Wall-clock and processor seconds."""


def main(arguments: Sequence[str]) -> int:
    """Prints a table with a row for each network."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile_time", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--accelerator", default="ethos_u55:macs=256", help="NAME[:attr=value,...]")
    parser.add_argument("--target", default="cortex-m55", help="the processor beside it")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of each command")
    wanted = parser.parse_args(arguments)
    models: list[str] = [] if wanted.folder else list(ZOO)
    if wanted.folder:
        models += map(str, find_shared(wanted.folder).named(wanted.network or list(NETWORKS)))
        models += () if wanted.network else ZOO
    table = Table(title=f"seconds of whole commands, {wanted.accelerator} beside {wanted.target}")
    table.add_column("command", no_wrap=True)
    for heading in ("least", "middle", "processor, least"):
        table.add_column(heading, justify="right")
    compile_bytecode(sys.executable)
    for words in STARTS:
        table.add_row(" ".join(words[1:]), *cells([sys.executable, *words], wanted.runs))
    penstock = [sys.executable, "-m", "penstock"]
    asked = ("--target", wanted.target, "--accelerator", wanted.accelerator)
    for model in models:
        name = Path(model).stem
        command = [*penstock, "compile", model, *asked, "-o", "out"]
        table.add_row(f"penstock compile {name}", *cells(command, wanted.runs))
        chip = ACCELERATORS.get(wanted.accelerator)
        if chip and has_vela() and not model.startswith("zoo:"):
            vela = [sys.executable, "-m", "ethosu.vela", model, "--accelerator-config", chip]
            table.add_row(f"vela {name}", *cells(vela, wanted.runs))
    if not wanted.network:
        with tempfile.TemporaryDirectory() as folder:
            for path, core in _alone(Path(folder)):
                command = [*penstock, "compile", str(path), "--target", core, "-o", "out"]
                name = f"penstock compile {path.stem}, {core} alone"
                table.add_row(name, *cells(command, wanted.runs))
    console().print(table)
    return 0


def _alone(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files to compile for processors alone."""
    path = folder / "squeeze_excite.tflite"
    path.write_bytes(squeeze_excite())
    yield from ((path, core) for core in CORES)
    for parts in CHAINS:
        path = folder / f"chain_of_{parts}.tflite"
        path.write_bytes(chain(parts))
        yield path, CORES[0]


def chain(count: int) -> bytes:
    """A TFLite file of alternating 3 x 3 and 1 x 1 convolutions on 32 rows."""
    net, rng, channels = Network(), np.random.default_rng(0), 4
    x = net.input("input", (1, 32, 32, channels))
    for k in range(count):
        size, made = 1 if k % 2 else 3, 8 if k % 3 else 4
        weights = rng.normal(size=(made, size, size, channels))
        x, channels = net.conv(f"conv{k}", x, weights, np.zeros(made)), made
    net.output(x)
    return net.tflite_bytes(dict.fromkeys(net.tensors, (-1.0, 1.0)))


def cells(command: Sequence[str], runs: int) -> tuple[str, ...]:
    """Times of a command as cells of the table."""
    print(" ".join(command[2:]), file=sys.stderr)
    _, *every = (timed(command) for _ in range(runs + 1))
    walls, processor = zip(*every, strict=True)
    return tuple(f"{seconds:.2f}" for seconds in (min(walls), median(walls), min(processor)))


def compile_bytecode(python: str) -> None:
    """Compiles the penstock of an interpreter to bytecode, as pip does when it installs a wheel.

    An interpreter that is told to write no bytecode would parse all modules in each run."""
    folder = "import pathlib, penstock; print(pathlib.Path(penstock.__file__).parent)"
    found = subprocess.run([python, "-c", folder], capture_output=True, text=True, check=True)
    subprocess.run([python, "-m", "compileall", "-q", found.stdout.strip()], check=True)


def timed(command: Sequence[str]) -> Spent:
    """Times of a command that runs in an empty folder.  Raises ToolError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        before, begun = os.times(), perf_counter()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        wall, after = perf_counter() - begun, os.times()
    if done.returncode:
        raise ToolError(
            "bench-030",
            f"a command failed: {' '.join(command[1:])}",
            where="benchmarks.compile_time",
            why=(done.stderr.strip().splitlines() or ["it said nothing"])[0],
            help="run it by itself",
        )
    used = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    return wall, used


if __name__ == "__main__":
    entry(main)
