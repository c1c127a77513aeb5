"""Labels: how texts call values; short for names that are long or need quotes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.scanner import Scanner, TokenKind, is_name, quoted

MAX_NAME = 32
"""Longer names are spelled out once and called by a handle elsewhere."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The handle of each name that has one, as "%0"; other names stand for themselves."""

    handles: Mapping[str, str]

    @staticmethod
    def of(graph: Graph) -> Labels:
        """Handles for a graph's names, numbered in the order in which its text declares them."""
        long = (name for name in dict.fromkeys(_names(graph)) if not _is_short(name))
        return Labels({name: f"%{k}" for k, name in enumerate(long)})

    def __call__(self, name: str) -> str:
        """The token that stands for a name."""
        return self.handles.get(name) or (name if is_name(name) else quoted(name))

    def declaration(self, name: str) -> str:
        """The name where it is declared: with its handle if it has one."""
        handle = self.handles.get(name)
        return f"{handle} {quoted(name)}" if handle else name


class LabelReader:
    """Reads labels; learns handles where they are declared."""

    def __init__(self, scanner: Scanner, names: Mapping[str, str] | None = None) -> None:
        """`names`: by handle, names that are known before."""
        self._scanner = scanner
        self._names = dict(names or {})

    def declared(self) -> str:
        """Takes the declaration of a name."""
        scanner = self._scanner
        if scanner.peek().kind is not TokenKind.HANDLE:
            return scanner.name()
        handle = scanner.take().text
        if scanner.peek().kind is TokenKind.STRING or handle not in self._names:
            self._names[handle] = scanner.string()
        return self._names[handle]

    def name(self) -> str:
        """Takes a label; the name that it stands for."""
        scanner = self._scanner
        at = scanner.peek()
        if at.kind is not TokenKind.HANDLE:
            return scanner.name()
        scanner.take()
        if at.text not in self._names:
            raise scanner.unknown(f"handle {at.text} is not declared", at=at)
        return self._names[at.text]


def _is_short(name: str) -> bool:
    return is_name(name) and len(name) <= MAX_NAME


def _names(graph: Graph) -> Iterator[str]:
    yield from (value.name for value in graph.inputs)
    yield from _names_of_nodes(graph.nodes)
    yield from (value.name for value in graph.outputs)


def _names_of_nodes(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        yield from (value.name for value in node.inputs)
        yield node.name
        if isinstance(node.op, Composite):
            yield from node.op.inputs
            yield from _names_of_nodes(node.op.nodes)
