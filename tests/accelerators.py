"""Accelerators for tests of partitioning and of kernel selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.backends.accelerator import (
    Accelerator,
    AcceleratorTarget,
    Codegen,
    Implementation,
    NamedPattern,
    Strategy,
)
from penstock.backends.author import Rule
from penstock.backends.pattern import Pattern
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.ir.op import Kernel

NAME = "toy"


def named(pattern: Pattern, name: str = "p", predicate: Rule | None = None) -> NamedPattern:
    """A pattern with a name."""
    return NamedPattern(name, pattern, predicate)


def implementation(name: str, cycles: object = 1, condition: bool | str = True) -> Implementation:
    """An implementation; `cycles` is a constant or a function of the number of rows."""
    cost: Callable[[int], int] = cycles if callable(cycles) else lambda rows: cycles
    return Implementation(name, Kernel(name, cycles=lambda rows, memories: cost(rows)), condition)


def strategy(op: str, level: int, *offered: Implementation) -> Strategy:
    """A strategy that returns the same implementations for every node."""
    return Strategy(op, lambda node, composite, target: offered, level)


def accelerator(
    patterns: Sequence[NamedPattern], strategies: Sequence[Strategy] = ()
) -> Accelerator:
    """An accelerator beside the target "host"."""
    target = AcceleratorTarget(NAME, {}, load_target("host"))
    return Accelerator(target, tuple(patterns), tuple(strategies), (), (), (), Codegen())


def names(graph: Graph) -> list[str]:
    """Names of the nodes of a graph, in order."""
    return [node.name for node in graph.nodes]
