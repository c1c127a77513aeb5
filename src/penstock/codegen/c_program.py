"""Generates the C files of a program: run and reset functions, memory plan, constant arrays and
project files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.codegen import c_text
from penstock.codegen.bundle import Bundle
from penstock.codegen.c_driver import DriverCode, includes
from penstock.codegen.c_functions import body, functions
from penstock.codegen.interface import interface
from penstock.codegen.names import Names
from penstock.errors import BackendError, InternalError
from penstock.frozen import frozen
from penstock.ir.op import Table
from penstock.program.program import (
    Advance,
    Call,
    Command,
    Discard,
    FillTensor,
    LoadTensor,
    Program,
    View,
)
from penstock.program.steps import (
    accessed_views,
    entry_bytes,
    folded_constants,
    steps,
    table_bytes,
    walk,
)
from penstock.toolchains.compiler import WARNINGS, Optimise
from penstock.toolchains.cortex_m import CODE_FLAGS


def reset_lines(program: Program, names: Names) -> str:
    """The body of the reset function: one statement per state."""
    return "\n".join(f"    {_statement(program, names, command)}" for command in program.reset)


def _statement(program: Program, names: Names, command: Command) -> str:
    match command:
        case FillTensor(target, byte):
            size = target.type.size_bytes
            return f"memset({_address(program, names, target)}, {byte}, {size});"
        case LoadTensor(target, source):
            constant, address = names.buffers[source.buffer], _address(program, names, target)
            times = target.type.size_bytes // source.type.size_bytes
            if times == 1:
                return f"memcpy({address}, {constant}, sizeof {constant});"
            place = f"{address} + k * sizeof {constant}"
            return (
                f"for (size_t k = 0; k < {times}; k++) {{\n"
                f"        memcpy({place}, {constant}, sizeof {constant});\n    }}"
            )
        case _:
            raise InternalError("codegen-007", f"a reset contains {command}")


def _address(program: Program, names: Names, view: View) -> str:
    memory = names.memories[program.buffer(view.buffer).memory].name
    return f"{memory} + {names.buffers[view.buffer]}"


# Alignment of data that only accelerators read: tables and command streams.
ACCELERATORS_ALIGNMENT_BYTES = 16
_BOUND_TYPES = {1: "uint8_t", 2: "uint16_t", 4: "int32_t"}


@frozen
class Array:
    """A constant array of the weights file, aligned to the larger of `alignment_bytes` and the
    element size."""

    symbol: str
    table: Table
    note: str
    alignment_bytes: int = 4

    @property
    def c_type(self) -> str:
        return c_text.C_TYPES[self.table.type.dtype]

    @property
    def declaration(self) -> str:
        """The declarator, which the header and the definition share.

        Both state the alignment: without it, a compiler may assume that an array of 16 bytes or
        more is aligned to 16 (System V ABI for x86-64, 3.1.2), which the definition denies."""
        alignment = max(self.alignment_bytes, self.table.type.dtype.size_bytes)
        elements = self.table.type.elements
        return f"_Alignas({alignment}) const {self.c_type} {self.symbol}[{elements}]"

    @property
    def uses_math(self) -> bool:
        """Whether the definition uses macros of math.h: elements are infinite or NaN."""
        elements = self.table.array
        return elements.dtype.kind == "f" and not bool(np.isfinite(elements).all())

    @property
    def definition(self) -> str:
        body = c_text.array_body(self.table.array)
        return f"/* {c_text.comment(self.note)} */\n{self.declaration} = {{\n{body}\n}};"


def arrays(program: Program, names: Names) -> tuple[Array, ...]:
    """All arrays of the weights file: tensors of the model, followed by kernel tables."""
    views = [view for command in walk(program.run) for view in accessed_views(command)]
    seen = {view.buffer: view.type for view in (*views, *program.outputs)}
    types = dict(seen)
    types |= {b.name: b.type for b in program.buffers if b.type is not None}
    read = set(types) - folded_constants(program)
    tensors = [
        Array(
            names.buffers[b.name],
            Table(types[b.name], b.data),
            f"{b.name}: {types[b.name]}",
            4 if b.name in seen else max(ACCELERATORS_ALIGNMENT_BYTES, b.alignment_bytes),
        )
        for b in program.buffers
        if b.data is not None and b.name in read
    ]
    tables: dict[str, Array] = {}
    for step, number in steps(program).items():
        for name, table in () if step.body else step.kernel.every_table:
            symbol = names.kernel_tables[number, name]
            note = f"{name} of step {number}, made by the compiler"
            tables.setdefault(symbol, Array(symbol, table, note))
    return (*tensors, *tables.values())


def tables(names: Names) -> tuple[str, ...]:
    """C definitions of the row tables and of the tables of loop bounds."""
    rows = (
        _definition(f"/* rows of {c_text.short(buffer)} */", "uint32_t", symbol, values)
        for (buffer, values), symbol in names.rows.items()
    )
    bounds = (
        _definition("/* bounds of loops */", _BOUND_TYPES[entry_bytes(values)], symbol, values)
        for values, symbol in names.bounds.items()
    )
    return (*rows, *bounds)


def _definition(note: str, c_type: str, symbol: str, values: tuple[int, ...]) -> str:
    body = c_text.array_body(np.array(values, np.int64))
    return f"{note}\nstatic const {c_type} {symbol}[{len(values)}] = {{\n{body}\n}};"


# Templates of a bundle's files; "model" in their names becomes the model's prefix.
TEMPLATES = (
    "model.h",
    "model.c",
    "model_arena.c",
    "model_weights.h",
    "model_weights.c",
    "main.c",
    "CMakeLists.txt",
)
# CMake build types for -O3 and -Os.
BUILD_TYPES: Mapping[Optimise, str] = {"speed": "Release", "size": "MinSizeRel"}
NO_DRIVERS: Mapping[str, DriverCode] = {}
_KERNEL_HEADERS = re.compile(r'#include "kernels/([^"]+)[.]h"')
_RUNTIME = files("penstock.runtime")


def generate(
    program: Program,
    prefix: str,
    provenance: str,
    *,
    keeps_input: bool,
    drivers: Mapping[str, DriverCode] = NO_DRIVERS,
    optimise: Optimise = "speed",
    compiler: str = "penstock",
) -> Bundle:
    """Generates the C files of a program.

    prefix         begins every public name
    provenance     model and target, for the comment in the header
    keeps_input    whether run preserves its input
    drivers        how calls of accelerators are written, by engine
    optimise       selects the default build type of the CMake project
    compiler       name and version of the compiler, for the comment in the header

    Raises BackendError for inconsistent drivers."""
    names = Names.of(program, prefix)
    constants = arrays(program, names)
    used = {step.engine for step in steps(program) if step.body}
    drivers = {engine: _declared(engine, drivers) for engine in drivers if engine in used}
    parts = functions(program, names, drivers)
    run = body(program, names, parts, drivers)
    headers = _headers(program)
    model = interface(program, names)
    holes = {
        "model": model,
        "prefix": prefix,
        "upper": prefix.upper(),
        "provenance": c_text.comment(provenance),
        "compiler": c_text.comment(compiler),
        "keeps_input": keeps_input,
        "alignment": model.alignment_bytes,
        "build_type": BUILD_TYPES[optimise],
        "warnings": WARNINGS,
        "core_flags": CODE_FLAGS,
        "weight_bytes": sum(a.table.type.size_bytes for a in constants),
        "constant_bytes": sum(a.table.type.size_bytes for a in constants) + table_bytes(program),
        "headers": headers,
        "includes": includes(tuple(drivers.values())),
        "stubs": stub_sources(tuple(drivers.values())),
        "driver_projects": [
            code.cmake.replace("{prefix}", prefix).replace("{PREFIX}", prefix.upper())
            for code in drivers.values()
            if code.cmake
        ],
        "window_rows": max((step.kernel.window_rows for step in steps(program)), default=0),
        "only_wide_weights": {step.kernel.real_weight_bytes for step in steps(program)} - {None}
        == {4},
        "tables": tables(names),
        "functions": (*(part.text for part in parts.values()), *run.loops),
        "run": run.lines,
        "reset": reset_lines(program, names),
        "fails": any(p.failure == f"{prefix.upper()}_ACCELERATOR_FAILED" for p in parts.values()),
        "arrays": constants,
    }
    rendered = tuple((name.replace("model", prefix), render(name, holes)) for name in TEMPLATES)
    sources = tuple(_sources(drivers, [name for name, _ in rendered]))
    used_by_stubs = (h for _, text in sources for h in _KERNEL_HEADERS.findall(text.decode()))
    headers = (*headers, *used_by_stubs)
    return Bundle((*rendered, *_runtime_files(headers), *sources))


def _declared(engine: str, drivers: Mapping[str, DriverCode]) -> DriverCode:
    """The driver code of an engine.  Raises BackendError if it declares no functions."""
    code = drivers[engine]
    if not code.includes and code.replace_call_extern is None:
        raise BackendError(
            "backend-094",
            "the driver's functions are not declared",
            where=f"{engine}, code generation",
            why="the generated C would call undeclared functions",
            help=f"_register_codegen(includes='#include \"{engine}.h\"', "
            f'sources=("{engine}.h", "{engine}.c")): the header and, until the hardware exists, a '
            "stub",
        )
    return code


def _sources(
    drivers: Mapping[str, DriverCode], names: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """The files of all drivers, equal ones once; `names` are the files of the model."""
    known: dict[str, tuple[str, str | None]] = {name: ("the model", None) for name in names}
    for engine, code in drivers.items():
        for name, text in code.sources:
            owner, other = known.setdefault(name, (engine, text))
            if other != text:
                raise BackendError(
                    "backend-092",
                    f"two files are called {name}",
                    where=f"{engine}, sources",
                    why=f"the other one belongs to {owner}",
                    help=f'rename it, for example to "{engine}_{name}"',
                )
    yield from ((name, text.encode()) for name, (_, text) in known.items() if text is not None)


def stub_sources(drivers: Sequence[DriverCode]) -> tuple[str, ...]:
    """C files of driver stubs, to be replaced by real drivers."""
    every = (name for code in drivers for name, _ in code.sources)
    return tuple(name for name in every if name.endswith(".c"))


def c_sources(prefix: str) -> tuple[str, ...]:
    """The C files of a bundle that are compiled into the library, without drivers."""
    return (f"{prefix}.c", f"{prefix}_weights.c", f"{prefix}_arena.c")


def render(template: str, holes: Mapping[str, object]) -> bytes:
    """Renders a template with values for its variables."""
    return _environment().get_template(f"{template}.j2").render(holes).encode()


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("penstock.codegen"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def _headers(program: Program) -> tuple[str, ...]:
    """Runtime headers of a program: its kernels, and those for loops and queues if used."""
    every = steps(program)
    run = (kernel.name for step in every if not step.body for kernel in step.kernel.sequence)
    kernels = dict.fromkeys(run) or ("view",)
    bodies = (command for step in every for command in walk(step.body))
    kinds = {type(command) for command in (*walk(program.run), *bodies)}
    loops = ("loop",) if kinds - {Call, Advance, Discard} else ()
    queues = ("queue",) if Advance in kinds else ()
    return (*kernels, *loops, *queues)


def _runtime_files(headers: tuple[str, ...]) -> tuple[tuple[str, bytes], ...]:
    """Runtime headers and, transitively, the headers that they include; sorted by name."""
    wanted = [f"{name}.h" for name in (*headers, "view")]
    found: dict[str, bytes] = {}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = (_RUNTIME / name).read_bytes()
            wanted += re.findall(r'#include "([^"]+)"', found[name].decode())
    return tuple((f"kernels/{name}", found[name]) for name in sorted(found))
