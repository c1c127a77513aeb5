"""Bundles: builds and runs the output of `penstock compile`, with every compiler and level.

    python -m benchmarks.bundles [FOLDER] [--network NAME] [--target NAME] [--sets COUNT]

Compiles six networks for six targets. Each bundle is written to a folder and built there at -O0,
-Os, -O1 and -O3 with warnings as errors: by gcc and clang (from zig) for the host, by
arm-none-eabi-gcc and clang for the cores. The programs run on the host and on the simulated cores,
and their outputs are compared with the goldens. FOLDER is `shared/models` by default. Exits with 1
if a bundle does not build or an output differs.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.entry import console, entry
from benchmarks.shared import find_shared
from penstock import api, execution
from penstock.api import Compiled
from penstock.errors import PenstockError
from penstock.ground_truth import golden_inputs
from penstock.hardware.target import Target
from penstock.ir.tensor import Array
from penstock.simulators.compare import Comparison, compare_tensor
from penstock.simulators.cores import core_compiler
from penstock.simulators.goldens import Goldens, read_goldens
from penstock.toolchains.compiler import (
    WARNINGS_AS_ERRORS,
    Compiler,
    compile_objects,
    zig_command,
)

NETWORKS = (
    "vww_96_int8",
    "kws_ref_model",
    "pretrainedResnet_quant",
    "ad01_int8",
    "person_detect",
    "mobilenetv2_160_035",
)
TARGETS = ("host", "cortex-m0plus", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")
LEVELS = ("-O0", "-Os", "-O1", "-O3")
STACK = "8KiB"
"""Stack reserve; unoptimised code needs more than the default."""
EXAMPLE = "main.c"


@dataclass(frozen=True, slots=True)
class Build:
    """A compiler with an optimisation level."""

    name: str
    level: str
    compiler: Compiler


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a build: a comparison with the goldens, or the error."""

    build: Build
    comparison: Comparison
    stack_bytes: int | None = None
    failure: str = ""

    @property
    def is_right(self) -> bool:
        return not self.failure and not self.comparison.mismatches


def main(arguments: Sequence[str]) -> int:
    """Prints a line for each build; returns 1 if one is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bundles", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="models, and goldens beside them")
    parser.add_argument("--network", choices=NETWORKS, action="append")
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--sets", type=int, default=1, help="golden sets on simulated cores")
    wanted = parser.parse_args(arguments)
    shared, out = find_shared(wanted.folder), console()
    wrong = count = 0
    for model in shared.named(list(wanted.network or NETWORKS)):
        goldens = read_goldens(shared.goldens(model)[0])
        for target in wanted.target or TARGETS:
            compiled = api.compile(model, target, stack=STACK)
            for outcome in check(compiled, goldens, wanted.sets):
                count += 1
                wrong += not outcome.is_right
                out.print(_line(model.stem, target, outcome), markup=False)
    out.print(f"{count} builds, {wrong} wrong")
    return 1 if wrong else 0


def check(
    compiled: Compiled, goldens: Goldens, core_sets: int, levels: Sequence[str] = LEVELS
) -> Iterator[Outcome]:
    """Runs every build of a bundle on the goldens; on the host, on all their sets."""
    done = compiled.compilation
    sets = golden_inputs(done.model, goldens)
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        folder = Path(name) / "bundle"
        compiled.write(folder)
        for number, build in enumerate(builds(done.request.target, levels)):
            objects = Path(name) / f"objects{number}"
            try:
                if done.request.target.core is None:
                    found = _on_host(compiled, build, folder, objects, sets)
                    yield Outcome(build, _compared(compiled, goldens, found))
                else:
                    found, stack_bytes = _on_core(
                        compiled, build, folder, objects, sets[:core_sets]
                    )
                    yield Outcome(build, _compared(compiled, goldens, found), stack_bytes)
            except PenstockError as error:
                yield Outcome(build, Comparison(), failure=str(error))


def builds(target: Target, levels: Sequence[str]) -> Iterator[Build]:
    """This machine's compilers for a target, at every level."""
    for name, compiler in _compilers(target).items():
        for level in levels:
            yield Build(name, level, replace(compiler, flags=(*compiler.flags, level)))


def _compilers(target: Target) -> Mapping[str, Compiler]:
    """Compilers by name.

    The last of several contradicting flags wins, so that levels may follow.
    """
    if target.core is not None:
        kinds = {"arm-none-eabi-gcc": "gcc", "clang": "zig"}
        return {name: core_compiler(target, kind) for name, kind in kinds.items()}
    found = {"clang": Compiler("zig", zig_command(), _ZIG_FLAGS)}
    if program := shutil.which("gcc"):
        found["gcc"] = Compiler("gcc", (program,), ("-std=c11",))
    return found


_ZIG_FLAGS = ("-std=c11", "-fno-sanitize=undefined", "-mcpu=baseline")
"""Disables zig's defaults: traps on undefined behaviour, and instructions of the host."""


def _objects(compiled: Compiled, build: Build, folder: Path, objects: Path) -> tuple[Path, ...]:
    """Objects of the delivered library files; on hosts, of the example as well."""
    done = compiled.compilation
    names = execution.library_sources(done)
    example = (EXAMPLE,) if done.request.target.core is None else ()
    built = compile_objects(
        build.compiler,
        [folder / name for name in (*names, *example)],
        objects,
        include=(folder,),
        flags=WARNINGS_AS_ERRORS,
    )
    return built[: len(names)]


def _on_host(
    compiled: Compiled,
    build: Build,
    folder: Path,
    objects: Path,
    sets: Sequence[Mapping[str, Array]],
) -> Sequence[Mapping[str, Array]]:
    """The outputs of every set."""
    library = _objects(compiled, build, folder, objects)
    return execution.outputs_on_host(compiled.compilation, sets, build.compiler, library)


def _on_core(
    compiled: Compiled,
    build: Build,
    folder: Path,
    objects: Path,
    sets: Sequence[Mapping[str, Array]],
) -> tuple[Sequence[Mapping[str, Array]], int]:
    """The outputs of every set, and the largest stack use."""
    library = _objects(compiled, build, folder, objects)
    with execution.firmware(compiled.compilation, build.compiler, library) as chip:
        runs = [chip.run(inputs) for inputs in sets]
    return [run.tensors for run in runs], max(run.stack_bytes for run in runs)


def _compared(
    compiled: Compiled, goldens: Goldens, found: Sequence[Mapping[str, Array]]
) -> Comparison:
    """Comparison of the outputs with those of the archive."""
    total = Comparison()
    for number, tensors in enumerate(found):
        variants = (goldens.sets[number], *goldens.tflm_sets[number : number + 1])
        for k, value in enumerate(compiled.compilation.model.outputs):
            accepted = [variant.outputs[k] for variant in variants]
            total += compare_tensor(value.name, number, tensors[value.name], *accepted)
    return total


def _line(network: str, target: str, outcome: Outcome) -> str:
    """The printed line of a build."""
    build, found = outcome.build, outcome.comparison
    stack = "" if outcome.stack_bytes is None else f", stack {outcome.stack_bytes:,} bytes"
    words = f"{found.elements:,} elements, {found.mismatches:,} mismatches{stack}"
    name = f"{network:<24}{target:<15}{build.name:<19}{build.level:<5}"
    return f"{name}{outcome.failure or words}"


if __name__ == "__main__":
    entry(main)
