"""Execution: compile a bundle, run it on the host or on a simulated core, and trace its tensors."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from penstock.codegen import observer
from penstock.codegen.bundle import Bundle
from penstock.codegen.c_program import c_sources
from penstock.codegen.interface import interface
from penstock.codegen.names import Names
from penstock.errors import InternalError, ToolError
from penstock.frozen import frozen
from penstock.ir.tensor import Array, TensorType, row_count
from penstock.pipeline.compilation import Compilation, stack_error
from penstock.program.expr import evaluate
from penstock.program.program import View
from penstock.program.steps import calls, streams, submitted_steps
from penstock.scheduling.bands.band_schedule import tensor_configs
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.simulators import cores
from penstock.simulators.calling import CallOutcome, ExecutionCounts
from penstock.simulators.cores import CoreSimulator, core_compiler, core_name
from penstock.simulators.graph import TensorTrace, gathered
from penstock.toolchains.compiler import Compiler, compile_objects
from penstock.toolchains.cortex_m import link_firmware
from penstock.toolchains.elf_file import defined_symbols, object_sections
from penstock.toolchains.host import (
    host_compiler,
    link_executable,
    run_executable,
    sanitised_compiler,
)

THUMB = 1  # The bit of a function pointer that selects Thumb code.
# Optimising sanitised code takes longer than running so many multiplications without.
UNOPTIMISED_MACS = 30_000_000
# Symbols of the observer per streamed input: callback, elements, index of the next row.
_FED = ("feed", "rows", "next")
Tensors = dict[str, Array]  # Arrays by tensor name.


@contextmanager
def unpacked(bundle: Bundle) -> Generator[Path]:
    """A temporary directory with the files of a bundle."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        folder = Path(name)
        for file, content in bundle.files:
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield folder


@frozen
class HostRun:
    """The tensors of each set of inputs, and the sanitizers that were active."""

    tensors: tuple[Tensors, ...]
    sanitizers: tuple[str, ...]


def run_on_host(
    compilation: Compilation, sets: Sequence[Mapping[str, Array]], steps: int = 1
) -> HostRun:
    """Run the generated C on this machine, with sanitizers; return the output of every step.

    `steps`: the state is reset before every `steps` sets.

    Raises ToolError if no compiler is installed, or a sanitizer stops the program."""
    found = sanitised_compiler(host_compiler())
    is_short = compilation.model.macs() * len(sets) <= UNOPTIMISED_MACS
    flags = (observer.TRACED, "-O0") if is_short else (observer.TRACED,)
    own = (*c_sources(compilation.prefix), observer.SOURCE, observer.HARNESS)
    stubs = (name for name in library_sources(compilation) if name not in own)
    stdin = b"".join(input_bytes(compilation, inputs) for inputs in sets)
    with unpacked(_observed(compilation)) as folder:
        sources = [folder / name for name in (observer.WHOLE, *stubs)]  # one compiler, not five

        def output(*checks: str) -> bytes:
            objects = compile_objects(
                found.compiler,
                sources,
                folder / "objects",
                include=(folder,),
                flags=(*flags, *checks),
            )
            executable = link_executable(found.compiler, objects, folder / "harness")
            return run_executable(executable, stdin, (str(len(sets)), str(steps)))

        try:
            stdout = output(*(found.quick_checks if is_short else ()))
        except ToolError:  # once more, with a message about what is wrong
            stdout = output()
    return HostRun(_split(compilation, stdout, len(sets)), found.sanitizers)


def outputs_on_host(
    compilation: Compilation,
    sets: Sequence[Mapping[str, Array]],
    compiler: Compiler,
    library: Sequence[Path],
) -> tuple[Tensors, ...]:
    """Run object files of an unmodified bundle on this machine; return the outputs of every set.

    `library` holds the objects of `library_sources`, built by `compiler`."""
    with unpacked(_observed(compilation)) as folder:
        names = (observer.SOURCE, observer.HARNESS)
        own = compile_objects(
            compiler, [folder / name for name in names], folder / "objects", include=(folder,)
        )
        executable = link_executable(compiler, (*library, *own), folder / "harness")
        stdin = b"".join(input_bytes(compilation, inputs) for inputs in sets)
        stdout = run_executable(executable, stdin, (str(len(sets)), "1"))
    outputs = [view.tensor for view in compilation.program.outputs]
    every = _split(compilation, stdout, len(sets))
    return tuple({name: tensors[name] for name in outputs} for tensors in every)


def library_sources(compilation: Compilation) -> tuple[str, ...]:
    """The model's own C files, then the stubs of accelerator drivers."""
    stubs = (n for n, _ in compilation.bundle.files if n.endswith(".c") and "/" not in n)
    own = c_sources(compilation.prefix)
    return (*own, *(name for name in stubs if name not in own and name != "main.c"))


def _observed(compilation: Compilation) -> Bundle:
    watching = observer.generate_observer(compilation.program, compilation.prefix)
    return compilation.bundle.with_files(*watching)


def input_bytes(compilation: Compilation, inputs: Mapping[str, Array]) -> bytes:
    """The inputs of one set, concatenated, streamed inputs last."""
    program = compilation.program
    views = (*program.inputs, *streams(program))
    return b"".join(np.ascontiguousarray(inputs[view.tensor]).tobytes() for view in views)


def _split(compilation: Compilation, stdout: bytes, count: int) -> tuple[Tensors, ...]:
    program = compilation.program
    trace_bytes = observer.trace_bytes(program)
    size = trace_bytes + sum(view.type.size_bytes for view in program.outputs)
    if len(stdout) != size * count:
        raise ToolError(
            "tool-020",
            f"the program wrote {len(stdout)} bytes, must write {size * count}",
            where=compilation.model.name,
        )
    found: list[Tensors] = []
    for begin in range(0, size * count, size):
        tensors = traced_tensors(compilation, stdout[begin : begin + trace_bytes])
        position = begin + trace_bytes
        for view in program.outputs:
            tensors[view.tensor] = elements(stdout, view.type, position)
            position += view.type.size_bytes
        found.append(tensors)
    return tuple(found)


def traced_tensors(compilation: Compilation, trace: bytes) -> Tensors:
    """The tensors of a trace.

    Elements that no step computes, because nothing reads them, are masked (`numpy.ma`)."""
    every = observer.traced(compilation.program)
    found = {t.tensor: elements(trace, t.type, t.offset) for t in every}
    in_bands = {
        call.output.tensor
        for call in calls(compilation.program)
        if call.output.first_column is not None
    }
    if not in_bands:
        return found
    shapes = {value.name: value.type.shape for value in compilation.graph.variables()}
    computed: Tensors = {}
    assemble = TensorTrace(computed, shapes)
    for config in tensor_configs(ExpandedSchedule(compilation.schedule)):
        if config.tensor in in_bands & found.keys():
            for region in set(config.regions()):
                assemble(config.tensor, region, found[config.tensor][region.slices])
    return {**found, **gathered(computed)}


def elements(raw: bytes, type: TensorType, position: int = 0) -> Array:
    """The array of a tensor type that starts at a byte position."""
    part = raw[position : position + type.size_bytes]
    return np.frombuffer(part, type.dtype.value).reshape(type.shape)


@frozen
class CoreRun:
    """One inference on a simulated core: tensors, counts in total and per step (without callbacks
    that supply streamed inputs), stack in bytes.

    The functions that submit several steps as one stream count in `submissions`."""

    tensors: Tensors
    counts: ExecutionCounts
    steps: tuple[ExecutionCounts, ...]
    stack_bytes: int
    submissions: ExecutionCounts = field(default_factory=ExecutionCounts)


@frozen
class Sections:
    """Section sizes in bytes of the model's objects, without start-up code.

    `weights` covers all constants: the weights file, and tables of rows and bounds."""

    code: int
    weights: int
    data: int
    bss: int


class Firmware:
    """A linked model on a simulated core: unmodified for counts, and traced for its tensors.

    `folder` holds the files of the bundle and of the observer.  `library` holds object files of the
    bundle that were built elsewhere, such as by its CMake project; by default, they are built
    here."""

    def __init__(
        self,
        compilation: Compilation,
        folder: Path,
        tools: Compiler,
        library: Sequence[Path] = (),
    ) -> None:
        self._compilation = compilation
        self._names = Names.of(compilation.program, compilation.prefix)
        self._core = core_name(compilation.request.target)
        self._tools = tools
        self._folder = folder
        hidden = submitted_steps(compilation.program)
        self._steps = tuple(None if s in hidden else n for s, n in self._names.steps.items())
        self._rams = interface(compilation.program, self._names).rams
        self._streams = len(streams(compilation.program))
        used = {part.engine for part in compilation.parts.parts}
        every = (a for a in compilation.request.accelerators if a.name in used)
        drivers = (a.codegen.driver for a in every)
        self._traps = {name: make for d in drivers if d for name, make in d.traps.items()}
        model = tuple(library) or self._compile(library_sources(compilation), "model")
        self._objects = (*model, *self._compile((observer.SOURCE,), "observer"))
        self._simulator = self._load(self._objects, "model")

    def _compile(self, sources: Sequence[str], kind: str, *flags: str) -> tuple[Path, ...]:
        files = [self._folder / name for name in sources]
        folder = self._folder / "objects" / kind
        return compile_objects(self._tools, files, folder, include=(self._folder,), flags=flags)

    def _load(self, objects: Sequence[Path], kind: str, *keep: str) -> CoreSimulator:
        prefix, program = self._compilation.prefix, self._compilation.program
        fed = [f"{prefix}_{name}_{k}" for k, _ in enumerate(streams(program)) for name in _FED]
        reset = (f"{prefix}_reset",) if program.reset else ()
        kept = (f"{prefix}_run", *reset, *(ram.array for ram in self._rams), *fed, *keep)
        elf = self._folder / "objects" / f"{kind}.elf"
        layout = cores.layout(self._core)
        link_firmware(self._tools, objects, elf, keep=kept, layout=layout)
        core = cores.simulator(elf, self._core)
        for name, make in self._traps.items():
            core.set_trap(name, make())
        return core

    @property
    def simulator(self) -> CoreSimulator:
        """The core with the unmodified model."""
        return self._simulator

    @cached_property
    def _traced(self) -> CoreSimulator:
        """The core with the traced model, which copies every computed tensor."""
        code, watching = f"{self._compilation.prefix}.c", observer.SOURCE
        model, observing = self._compile((code, watching), "traced", observer.TRACED)
        objects = (model, *self._objects[1:-1], observing)
        return self._load(objects, "traced", f"{self._compilation.prefix}_trace")

    @property
    def sections(self) -> Sections:
        """Section sizes of the model's objects."""
        code, weights, arena = map(object_sections, self._objects[:3])
        names = {*self._names.rows.values(), *self._names.bounds.values()}
        tables = sum(s.size_bytes for s in defined_symbols(self._objects[0]) if s.name in names)
        return Sections(
            code=code.text + code.rodata - tables,
            weights=weights.text + weights.rodata + tables,
            data=code.data + weights.data + arena.data,
            bss=code.bss + weights.bss + arena.bss,
        )

    @property
    def functions(self) -> tuple[tuple[str, int], ...]:
        """(name, bytes) of the functions of the model's code, the largest first.

        Layers share kernels; functions with a single caller are inlined into it."""
        found = (s for s in defined_symbols(self._objects[0]) if s.function and s.size_bytes)
        return tuple(sorted(((s.name, s.size_bytes) for s in found), key=lambda f: (-f[1], f[0])))

    def run(
        self, inputs: Mapping[str, Array], *, reset: bool = True, any_stack: bool = False
    ) -> CoreRun:
        """Run one inference of the unmodified model, by default after a reset of its state.

        Raises CapacityError if the stack exceeds its reserve, unless `any_stack` is True."""
        if reset:
            self._reset(self._simulator)
        callbacks = [f"{self._compilation.prefix}_{_FED[0]}_{k}" for k in range(self._streams)]
        submissions = tuple(self._names.submissions.values())
        own = tuple(name for name in self._steps if name is not None)
        phases = (*own, *submissions, *callbacks)
        outcome = self._run(self._simulator, inputs, phases)
        outputs = self._outputs(self._simulator)
        counts = dict(zip(phases, outcome.phases, strict=True))
        steps = tuple(counts[n] if n is not None else ExecutionCounts() for n in self._steps)
        submitting = sum((counts[name] for name in submissions), ExecutionCounts())
        found = CoreRun(outputs, outcome.counts, steps, outcome.stack_bytes, submitting)
        error = None if any_stack else stack_error(self._compilation, found.stack_bytes)
        if error is not None:
            raise error
        return found

    def trace(self, inputs: Mapping[str, Array], *, reset: bool = True) -> Tensors:
        """Run one inference of the traced model, by default after a reset of its state; return
        every computed tensor."""
        core, prefix = self._traced, self._compilation.prefix
        if reset:
            self._reset(core)
        address = core.symbol(f"{prefix}_trace")
        size = observer.trace_bytes(self._compilation.program)
        core.write(address, bytes(size))
        self._run(core, inputs)
        tensors = traced_tensors(self._compilation, core.read(address, size))
        return {**tensors, **self._outputs(core)}

    def _reset(self, core: CoreSimulator) -> None:
        """Reset the model's state, if it has any."""
        if self._compilation.program.reset:
            arguments = [core.symbol(ram.array) for ram in self._rams]
            core.call(f"{self._compilation.prefix}_reset", *arguments)

    def _run(
        self, core: CoreSimulator, inputs: Mapping[str, Array], phases: Sequence[str] = ()
    ) -> CallOutcome:
        program, prefix = self._compilation.program, self._compilation.prefix
        for view in program.inputs:
            self._put(core, view, inputs[view.tensor])
        arguments = [core.symbol(ram.array) for ram in self._rams]
        for k, view in enumerate(streams(program)):
            feed, rows, following = (core.symbol(f"{prefix}_{name}_{k}") for name in _FED)
            core.write(rows, np.ascontiguousarray(inputs[view.tensor]).tobytes())
            core.write(following, bytes(4))
            arguments += [feed | THUMB, following]
        outcome = core.call(f"{prefix}_run", *arguments, phases=phases)
        if outcome.return_value != 0:
            raise InternalError("execution-001", f"{prefix}_run returned {outcome.return_value}")
        return outcome

    def _outputs(self, core: CoreSimulator) -> Tensors:
        return {view.tensor: self._get(core, view) for view in self._compilation.program.outputs}

    def _put(self, core: CoreSimulator, view: View, array: Array) -> None:
        raw = np.ascontiguousarray(array).tobytes()
        for row, address in enumerate(self._row_addresses(core, view)):
            core.write(address, raw[row * view.row_bytes : (row + 1) * view.row_bytes])

    def _get(self, core: CoreSimulator, view: View) -> Array:
        data = self._compilation.program.buffer(view.buffer).data
        if data is not None:
            return elements(data.raw, view.type)
        rows = (core.read(address, view.row_bytes) for address in self._row_addresses(core, view))
        return elements(b"".join(rows), view.type)

    def _row_addresses(self, core: CoreSimulator, view: View) -> list[int]:
        program = self._compilation.program
        buffer = program.buffer(view.buffer)
        memory = [ram.name for ram in program.ram()].index(buffer.memory)
        base = core.symbol(self._rams[memory].array) + buffer.address + evaluate(view.offset, {})
        return [base + view.rows.offset(row) for row in range(row_count(view.type.shape))]


@contextmanager
def firmware(
    compilation: Compilation, compiler: str | Compiler = "zig", library: Sequence[Path] = ()
) -> Generator[Firmware]:
    """The model compiled, linked and loaded, in a temporary directory."""
    target = compilation.request.target
    tools = core_compiler(target, compiler) if isinstance(compiler, str) else compiler
    with unpacked(_observed(compilation)) as folder:
        yield Firmware(compilation, folder, tools, library)


def run_on_core(
    compilation: Compilation,
    sets: Sequence[Mapping[str, Array]],
    compiler: str = "zig",
    steps: int = 1,
) -> tuple[CoreRun, ...]:
    """Run every set on the simulated core, traced; the state is reset before every `steps` sets.

    The first set also runs unmodified; its counts and stack stand for all sets, since control flow
    does not depend on data.  The stack may exceed its reserve, see `stack_error`."""
    with firmware(compilation, compiler) as chip:
        first = chip.run(sets[0], any_stack=True)
        traced = [chip.trace(inputs, reset=k % steps == 0) for k, inputs in enumerate(sets)]
    runs = [replace(first, tensors=tensors) for tensors in traced]
    return (replace(first, tensors={**traced[0], **first.tensors}), *runs[1:])
