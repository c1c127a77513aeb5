"""Test C around generated C: copies of all tensors, streamed inputs, and a main function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.codegen.c_program import c_sources, render
from penstock.codegen.interface import interface
from penstock.codegen.names import Names
from penstock.frozen import frozen
from penstock.ir.tensor import COLUMNS, TensorType
from penstock.program.expr import Expr, evaluate
from penstock.program.program import Call, Program
from penstock.program.steps import as_step, steps, submitted_steps, unrolled_calls

# Compiler flag for generated C and observer: records the results of every call.
TRACED = "-DPENSTOCK_TRACE=penstock_trace"
SOURCE, HARNESS = "observer.c", "harness.c"
WHOLE = "whole.c"  # Includes the C files of the model, the observer and the harness.


@frozen
class Traced:
    """A tensor that steps compute, and its byte offset in the trace.

    type: type of the tensor; of one that is computed in bands of columns, up to the last column
        that a band computes."""

    tensor: str
    type: TensorType
    offset: int


def traced(program: Program) -> tuple[Traced, ...]:
    """The tensors of a trace; a tensor that several steps compute occurs once.

    Those that an accelerator computes within a submission may no longer be in memory at its end;
    they are left out."""
    columns, hidden = first_columns(program), submitted_steps(program)
    types: dict[str, TensorType] = {}
    for step, number in steps(program).items():
        if step in hidden:
            continue
        view = step.output
        type = view.type
        if number in columns:
            width = max(columns[number]) + type.shape[COLUMNS]
            width = max(width, types[view.tensor].shape[COLUMNS] if view.tensor in types else 0)
            shape = (*type.shape[:COLUMNS], width, *type.shape[COLUMNS + 1 :])
            type = replace(type, shape=shape)
        elif view.tensor in types and type.size_bytes <= types[view.tensor].size_bytes:
            continue
        types[view.tensor] = type
    found: list[Traced] = []
    end = 0
    for name, type in types.items():
        found.append(Traced(name, type, end))
        end += type.size_bytes
    return tuple(found)


def trace_bytes(program: Program) -> int:
    """Size of a trace, at least 1, since C has no empty arrays."""
    return max(1, sum(t.type.size_bytes for t in traced(program)))


def first_columns(program: Program) -> Mapping[int, tuple[int, ...]]:
    """The first columns that each step in bands computes, by step number: those of its first calls;
    further calls repeat them in this order."""
    numbers = steps(program)

    def select(call: Call) -> tuple[int, Expr] | None:
        column = call.output.first_column
        return None if column is None else (numbers[as_step(call)], column)

    found: dict[int, list[int]] = {}
    for (number, column), variables in unrolled_calls(program.run, select):
        found.setdefault(number, []).append(evaluate(column, variables))
    return {number: _period(columns) for number, columns in found.items()}


def _period(sequence: Sequence[int]) -> tuple[int, ...]:
    """The shortest sequence of which this one consists, repeated.

    >>> _period([0, 2, 0, 2]), _period([3, 3]), _period([1, 2, 1])
    ((0, 2), (3,), (1, 2, 1))
    """
    count = len(sequence)
    for size in (n for n in range(1, count + 1) if count % n == 0):
        if all(sequence[k] == sequence[k % size] for k in range(count)):
            return tuple(sequence[:size])
    return tuple(sequence)


def generate_observer(program: Program, prefix: str) -> tuple[tuple[str, bytes], ...]:
    """Files to add to a bundle: the observer, and a program that runs it on the host."""
    tensors = {t.tensor: t for t in traced(program)}
    columns = first_columns(program)
    offsets = [0]
    rows: list[tuple[int, int, int, int, int]] = []
    hidden = submitted_steps(program)
    for step, number in steps(program).items():
        if step in hidden:
            rows.append((0, 0, 0, 0, 1))
            continue
        tensor, own = tensors[step.output.tensor], step.output.row_bytes
        if number not in columns:
            rows.append((tensor.offset, own, own, 0, 1))
            continue
        shape = tensor.type.shape
        column_bytes = own // step.output.type.shape[COLUMNS]
        some = [column * column_bytes for column in columns[number]]
        rows.append((tensor.offset, own, column_bytes * shape[COLUMNS], len(offsets), len(some)))
        offsets += some
    holes = {
        "model": interface(program, Names.of(program, prefix)),
        "prefix": prefix,
        "upper": prefix.upper(),
        "trace_bytes": trace_bytes(program),
        "traced": rows,
        "columns": offsets,
        "sources": (*c_sources(prefix), SOURCE, HARNESS),
    }
    return tuple((name, render(name, holes)) for name in ("observer.h", SOURCE, HARNESS, WHOLE))
