"""Parser of the text form of graphs, which `printer` describes."""

from __future__ import annotations

import pkgutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import is_dataclass, replace
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any

from penstock import opkit, ops
from penstock.choices import Rounding
from penstock.ir.composite import Attribute, Composite
from penstock.ir.graph import Graph, Node, Queue, QueueSection, State, Value
from penstock.ir.tensor import ChannelBlocks, Data, DType, Quantisation, TensorType
from penstock.ir.text.attributes import Constants
from penstock.ops.registry import public_classes
from texts.scanner import Scanner, Token, TokenKind
from texts.values import AttributeReader, Classes, ConstantReader, LabelReader, split_data_lines

_Scope = dict[str, Value]
_TYPES: Classes = {"ChannelBlocks": ChannelBlocks, "DType": DType}


def graph_from_text(text: str, constants: Constants | None = None) -> Graph:
    """Parses the text of a graph with any operators of penstock.

    `constants`: bytes by digest, in addition to those in the text itself.  Composites have no
    kernels, and the rules of `verify` are not checked.
    Raises ModelError if the text is malformed or refers to an unknown name."""
    body, found = split_data_lines(text)
    scanner = Scanner(body)
    reader = GraphReader(scanner, classes(), {**(constants or {}), **found})
    graph = reader.graph()
    if not scanner.at_end:
        raise scanner.unexpected("the end of the text")
    return graph


@cache
def classes() -> Classes:
    """Operators, and the records and enumerations in their fields, by name."""
    own = (
        value
        for package in (ops, opkit)
        for info in pkgutil.iter_modules(package.__path__)
        for value in public_classes(import_module(f"{package.__name__}.{info.name}"))
        if is_dataclass(value) or issubclass(value, Enum)
    )
    return {found.__name__: found for found in (*own, Rounding)}


class GraphReader:
    """Parses a graph from a scanner, up to the line of its outputs."""

    def __init__(self, scanner: Scanner, classes: Classes, constants: Constants) -> None:
        self._scanner = scanner
        self.constants = ConstantReader(scanner, constants)
        self._attributes = AttributeReader(scanner, {**classes, **_TYPES}, self.constants)
        self._declared: _Scope = {}
        self.labels = LabelReader(scanner)

    def graph(self) -> Graph:
        """Parses a graph."""
        scanner = self._scanner
        scanner.skip_newlines()
        scanner.expect_word("graph")
        name = scanner.name()
        scanner.end_statement()
        known = self._declared
        inputs = self._inputs(known)
        initial = self._initial("state", known)
        initial_rows = self._initial("queue", known)
        nodes = self._nodes(known)
        states = self._updates(known, initial)
        queues = self._windows(known, initial_rows)
        scanner.expect_word("output")
        outputs: list[Value] = []
        while scanner.peek().kind not in (TokenKind.NEWLINE, TokenKind.END):
            outputs.append(self._use(known))
            if not scanner.accept(","):
                break
        scanner.end_statement()
        return Graph(name, inputs, tuple(outputs), nodes, states, queues)

    def _inputs(self, known: _Scope) -> tuple[Value, ...]:
        found: list[Value] = []
        while self._keyword("input"):
            self._scanner.take()
            found.append(self._declaration({value.name for value in found}))
            self._scanner.end_statement()
        known |= {value.name: value for value in found}
        return tuple(found)

    def _initial(self, keyword: str, known: _Scope) -> dict[str, Data]:
        """Parses declarations `state ..` or `queue ..`; returns the initial elements by name."""
        found: dict[str, Data] = {}
        while self._keyword(keyword):
            self._scanner.take()
            value = self._declaration(known)
            self._scanner.expect("=")
            found[value.name] = self.constants.data(value.type)
            known[value.name] = value
            self._scanner.end_statement()
        return found

    def _updates(self, known: _Scope, initial: Mapping[str, Data]) -> tuple[State, ...]:
        """Parses lines `update ..`, one for each state, in any order."""
        scanner = self._scanner
        found: dict[str, State] = {}
        while self._keyword("update"):
            scanner.take()
            at = scanner.peek()
            value = self._declaration(found)
            if value.name not in initial or known[value.name] != value:
                raise scanner.unknown(f'no such state "{value.name}" is declared', at=at)
            scanner.expect("=")
            found[value.name] = State(initial[value.name], self._node(value, known))
            scanner.end_statement()
        missing = next((name for name in initial if name not in found), None)
        if missing is not None:
            raise scanner.error(f'state "{missing}" has no update')
        return tuple(found[name] for name in initial)

    def _windows(self, known: _Scope, initial: Mapping[str, Data]) -> tuple[Queue, ...]:
        """Parses lines `keep .. from ..`, one for each queue, in any order."""
        scanner = self._scanner
        found: dict[str, Queue] = {}
        while self._keyword("keep"):
            scanner.take()
            at = scanner.peek()
            before = self._use(known)
            if before.name not in initial:
                raise scanner.unknown(f'no such queue "{before.name}" is declared', at=at)
            scanner.expect_word("from")
            window = self._use(known)
            scanner.end_statement()
            sections = tuple(self._sections(known, before.name))
            found[before.name] = Queue(initial[before.name], before, window, sections)
        missing = next((name for name in initial if name not in found), None)
        if missing is not None:
            raise scanner.error(f'queue "{missing}" has no window')
        return tuple(found[name] for name in initial)

    def _sections(self, known: _Scope, queue: str) -> Iterator[QueueSection]:
        scanner = self._scanner
        while self._keyword("section"):
            scanner.take()
            at = scanner.peek()
            if self._use(known).name != queue:
                raise scanner.unknown(f'a section of "{queue}" is expected', at=at)
            scanner.expect(":")
            value = self._use(known)
            scanner.expect_word("from")
            scanner.expect_word("row")
            row = scanner.integer()
            scanner.expect_word("byte")
            yield QueueSection(value, row, scanner.integer())
            scanner.end_statement()

    def _keyword(self, *words: str) -> bool:
        """Whether the next token is a keyword, not a value of the same name (followed by a
        colon)."""
        return self._scanner.is_word(*words) and not self._scanner.is_followed_by(":")

    def _nodes(self, known: _Scope) -> tuple[Node, ...]:
        scanner = self._scanner
        nodes: list[Node] = []
        declared: set[str] = set()
        ends = ("update", "keep", "output")
        while not (scanner.at_end or scanner.is_symbol("}") or self._keyword(*ends)):
            constant = self._keyword("constant") and bool(scanner.take())
            value = self._declaration(declared)
            declared.add(value.name)
            scanner.expect("=")
            if constant:
                value = replace(value, data=self.constants.data(value.type))
            else:
                nodes.append(self._node(value, known))
            known[value.name] = value
            scanner.end_statement()
        return tuple(nodes)

    def _declaration(self, declared: Collection[str]) -> Value:
        """Parses a value without its data.  Raises ModelError if its name is in `declared`."""
        at = self._scanner.peek()
        name = self.labels.declared()
        if name in declared:
            raise self._scanner.error(f'"{name}" is declared twice', at=at)
        self._scanner.expect(":")
        type = self.type()
        origin = self._scanner.integer() if self._scanner.accept_word("origin") else None
        return Value(name, type, None, origin)

    def type(self) -> TensorType:
        scanner = self._scanner
        at = scanner.peek()
        name = scanner.name()
        if name not in {dtype.value for dtype in DType}:
            raise scanner.unknown(f'no element type is called "{name}"', at=at)
        scanner.expect("[")
        shape: list[int] = []
        while not scanner.accept("]"):
            shape.append(scanner.integer())
            if not scanner.is_symbol("]"):
                scanner.expect(",")
        quantisation = self._quantisation() if scanner.accept_word("scale") else None
        layout = self._attributes.attribute() if scanner.accept_word("layout") else None
        return TensorType(tuple(shape), DType(name), quantisation, layout)

    def _quantisation(self) -> Quantisation:
        scanner = self._scanner
        scales = tuple(map(float, self.constants.numbers()))
        zeros: tuple[Any, ...] = (0,) * len(scales)
        if scanner.accept_word("zero"):
            single = scanner.peek().kind is TokenKind.NUMBER
            zeros = self.constants.numbers() * (len(scales) if single else 1)
        axis = scanner.integer() if scanner.accept_word("axis") else None
        return Quantisation(scales, zeros, axis)

    def _node(self, output: Value, known: Mapping[str, Value]) -> Node:
        scanner = self._scanner
        at = scanner.peek()
        if at.kind is not TokenKind.NAME:
            raise scanner.unexpected("an operator")
        scanner.take()
        if at.text == "composite" and not scanner.is_symbol("("):
            op, inputs = self._composite(known)
        else:
            scanner.expect("(")
            inputs = self._operands(known)
            op = self._attributes.make(at, self._attributes.fields())
            if not hasattr(op, "evaluate"):
                raise scanner.unknown(f"{at.text} is no operator", at=at)
        origin = scanner.string() if scanner.accept_word("at") else ""
        return Node(op, inputs, output, origin)

    def _operands(self, known: Mapping[str, Value]) -> tuple[Value, ...]:
        scanner = self._scanner
        found: list[Value] = []
        while not scanner.is_symbol(")") and not scanner.is_followed_by("="):
            found.append(self._use(known))
            if not scanner.is_symbol(")"):
                scanner.expect(",")
        return tuple(found)

    def _composite(self, known: Mapping[str, Value]) -> tuple[Composite, tuple[Value, ...]]:
        scanner = self._scanner
        name = scanner.name()
        scanner.expect("(")
        inputs: list[Value] = []
        inside: list[str] = []
        while not scanner.accept(")"):
            inputs.append(self._use(known))
            inside.append(self.labels.name() if scanner.accept_word("as") else inputs[-1].name)
            if not scanner.is_symbol(")"):
                scanner.expect(",")
        scanner.expect_word("on")
        engine = scanner.name()
        attributes: tuple[tuple[str, Attribute], ...] = ()
        if scanner.accept_word("with"):
            scanner.expect("(")
            attributes = tuple(self._attributes.fields().items())
        scanner.expect("{")
        scanner.skip_newlines()
        inner = dict(known)
        self._inputs(inner)
        nodes = self._nodes(inner)
        at = scanner.peek()
        scanner.expect("}")
        if not nodes:
            raise scanner.error("a composite has at least one node", at=at)
        return Composite(name, engine, nodes, tuple(inside), attributes), tuple(inputs)

    def _use(self, known: Mapping[str, Value]) -> Value:
        at: Token = self._scanner.peek()
        name = self.labels.name()
        if name not in known:
            raise self._scanner.unknown(f'"{name}" is not declared', at=at)
        return known[name]
