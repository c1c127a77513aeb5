"""Test C around generated C: copies of all tensors, streamed inputs, and a main function."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.codegen.c_program import render
from penstock.codegen.interface import interface
from penstock.codegen.names import Names
from penstock.program.program import Program, View
from penstock.program.steps import steps

TRACED = "-DPENSTOCK_TRACE=penstock_trace"
"""Compiler flag for generated C and observer: records the results of every call."""
SOURCE, HARNESS = "observer.c", "harness.c"


@dataclass(frozen=True, slots=True)
class Traced:
    """A tensor that steps compute, and its byte offset in the trace."""

    view: View
    offset: int


def traced(program: Program) -> tuple[Traced, ...]:
    """The tensors of a trace; a tensor that several steps compute occurs once.

    Of a tensor that is computed in bands of columns, the trace contains one band only."""
    views: dict[str, View] = {}
    for view in (step.output for step in steps(program)):
        known = views.setdefault(view.tensor, view)
        if view.type.size_bytes > known.type.size_bytes:
            views[view.tensor] = view
    found: list[Traced] = []
    end = 0
    for view in views.values():
        found.append(Traced(view, end))
        end += view.type.size_bytes
    return tuple(found)


def trace_bytes(program: Program) -> int:
    """Size of a trace, at least 1, since C has no empty arrays."""
    return max(1, sum(t.view.type.size_bytes for t in traced(program)))


def generate_observer(program: Program, prefix: str) -> tuple[tuple[str, bytes], ...]:
    """Files to add to a bundle: the observer, and a program that runs it on the host."""
    offsets = {t.view.tensor: t.offset for t in traced(program)}
    holes = {
        "model": interface(program, Names.of(program, prefix)),
        "prefix": prefix,
        "upper": prefix.upper(),
        "trace_bytes": trace_bytes(program),
        "traced": [(offsets[s.output.tensor], s.output.row_bytes) for s in steps(program)],
    }
    return tuple((name, render(name, holes)) for name in ("observer.h", SOURCE, HARNESS))
