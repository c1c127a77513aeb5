"""Parser of the text form of programs, which `printer` describes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from penstock.ir.op import row_count
from penstock.ir.tensor import Data, TensorType
from penstock.ir.text.constants import Constants, split_data_lines
from penstock.ir.text.labels import LabelReader
from penstock.ir.text.reader import GraphReader
from penstock.program.expr import Expr
from penstock.program.program import (
    Address,
    Advance,
    Box,
    Buffer,
    Call,
    Command,
    Copy,
    Counted,
    Discard,
    DriverRecord,
    FillTensor,
    Invoke,
    Kind,
    LoadTensor,
    Loop,
    Memory,
    Program,
    Pull,
    RowCounter,
    Rows,
    View,
    Wait,
)
from penstock.program.region_call import region_from
from penstock.program.rotation import Rotation
from penstock.program.text.context import PREFERRED, ProgramContext, kernels
from penstock.program.text.expressions import ExprReader
from penstock.program.text.printer import rows_box
from penstock.scanner import Scanner, Token, quoted
from penstock.scheduling.model.part import Part

_KINDS = {kind.value: kind for kind in Kind}
_ENTRIES = ("init", "reset", "run", "waits")
_BLOCKS = ("for", "call", "region")
_COMMANDS = (*_BLOCKS, "copy", "wait", "pull", "invoke", "discard", "fill", "load", "advance")


def read_program(text: str, context: ProgramContext, constants: Constants | None = None) -> Program:
    """Parses the text of a program.  `constants`: contents by digest that the text lacks.

    Raises ModelError if the text is malformed or refers to an unknown name."""
    body, found = split_data_lines(text)
    scanner = Scanner(body)
    program = _Reader(scanner, context, {**(constants or {}), **found}).program()
    if not scanner.at_end:
        raise scanner.unexpected("the end of the text")
    return program


class _Reader:
    """Parses a program from a scanner."""

    def __init__(self, scanner: Scanner, context: ProgramContext, constants: Constants) -> None:
        self._scanner = scanner
        self._context = context
        handles = {handle: name for name, handle in context.labels.handles.items()}
        self._types = GraphReader(scanner, {}, constants)
        self._constants = self._types.constants
        self._label = LabelReader(scanner, handles)
        self._expr = ExprReader(scanner, self._constants).expr
        self._views: dict[tuple[str, int], View] = {}

    def program(self) -> Program:
        scanner, accept = self._scanner, self._scanner.accept_word
        scanner.skip_newlines()
        scanner.expect_word("program")
        name = scanner.name()
        scanner.end_statement()
        memories: list[Memory] = []
        while accept("memory"):
            memories.append(Memory(scanner.name(), scanner.integer(), accept("writable")))
            scanner.end_statement()
        buffers: list[Buffer] = []
        while scanner.accept_word("buffer"):
            buffers.append(self._buffer())
            scanner.end_statement()
        while scanner.accept_word("view"):
            self._declaration()
            scanner.end_statement()
        inputs, outputs = (
            tuple(self._listed()) if scanner.accept_word(word) else ()
            for word in ("inputs", "outputs")
        )
        init, reset, run, waits = (self._block() if accept(word) else () for word in _ENTRIES)
        sizes = (tuple(memories), tuple(buffers))
        drivers = tuple(command.driver for command in waits if isinstance(command, Invoke))
        return Program(name, *sizes, inputs, outputs, init, reset, run, drivers)

    def _buffer(self) -> Buffer:
        scanner = self._scanner
        name = self._label.name()
        scanner.expect(":")
        kind = _KINDS[scanner.expect_word(*_KINDS)]
        memory = scanner.name()
        address = scanner.integer()
        scanner.expect("..")
        size = scanner.integer() - address
        type: TensorType | None = self._types.type() if scanner.accept_word("type") else None
        data = Data(self._constants.raw()) if scanner.accept_word("data") else None
        value = self._context.values.get(name)
        if scanner.accept_word("without"):
            scanner.expect_word("data")
        elif type is None and data is None and value is not None and value.data is not None:
            type, data = value.type, value.data
        stream = scanner.accept_word("stream")
        return Buffer(name, kind, memory, address, size, data, type, stream)

    def _declaration(self) -> None:
        """Parses the declaration of a view.  Raises ModelError if it is a duplicate or has no
        type."""
        scanner = self._scanner
        at = scanner.peek()
        key = self._reference()
        if key in self._views:
            raise scanner.error(f"view {at} is declared twice", at=at)
        scanner.expect(":")
        value = self._context.values.get(key[0])
        if not scanner.is_word("in"):
            type = self._types.type()
        elif value is not None:
            type = value.type
        else:
            raise scanner.unexpected("a type")
        scanner.expect_word("in")
        buffer = self._label.name()
        rows = self._rows() if scanner.accept_word("pitch") else Rows.whole(type)
        lower: Expr = 0
        upper: Expr = row_count(type.shape)
        if scanner.accept_word("rows"):
            lower, upper = self._range()
        offset = self._expr() if scanner.accept_word("offset") else 0
        column = self._expr() if scanner.accept_word("column") else None
        self._views[key] = View(key[0], type, buffer, rows, lower, upper, offset, column)

    def _rows(self) -> Rows:
        scanner = self._scanner
        pitch = scanner.integer()
        scanner.expect_word("ring")
        ring = scanner.integer()
        if scanner.accept_word("rotated"):
            scanner.expect_word("by")
            counter = self._label.name()
            scanner.expect_word("from")
            return Rows(pitch, ring, rotation=Rotation(counter, scanner.integer()))
        if not scanner.accept_word("table"):
            return Rows(pitch, ring)
        table = tuple(n for n in self._constants.numbers() if isinstance(n, int))
        return Rows(pitch, ring, table)

    def _reference(self) -> tuple[str, int]:
        """Parses a reference to a view: the name of its tensor and its number."""
        scanner = self._scanner
        tensor = self._label.name()
        if scanner.is_symbol(":") and scanner.is_followed_by_number():
            scanner.take()
            return tensor, scanner.integer()
        return tensor, 1

    def _view(self) -> View:
        at = self._scanner.peek()
        key = self._reference()
        found = self._views.get(key)
        if found is None and key[1] == 1:
            found = self._context.whole_view(key[0])
        if found is None:
            raise self._scanner.unknown(f"view {at} is not declared", at=at)
        return found

    def _listed(self) -> Iterator[View]:
        """Parses views up to the end of the line."""
        yield from self._views_with_commas()
        self._scanner.end_statement()

    def _views_with_commas(self) -> Iterator[View]:
        yield self._view()
        while self._scanner.accept(","):
            yield self._view()

    def _block(self) -> tuple[Command, ...]:
        """Parses commands in braces and the end of the line."""
        scanner = self._scanner
        scanner.expect("{")
        scanner.skip_newlines()
        found: list[Command] = []
        while not scanner.is_symbol("}"):
            found.append(self._command())
        scanner.expect("}")
        scanner.end_statement()
        return tuple(found)

    def _command(self) -> Command:
        scanner = self._scanner
        keyword = scanner.expect_word(*_COMMANDS)
        if keyword in ("for", "region"):
            return self._loop() if keyword == "for" else region_from(self._block())
        if keyword == "call":
            return self._call()
        simple = {
            "copy": self._copy,
            "wait": lambda: Wait(scanner.name(), scanner.string()),
            "pull": self._pull,
            "discard": lambda: Discard(self._label.name()),
            "invoke": self._invoke,
            "fill": self._fill,
            "load": self._load,
            "advance": self._advance,
        }
        found = simple[keyword]()
        scanner.end_statement()
        return found

    def _fill(self) -> FillTensor:
        target = self._view()
        self._scanner.expect_word("with")
        return FillTensor(target, self._scanner.integer())

    def _load(self) -> LoadTensor:
        source = self._view()
        self._scanner.expect("->")
        return LoadTensor(self._view(), source)

    def _advance(self) -> Advance:
        window = self._view()
        self._scanner.expect_word("counter")
        counter = self._view()
        self._scanner.expect_word("by")
        return Advance(window, counter, self._scanner.integer())

    def _loop(self) -> Loop:
        scanner = self._scanner
        variable = scanner.name()
        scanner.expect_word("in")
        lower, upper = self._range()
        step = scanner.integer() if scanner.accept_word("step") else 1
        counted = self._counted() if scanner.accept_word("counted") else None
        counters = tuple(self._counters()) if scanner.accept_word("with") else ()
        return Loop(variable, lower, upper, step, self._block(), counted, counters)

    def _counted(self) -> Counted:
        self._scanner.expect_word("by")
        counter = self._scanner.name()
        for word in ("up", "to"):
            self._scanner.expect_word(word)
        return Counted(counter, self._scanner.name())

    def _counters(self) -> Iterator[RowCounter]:
        more = True
        while more:
            name = self._scanner.name()
            self._scanner.expect_word("from")
            yield RowCounter(name, self._scanner.integer())
            more = self._scanner.accept(",")

    def _call(self) -> Call:
        scanner = self._scanner
        at = scanner.peek()
        output = self._view()
        scanner.expect("(")
        inputs = () if scanner.is_symbol(")") else tuple(self._views_with_commas())
        scanner.expect(")")
        part = self._part(output, at)
        node = part.nodes[-1]
        out = self._box(node.site.output.shape)
        at = scanner.peek()
        role = scanner.name() if scanner.accept_word("by") else PREFERRED
        kernel = dict(kernels(part)).get(role)
        if kernel is None:
            raise scanner.contradiction(f'"{part.name}" has no kernel "{role}"', at=at)
        scratch = self._label.name() if scanner.accept_word("scratch") else None
        prefetched = self._view() if scanner.accept_word("prefetched") else None
        prefetches = tuple(self._views_with_commas()) if scanner.accept_word("prefetches") else ()
        body: tuple[Command, ...] = ()
        if scanner.is_symbol("{"):
            body = self._block()
        else:
            scanner.end_statement()
        return Call(
            node.op,
            node.site,
            kernel,
            part.engine,
            inputs,
            output,
            out,
            scratch,
            node.origin,
            body,
            prefetched,
            prefetches,
        )

    def _part(self, output: View, at: Token) -> Part:
        """Parses the clause that selects a part of a band, if any; returns the part that computes
        an output, to which `at` refers.  Raises ModelError if there is none."""
        scanner = self._scanner
        if not scanner.accept_word("of"):
            part = self._context.part(output.tensor)
            if part is None:
                raise scanner.contradiction(f"no part computes {at}", at=at)
            return part
        bands = self._label.name()
        scanner.expect_word("band")
        k = scanner.integer()
        part = self._context.part_in_bands(bands, k, output)
        if part is None:
            text = f"no part computes {at} in band {k} of {quoted(bands)}"
            raise scanner.contradiction(text, at=at)
        return part

    def _box(self, shape: tuple[int, ...]) -> Box:
        scanner = self._scanner
        if scanner.accept_word("rows"):
            return rows_box(shape, *self._range())
        if not scanner.accept_word("box"):
            return Box((0,) * len(shape), shape)
        lower = tuple(self._expressions())
        scanner.expect("..")
        return Box(lower, tuple(self._expressions()))

    def _expressions(self) -> Iterator[Expr]:
        """Parses expressions in parentheses."""
        scanner = self._scanner
        scanner.expect("(")
        while not scanner.accept(")"):
            yield self._expr()
            if not scanner.is_symbol(")"):
                scanner.expect(",")

    def _copy(self) -> Copy:
        scanner = self._scanner
        source = self._view()
        scanner.expect("->")
        target = self._view()
        scanner.expect_word("rows")
        lower, upper = self._range()
        scanner.expect_word("on")
        engine = scanner.name()
        token = scanner.string() if scanner.accept_word("as") else None
        return Copy(source, target, lower, upper, engine, token)

    def _pull(self) -> Pull:
        target = self._view()
        self._scanner.expect_word("rows")
        return Pull(target, *self._range())

    def _invoke(self) -> Invoke:
        scanner = self._scanner
        at = scanner.peek()
        name = scanner.name()
        scanner.expect_word("on")
        engine = scanner.name()
        if (example := self._context.invocation(engine, name)) is None:
            raise scanner.contradiction(f"{engine} has no driver function {at}", at=at)
        scanner.expect("(")
        if not isinstance(example.given, tuple):
            return Invoke(example.driver, self._record(example.given))
        arguments: list[Expr | Address] = []
        while not scanner.accept(")"):
            arguments.append(self._argument())
            if not scanner.is_symbol(")"):
                scanner.expect(",")
        return Invoke(example.driver, tuple(arguments))

    def _record(self, example: DriverRecord) -> DriverRecord:
        """Parses a record of the same class as an example; flags and enumerators have the types of
        the example's fields."""
        scanner = self._scanner
        found: dict[str, Any] = {}
        for field in fields(example):
            if found:
                scanner.expect(",")
            scanner.expect_word(field.name)
            scanner.expect("=")
            at = scanner.peek()
            value: Any = self._argument()
            kind = type(getattr(example, field.name))
            try:
                typed = isinstance(value, int) and issubclass(kind, int)
                found[field.name] = kind(value) if typed else value
            except ValueError as error:
                raise scanner.error(f"{error}", at=at) from error
        scanner.expect(")")
        return type(example)(**found)

    def _argument(self) -> Expr | Address:
        return self._address() if self._scanner.accept("&") else self._expr()

    def _address(self) -> Address:
        buffer = self._label.name()
        return Address(buffer, self._expr() if self._scanner.accept("+") else 0)

    def _range(self) -> tuple[Expr, Expr]:
        lower = self._expr()
        self._scanner.expect("..")
        return lower, self._expr()
