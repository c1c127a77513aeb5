"""text: a graph written as text, as `penstock show` prints it (`ir/text/`)."""

from __future__ import annotations

from functools import cache

from penstock.choices import Rounding
from penstock.ir.graph import Graph
from penstock.ir.text.attributes import Classes, Constants
from penstock.ir.text.reader import read_graph
from penstock.ops.registry import operand_classes


def graph_from_text(text: str, constants: Constants | None = None) -> Graph:
    """Parses the text of a graph with any operators of penstock.

    `verify` are not checked. Raises ModelError if the text is malformed or refers to an unknown
    name."""
    return read_graph(text, classes(), constants)


@cache
def classes() -> Classes:
    """Operators, and the records and enumerations in their fields, by name."""
    return {found.__name__: found for found in (*operand_classes(), Rounding)}
