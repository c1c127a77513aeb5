"""Labels: the names of values in texts; long names and names that need quotes have a short
handle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.frozen import frozen
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.quoting import is_name, quoted

MAX_NAME = 32  # Longer names are printed once; all other references use a handle.


@frozen
class Labels:
    """The handles of names, such as "%0"; the label of a name without a handle is the name
    itself."""

    handles: Mapping[str, str]

    @staticmethod
    def of(graph: Graph) -> Labels:
        """Handles for a graph's names, numbered in the order in which its text declares them."""
        long = (name for name in dict.fromkeys(_names(graph)) if not _is_short(name))
        return Labels({name: f"%{k}" for k, name in enumerate(long)})

    def __call__(self, name: str) -> str:
        """The token that refers to a name."""
        return self.handles.get(name) or (name if is_name(name) else quoted(name))

    def declaration(self, name: str) -> str:
        """The text of a name's declaration: the name, with its handle if it has one."""
        handle = self.handles.get(name)
        return f"{handle} {quoted(name)}" if handle else name


def _is_short(name: str) -> bool:
    return is_name(name) and len(name) <= MAX_NAME


def _names(graph: Graph) -> Iterator[str]:
    yield from (value.name for value in graph.sources)
    yield from _names_of_nodes(graph.nodes)
    yield from (value.name for value in graph.results)


def _names_of_nodes(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        yield from (value.name for value in node.inputs)
        yield node.name
        if isinstance(node.op, Composite):
            yield from node.op.inputs
            yield from _names_of_nodes(node.op.nodes)
