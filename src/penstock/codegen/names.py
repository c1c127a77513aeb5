"""Names: what everything in a program is called in C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.codegen import c_text
from penstock.program.program import Call, Command, Copy, Kind, Program, Pull, Wait
from penstock.program.steps import as_stream, as_transfer, steps, streams, walk
from penstock.program.tables import RowTable, bound_tables, row_tables

NO_TOKEN = "at_once"
"""The token of copies that are waited for where they begin."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What the run function is handed and hands through: "arena", "int8_t *arena"."""

    name: str
    declaration: str


@dataclass(frozen=True, slots=True)
class Names:
    """By what a program has, its name in C.

    `buffers`: an offset of the memory plan, or a constant array; `rows`: row tables; `bounds`:
    tables of bounds; `memories`: the pointer to a memory in functions; `steps`: the functions of
    steps, `transfers` of copies, and `streams` of pulls."""

    prefix: str
    buffers: Mapping[str, str]
    rows: Mapping[RowTable, str]
    bounds: Mapping[tuple[int, ...], str]
    memories: Mapping[str, Parameter]
    pulls: Mapping[str, tuple[Parameter, Parameter]]
    steps: Mapping[Call, str]
    transfers: Mapping[Copy, str]
    streams: Mapping[Pull, str]
    engines: Mapping[str, str]
    tokens: Mapping[str, str]

    @staticmethod
    def of(program: Program, prefix: str) -> Names:
        """The names of a program's parts; `prefix` begins every public one, and the functions'."""
        commands = tuple(walk(program.run))
        buffers = _buffers(program, prefix)
        copies = [c for c in commands if isinstance(c, Copy)]
        transfers = dict.fromkeys(as_transfer(c) for c in copies)
        pulled = dict.fromkeys(as_stream(c) for c in commands if isinstance(c, Pull))
        engines = c_text.distinct_identifiers(
            c.engine for c in commands if isinstance(c, Copy | Wait)
        )
        return Names(
            prefix,
            buffers,
            {
                table: f"rows{k:02d}_{c_text.identifier(table[0])}"
                for k, table in enumerate(row_tables(program))
            },
            {values: f"bounds{k:02d}" for k, values in enumerate(bound_tables(program))},
            _memories(program),
            _pulls(program, prefix),
            {s: f"{prefix}_{step_name(s, k)}" for s, k in steps(program).items()},
            {
                t: f"{prefix}_copy_{k:02d}_{c_text.identifier(t.source.tensor)}"
                for k, t in enumerate(transfers)
            },
            {
                p: f"{prefix}_pull_{k:02d}_{c_text.identifier(p.target.tensor)}"
                for k, p in enumerate(pulled)
            },
            {engine: f"{prefix}_engine_{name}".upper() for engine, name in engines.items()},
            _tokens(commands),
        )

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What the run function takes."""
        return (*self.memories.values(), *(p for pair in self.pulls.values() for p in pair))


def step_name(step: Call, number: int) -> str:
    """What the function of a step is called behind the prefix."""
    return f"step_{number:02d}_{c_text.identifier(step.output.tensor)}"


def _buffers(program: Program, prefix: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for k, buffer in enumerate(program.buffers):
        start = f"{prefix}_w" if buffer.kind is Kind.CONSTANT else "at"
        found[buffer.name] = f"{start}{k:02d}_{c_text.identifier(buffer.name)}"
    return found


def _memories(program: Program) -> dict[str, Parameter]:
    """The first is `arena`, others are `MEMORY_arena`."""
    ram = [memory.name for memory in program.ram()]
    others = c_text.distinct_identifiers(ram[1:])
    names = {ram[0]: "arena"} | {name: f"{other}_arena" for name, other in others.items()}
    return {memory: Parameter(name, f"int8_t *{name}") for memory, name in names.items()}


def _pulls(program: Program, prefix: str) -> dict[str, tuple[Parameter, Parameter]]:
    """By streamed input, the caller's function and its context: `pull`, then `pull_1`, .."""
    found: dict[str, tuple[Parameter, Parameter]] = {}
    for k, view in enumerate(streams(program)):
        pull, context = (f"{name}_{k}" if k else name for name in ("pull", "context"))
        found[view.tensor] = (
            Parameter(pull, f"{prefix}_pull {pull}"),
            Parameter(context, f"void *{context}"),
        )
    return found


def _tokens(commands: tuple[Command, ...]) -> dict[str, str]:
    """The tokens of all engines; NO_TOKEN stands for none."""
    moves = (c for c in commands if isinstance(c, Copy | Wait))
    names = c_text.distinct_identifiers(c.token or NO_TOKEN for c in moves)
    return {token: f"token_{name}" for token, name in names.items()}
