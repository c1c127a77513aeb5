"""Execution: compiles a bundle and runs it, on the host or on a simulated core, and observes it."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from penstock.codegen.bundle import Bundle
from penstock.codegen.c_program import c_sources, generate_harness, step_symbol
from penstock.errors import CapacityError, InternalError, ToolError
from penstock.ir.tensor import Array, TensorType
from penstock.pipeline import Compilation
from penstock.program.program import Call, View
from penstock.simulators.cortex_m import Simulator
from penstock.simulators.counts import Counts
from penstock.toolchains.compiler import compile_objects
from penstock.toolchains.cortex_m import gcc_cortex_m, link_firmware, zig_cortex_m
from penstock.toolchains.elf_file import object_sections
from penstock.toolchains.host import (
    host_compiler,
    link_executable,
    run_executable,
    sanitised_compiler,
)

Tensors = dict[str, Array]
"""Elements by name of a tensor."""


@contextmanager
def unpacked(bundle: Bundle) -> Generator[Path]:
    """The bundle's files in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        folder = Path(name)
        for file, content in bundle.files:
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield folder


@dataclass(frozen=True, slots=True)
class HostRun:
    """What a run on the host computed, set by set, and which sanitizers watched it."""

    tensors: tuple[Tensors, ...]
    sanitizers: tuple[str, ...]


def run_on_host(compilation: Compilation, sets: Sequence[Mapping[str, Array]]) -> HostRun:
    """Every step's output of every set, by the generated C with sanitizers on this machine.

    Raises ToolError where there is no compiler, or a sanitizer stops the program."""
    found = sanitised_compiler(host_compiler())
    program = compilation.program
    with unpacked(compilation.bundle) as folder:
        (folder / "harness.c").write_bytes(generate_harness(program, compilation.prefix))
        sources = [folder / name for name in (*c_sources(compilation.prefix), "harness.c")]
        objects = compile_objects(
            found.compiler,
            sources,
            folder / "objects",
            include=(folder,),
            flags=("-DPENSTOCK_TRACE=penstock_trace",),
        )
        executable = link_executable(found.compiler, objects, folder / "harness")
        stdin = b"".join(input_bytes(compilation, inputs) for inputs in sets)
        stdout = run_executable(executable, stdin)
    return HostRun(_split(compilation, stdout, len(sets)), found.sanitizers)


def input_bytes(compilation: Compilation, inputs: Mapping[str, Array]) -> bytes:
    """The inputs of one set, one behind the other."""
    return b"".join(
        np.ascontiguousarray(inputs[view.tensor]).tobytes() for view in compilation.program.inputs
    )


def _split(compilation: Compilation, stdout: bytes, count: int) -> tuple[Tensors, ...]:
    """The harness' output as tensors."""
    program = compilation.program
    views = [c.output for c in program.run if isinstance(c, Call)] + list(program.outputs)
    size = sum(view.type.size_bytes for view in views)
    if len(stdout) != size * count:
        raise ToolError(
            "tool-020",
            f"the program wrote {len(stdout)} bytes, must write {size * count}",
            where=compilation.model.name,
        )
    found: list[Tensors] = []
    position = 0
    for _ in range(count):
        tensors: Tensors = {}
        for view in views:
            tensors[view.tensor] = elements(stdout, view.type, position)
            position += view.type.size_bytes
        found.append(tensors)
    return tuple(found)


def elements(raw: bytes, type: TensorType, position: int = 0) -> Array:
    """A tensor that begins at a position of raw bytes."""
    part = raw[position : position + type.size_bytes]
    return np.frombuffer(part, type.dtype.value).reshape(type.shape)


OBSERVABLE_STEPS = "-DPENSTOCK_STEP=__attribute__((noinline))"
"""Step functions stay functions, so that counts can be told apart; the same for every figure."""


@dataclass(frozen=True, slots=True)
class CoreRun:
    """One inference on a simulated core: what it computed and what it cost."""

    tensors: Tensors
    counts: Counts
    steps: tuple[Counts, ...]
    stack_bytes: int


@dataclass(frozen=True, slots=True)
class Sections:
    """Bytes of the linked model's own objects, without start-up code."""

    code: int
    weights: int
    data: int
    bss: int


class Firmware:
    """A compiled model on a simulated core."""

    def __init__(self, compilation: Compilation, folder: Path, compiler: str = "zig") -> None:
        target = compilation.request.target
        if target.core is None:
            raise ToolError(
                "tool-021",
                f"target {target.name} has no simulated core",
                where="core of the target",
                help="take cortex-m4, or run on this machine with --target host",
            )
        flags = getattr(target.compiler, compiler)
        make = {"zig": zig_cortex_m, "gcc": gcc_cortex_m}[compiler]
        tools = make(flags, target.compiler.optimise)
        prefix = compilation.prefix
        sources = [folder / name for name in c_sources(prefix)]
        self._compilation = compilation
        self._objects = compile_objects(
            tools, sources, folder / compiler, include=(folder,), flags=(OBSERVABLE_STEPS,)
        )
        self._steps = tuple(
            step_symbol(prefix, k, command.output.tensor)
            for k, command in enumerate(compilation.program.run)
            if isinstance(command, Call)
        )
        keep = (f"{prefix}_run", f"{prefix}_arena", *self._steps)
        elf = link_firmware(tools, self._objects, folder / f"{compiler}.elf", keep=keep)
        self._simulator = Simulator(elf, target.core)
        self._arena = self._simulator.symbol(f"{prefix}_arena")

    @property
    def sections(self) -> Sections:
        """Section bytes of the model's objects: its code, its weights, its arena."""
        code, weights, arena = map(object_sections, self._objects)
        return Sections(
            code=code.text + code.rodata,
            weights=weights.text + weights.rodata,
            data=code.data + weights.data + arena.data,
            bss=code.bss + weights.bss + arena.bss,
        )

    def run(self, inputs: Mapping[str, Array]) -> CoreRun:
        """One inference by the run function: its outputs, its counts and its stack.

        Raises CapacityError where the stack is above its reserve."""
        self._fill(inputs)
        name = f"{self._compilation.prefix}_run"
        outcome = self._simulator.call(name, self._arena, phases=self._steps)
        if outcome.return_value != 0:
            raise InternalError("execution-001", f"{name} returned {outcome.return_value}")
        reserve = self._compilation.request.stack_bytes
        if outcome.stack_bytes > reserve:
            raise CapacityError(
                "capacity-003",
                f"the stack needs {outcome.stack_bytes} bytes, its reserve is {reserve}",
                where=self._compilation.model.name,
                help=f"give at least --stack {outcome.stack_bytes}",
            )
        outputs = {view.tensor: self._read(view) for view in self._compilation.program.outputs}
        return CoreRun(outputs, outcome.counts, outcome.phases, outcome.stack_bytes)

    def trace(self, inputs: Mapping[str, Array]) -> Tensors:
        """One inference, step by step: every step's output as the step leaves it."""
        self._fill(inputs)
        tensors: Tensors = {}
        calls = (c for c in self._compilation.program.run if isinstance(c, Call))
        for symbol, call in zip(self._steps, calls, strict=True):
            self._simulator.call(symbol, self._arena)
            tensors[call.output.tensor] = self._read(call.output)
        return tensors

    def _fill(self, inputs: Mapping[str, Array]) -> None:
        for view in self._compilation.program.inputs:
            raw = np.ascontiguousarray(inputs[view.tensor]).tobytes()
            self._simulator.write(self._address(view), raw)

    def _read(self, view: View) -> Array:
        buffer = self._compilation.program.buffer(view.buffer)
        if buffer.data is not None:
            return elements(buffer.data.raw, view.type)
        return elements(self._simulator.read(self._address(view), view.type.size_bytes), view.type)

    def _address(self, view: View) -> int:
        return self._arena + self._compilation.program.buffer(view.buffer).address


@contextmanager
def firmware(compilation: Compilation, compiler: str = "zig") -> Generator[Firmware]:
    """The model compiled, linked and loaded, in a folder that is gone afterwards."""
    with unpacked(compilation.bundle) as folder:
        yield Firmware(compilation, folder, compiler)


def run_on_core(
    compilation: Compilation, sets: Sequence[Mapping[str, Array]], compiler: str = "zig"
) -> tuple[CoreRun, ...]:
    """Every set on the simulated core, observed step by step; the first set also by the run
    function, which gives the counts and the stack of all, and whose outputs are taken."""
    with firmware(compilation, compiler) as chip:
        first = chip.run(sets[0])
        traced = [chip.trace(inputs) for inputs in sets]
    runs = [replace(first, tensors=tensors) for tensors in traced]
    return (replace(first, tensors={**traced[0], **first.tensors}), *runs[1:])
