"""Names: the C identifiers of all parts of a program, and names derived from that of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from penstock.codegen import c_text
from penstock.codegen.c_text import prefix
from penstock.frontends.suffixes import MODEL_SUFFIXES
from penstock.frozen import frozen
from penstock.ir.op import Table
from penstock.program.program import Call, Kind, Program, Pull
from penstock.program.steps import (
    RowTable,
    as_stream,
    bound_tables,
    row_tables,
    steps,
    streams,
    submissions,
    walk,
)


@frozen
class Parameter:
    """A parameter of the run function and the functions it calls: "arena", "int8_t *arena"."""

    name: str
    declaration: str


@dataclass(frozen=True)
class Names:
    """The C names of the parts of a program.

    buffers      offsets in the memory plan, or constant arrays
    rows         row tables
    bounds       tables of loop bounds
    memories     pointers to memories
    pulls        callbacks of streamed inputs, with their contexts
    steps        functions of steps
    streams      functions of pulls
    submissions  functions of submissions, by the constants that contain their streams
    """

    prefix: str
    buffers: Mapping[str, str]
    rows: Mapping[RowTable, str]
    bounds: Mapping[tuple[int, ...], str]
    memories: Mapping[str, Parameter]
    pulls: Mapping[str, tuple[Parameter, Parameter]]
    steps: Mapping[Call, str]
    streams: Mapping[Pull, str]
    submissions: Mapping[str, str]

    @staticmethod
    def of(program: Program, prefix: str) -> Names:
        """The names of a program; `prefix` begins the names of functions and of public objects."""
        pulled = dict.fromkeys(as_stream(c) for c in walk(program.run) if isinstance(c, Pull))
        return Names(
            prefix,
            _buffers(program, prefix),
            {
                table: f"rows{k:02d}_{c_text.identifier(table[0])}"
                for k, table in enumerate(row_tables(program))
            },
            {values: f"bounds{k:02d}" for k, values in enumerate(bound_tables(program))},
            _memories(program),
            _pulls(program, prefix),
            {s: f"{prefix}_{step_name(s, k)}" for s, k in steps(program).items()},
            {
                p: f"{prefix}_pull_{k:02d}_{c_text.identifier(p.target.tensor)}"
                for k, p in enumerate(pulled)
            },
            {
                one.buffer: f"{prefix}_submission_{k:02d}"
                for k, one in enumerate(submissions(program))
            },
        )

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the run function."""
        return (*self.memories.values(), *(p for pair in self.pulls.values() for p in pair))

    @cached_property
    def numbers(self) -> Mapping[Call, int]:
        """The number of each step."""
        return {step: number for number, step in enumerate(self.steps)}

    @cached_property
    def kernel_tables(self) -> Mapping[tuple[int, str], str]:
        """The kernel tables, by number of the step and name of the table.  Steps share equal tables
        of one name."""
        known: dict[tuple[str, Table], str] = {}
        found: dict[tuple[int, str], str] = {}
        for step, number in self.numbers.items():
            for name, table in step.kernel.every_table:
                symbol = f"{self.prefix}_step_{number:02d}_{name}"
                found[number, name] = known.setdefault((name, table), symbol)
        return found


def step_name(step: Call, number: int) -> str:
    """The name of a step's function, without the prefix; different from its tables' names.

    Tables are called `step_NN_TABLE`.  An identifier made of a tensor's name has no trailing
    underscore, so that the appended one makes the function's name unique."""
    name = c_text.identifier(step.output.tensor)
    tables = {table for table, _ in step.kernel.every_table}
    return f"step_{number:02d}_{name}" + "_" * (name in tables)


def _buffers(program: Program, prefix: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for k, buffer in enumerate(program.buffers):
        start = f"{prefix}_w" if buffer.kind is Kind.CONSTANT else "at"
        found[buffer.name] = f"{start}{k:02d}_{c_text.identifier(buffer.name)}"
    return found


def _memories(program: Program) -> dict[str, Parameter]:
    ram = [memory.name for memory in program.ram()]
    others = c_text.distinct_identifiers(ram[1:])
    names = {ram[0]: "arena"} | {name: f"{other}_arena" for name, other in others.items()}
    return {memory: Parameter(name, f"int8_t *{name}") for memory, name in names.items()}


def _pulls(program: Program, prefix: str) -> dict[str, tuple[Parameter, Parameter]]:
    """Callback and context of each streamed input: `pull`, `pull_1`, ..."""
    found: dict[str, tuple[Parameter, Parameter]] = {}
    for k, view in enumerate(streams(program)):
        pull, context = (f"{name}_{k}" if k else name for name in ("pull", "context"))
        found[view.tensor] = (
            Parameter(pull, f"{prefix}_pull {pull}"),
            Parameter(context, f"void *{context}"),
        )
    return found


def c_prefix(model_name: str) -> str:
    """Return the prefix of all public C names, derived from the name of a file or zoo network.

    A file suffix and everything after it are removed.
    """
    name = model_name.removeprefix("zoo:").removesuffix(".gz")
    suffix = next((s for s in MODEL_SUFFIXES if s in name), "\0")
    return prefix(name.rsplit(suffix, 1)[0])


def default_folder(model: str) -> str:
    """Return the name of the default output directory of a model file or zoo network."""
    is_zoo = model.startswith("zoo:")
    return c_prefix(model.split(":")[1] if is_zoo else Path(model).name)
