"""Program -> C: the run function, the memory plan, the weights, and the files around them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.codegen import c_text
from penstock.codegen.bundle import Bundle
from penstock.errors import InternalError
from penstock.ir.op import Table, row_axis
from penstock.ir.tensor import DType, TensorType
from penstock.program.program import Box, Buffer, Call, Command, Kind, Program, View

ARENA_ALIGNMENT_BYTES = 16
TEMPLATES = (
    "model.h",
    "model.c",
    "model_arena.c",
    "model_weights.h",
    "model_weights.c",
    "main.c",
    "CMakeLists.txt",
)
"""Templates of a bundle's files; "model" in their names becomes the model's prefix."""
_RUNTIME = files("penstock.runtime")


@dataclass(frozen=True, slots=True)
class Array:
    """A constant array of the weights file."""

    symbol: str
    table: Table
    note: str

    @property
    def c_type(self) -> str:
        return c_text.C_TYPES[self.table.type.dtype]

    @property
    def declaration(self) -> str:
        return f"const {self.c_type} {self.symbol}[{self.table.type.elements}]"

    @property
    def definition(self) -> str:
        body = c_text.array_body(self.table.array)
        return (
            f"/* {c_text.comment(self.note)} */\n_Alignas(4) {self.declaration} = {{\n{body}\n}};"
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the run function, its function and its parameters, as text."""

    function: str
    text: str


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of the model, as the header declares it."""

    function: str
    c_type: str
    macro: str
    size_bytes: int
    place: str
    in_arena: bool
    note: str


def step_symbol(prefix: str, index: int, tensor: str) -> str:
    """Name of the function of step `index`, which computes `tensor`."""
    return f"{prefix}_step_{index:02d}_{c_text.identifier(tensor)}"


def generate(program: Program, prefix: str, provenance: str, *, keeps_input: bool) -> Bundle:
    """The C files of a program.  `prefix` begins every public name; `provenance` says in the header
    from which model and for what the code is; `keeps_input`: run does not overwrite the input."""
    symbols = _symbols(program, prefix)
    calls = tuple(_call_of(command) for command in program.run)
    steps = tuple(_step(program, call, k, prefix, symbols) for k, call in enumerate(calls))
    kernels = tuple(dict.fromkeys(call.kernel.name for call in calls))
    arrays = _arrays(program, calls, prefix, symbols)
    arena = next(m for m in program.memories if m.writable)
    holes = {
        "prefix": prefix,
        "upper": prefix.upper(),
        "provenance": c_text.comment(provenance),
        "keeps_input": keeps_input,
        "arena_bytes": max(1, arena.size_bytes),
        "alignment": ARENA_ALIGNMENT_BYTES,
        "weight_bytes": sum(a.table.type.size_bytes for a in arrays),
        "kernels": kernels or ("view",),
        "steps": steps,
        "plan": _plan(program, symbols),
        "arrays": arrays,
        "inputs": _ports(program, program.inputs, prefix, "input", symbols),
        "outputs": _ports(program, program.outputs, prefix, "output", symbols),
    }
    rendered = tuple(
        (name.replace("model", prefix), _render(f"{name}.j2", holes)) for name in TEMPLATES
    )
    return Bundle((*rendered, *_runtime_files(kernels)))


def generate_harness(program: Program, prefix: str) -> bytes:
    """A C program that runs the model on inputs from stdin and writes every step's output; to be
    compiled with PENSTOCK_TRACE=penstock_trace, for hosts."""
    symbols = _symbols(program, prefix)
    calls = tuple(_call_of(command) for command in program.run)
    traced = tuple(
        (program.buffer(call.output.buffer).address, call.output.type.size_bytes) for call in calls
    )
    holes = {
        "prefix": prefix,
        "upper": prefix.upper(),
        "traced": traced,
        "inputs": _ports(program, program.inputs, prefix, "input", symbols),
        "outputs": _ports(program, program.outputs, prefix, "output", symbols),
    }
    return _render("harness.c.j2", holes)


def c_sources(prefix: str) -> tuple[str, ...]:
    """The bundle's own C files that are compiled into the library."""
    return (f"{prefix}.c", f"{prefix}_weights.c", f"{prefix}_arena.c")


def _render(template: str, holes: Mapping[str, object]) -> bytes:
    environment = Environment(
        loader=PackageLoader("penstock.codegen"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    return environment.get_template(template).render(holes).encode()


def _call_of(command: Command) -> Call:
    if not isinstance(command, Call):
        raise InternalError(
            "codegen-001", f"{type(command).__name__} has no C form on processors yet"
        )
    return command


def _symbols(program: Program, prefix: str) -> dict[str, str]:
    """By name of a buffer, its name in C: an offset of the plan, or a constant array."""
    found: dict[str, str] = {}
    for k, buffer in enumerate(program.buffers):
        kind = "w" if buffer.kind is Kind.CONSTANT else "at"
        owner = f"{prefix}_" if kind == "w" else ""
        found[buffer.name] = f"{owner}{kind}{k:02d}_{c_text.identifier(buffer.name)}"
    return found


def _plan(program: Program, symbols: Mapping[str, str]) -> tuple[str, ...]:
    """The memory plan, a line each buffer: offset, bytes, steps, tensor."""
    arena = [b for b in program.buffers if b.kind is not Kind.CONSTANT]
    uses = _uses(program)
    width = max((len(symbols[b.name]) for b in arena), default=0)
    digits = max((len(str(b.address + b.size_bytes)) for b in arena), default=0)
    lines: list[str] = []
    for b in arena:
        first, last = uses.get(b.name, ("-", "-"))
        span = f"[{b.address:>{digits}}, {b.address + b.size_bytes:>{digits}})"
        lines.append(
            f"{symbols[b.name]:<{width}} = {b.address:>{digits}}, /* {span}  "
            f"[{first}, {last}]  {b.kind.value}  {c_text.short(b.name)} */"
        )
    return tuple(lines)


def _uses(program: Program) -> dict[str, tuple[str, str]]:
    """By name of a buffer, the first and last step that touches it; "in" and "out" the caller."""
    found: dict[str, tuple[str, str]] = {v.buffer: ("in", "in") for v in program.inputs}
    for step, command in enumerate(program.run):
        call = _call_of(command)
        names = [v.buffer for v in (*call.inputs, call.output)]
        for name in [*names, *([call.scratch] if call.scratch else [])]:
            found[name] = (found.get(name, (str(step), ""))[0], str(step))
    for view in program.outputs:
        found[view.buffer] = (found.get(view.buffer, ("-", ""))[0], "out")
    return found


def _step(
    program: Program, call: Call, index: int, prefix: str, symbols: Mapping[str, str]
) -> Step:
    function = step_symbol(prefix, index, call.output.tensor)
    members = {member for member, _ in call.kernel.constants}
    views = [v for k, v in enumerate(call.inputs) if k not in members]
    lower, upper = _rows(call.out, call.output.type)
    sources = ", ".join(_view(program, v, symbols) for v in views)
    scratch = f", arena + {symbols[call.scratch]}" if call.scratch else ""
    text = "\n".join(
        (
            _step_comment(call, index),
            f"static const struct {call.kernel.name} {_params_name(index)} = {{",
            *_members(call, index, prefix, symbols),
            "};",
            f"PENSTOCK_STEP void {function}(int8_t *arena) {{",
            f"    const penstock_source x[] = {{{sources}}};",
            f"    const penstock_sink y = {_view(program, call.output, symbols)};",
            f"    {call.kernel.name}(&{_params_name(index)}, x, &y, {lower}, {upper}{scratch});",
            f"    PENSTOCK_TRACE({index}, arena);",
            "}",
        )
    )
    return Step(function, text)


def _params_name(index: int) -> str:
    return f"step_{index:02d}_params"


def _step_comment(call: Call, index: int) -> str:
    """What the step is in the model file, and the types of all that it reads and writes."""
    origin = c_text.comment(call.origin.split(": ", 1)[-1])
    members = dict(call.kernel.constants)
    shown = [
        f" *   {members.get(k, 'x'):<8}{c_text.type_comment(view.type)}  "
        f"{c_text.short(view.tensor)}"
        for k, view in enumerate(call.inputs)
    ]
    out = (
        f" *   {'y':<8}{c_text.type_comment(call.output.type)}  {c_text.short(call.output.tensor)}"
    )
    return "\n".join([f"/* step {index}  {c_text.short(origin, 88)}", *shown, f"{out} */"])


def _members(call: Call, index: int, prefix: str, symbols: Mapping[str, str]) -> tuple[str, ...]:
    """Initialisers of the kernel's parameters, by name."""
    numbers = [f".{name} = {c_text.integer(value)}," for name, value in call.kernel.params]
    pointers = [
        f".{member} = {symbols[call.inputs[k].buffer]}," for k, member in call.kernel.constants
    ]
    pointers += [
        f".{name} = {_table_symbol(prefix, index, name)}," for name, _ in call.kernel.tables
    ]
    lines: list[str] = []
    for item in (*numbers, *pointers):
        if lines and len(lines[-1]) + len(item) < 96:
            lines[-1] += f" {item}"
        else:
            lines.append(c_text.INDENT + item)
    return tuple(lines)


def _table_symbol(prefix: str, index: int, name: str) -> str:
    return f"{prefix}_step_{index:02d}_{name}"


def _view(program: Program, view: View, symbols: Mapping[str, str]) -> str:
    """A penstock_source or penstock_sink of a view."""
    buffer = program.buffer(view.buffer)
    if view.rows.table is not None or view.offset != 0:
        raise InternalError("codegen-002", f'the view of "{view.tensor}" has no C form yet')
    base = _base(buffer, view.type, symbols)
    return f"{{{base}, NULL, {view.rows.pitch}, {view.rows.ring}}}"


def _base(buffer: Buffer, type: TensorType, symbols: Mapping[str, str]) -> str:
    if buffer.kind is not Kind.CONSTANT:
        return f"arena + {symbols[buffer.name]}"
    cast = "" if c_text.C_TYPES[type.dtype] == "int8_t" else "(const int8_t *)"
    return f"{cast}{symbols[buffer.name]}"


def _rows(out: Box, type: TensorType) -> tuple[int, int]:
    """The interval of rows of a whole output."""
    if out.upper != type.shape or any(out.lower):
        raise InternalError("codegen-003", "stripes have no C form yet")
    rows = 1
    for extent in type.shape[: row_axis(type.rank) + 1] if type.rank > 1 else ():
        rows *= extent
    return 0, rows


def _arrays(
    program: Program, calls: tuple[Call, ...], prefix: str, symbols: Mapping[str, str]
) -> tuple[Array, ...]:
    """Every constant array: tensors of the model, then tables of kernels."""
    types = {v.buffer: v.type for call in calls for v in call.inputs}
    types |= {v.buffer: v.type for v in program.outputs}
    tensors = [
        Array(symbols[b.name], Table(types[b.name], b.data), f"{b.name}: {types[b.name]}")
        for b in program.buffers
        if b.data is not None
    ]
    tables = [
        Array(_table_symbol(prefix, k, name), table, f"{name} of step {k}, made by the compiler")
        for k, call in enumerate(calls)
        for name, table in call.kernel.tables
    ]
    return (*tensors, *tables)


def _ports(
    program: Program,
    views: tuple[View, ...],
    prefix: str,
    role: str,
    symbols: Mapping[str, str],
) -> tuple[Port, ...]:
    """Inputs or outputs: NAME_input, then NAME_input_1, .."""
    found: list[Port] = []
    for k, view in enumerate(views):
        name = f"{role}_{k}" if k else role
        buffer = program.buffer(view.buffer)
        c_type = "int8_t" if view.type.dtype is DType.INT8 else "void"
        const = "const " if role == "output" else ""
        constant = buffer.kind is Kind.CONSTANT
        place = symbols[buffer.name] if constant else f"(int8_t *)arena + {symbols[buffer.name]}"
        q = view.type.quantisation
        real = f", real = {q.scales[0]!r} * (q - {q.zero_points[0]})" if q else ""
        note = f"{c_text.comment(view.tensor)}: {c_text.type_comment(view.type)}{real}"
        found.append(
            Port(
                f"{prefix}_{name}",
                const + c_type,
                f"{prefix}_{name}_bytes".upper(),
                view.type.size_bytes,
                place,
                not constant,
                note,
            )
        )
    return tuple(found)


def _runtime_files(kernels: tuple[str, ...]) -> tuple[tuple[str, bytes], ...]:
    """The kernels' headers and all that they include, by name."""
    wanted = [f"{name}.h" for name in (*kernels, "view")]
    found: dict[str, bytes] = {}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = (_RUNTIME / name).read_bytes()
            wanted += re.findall(r'#include "([^"]+)"', found[name].decode())
    return tuple((f"kernels/{name}", found[name]) for name in sorted(found))
