"""Region calls: calls of one accelerator that run as a unit, with one body.

Only the output of the last call is visible outside.  The region's operator is a composite of the
operators of its members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from penstock.ir.composite import Composite
from penstock.ir.graph import Node, Value
from penstock.ir.op import Kernel, Site
from penstock.ir.tensor import Data, row_count
from penstock.program.expr import Binary, Expr, TableEntry, Var, binary
from penstock.program.program import (
    END,
    FIRST,
    Address,
    Argument,
    Call,
    Command,
    DriverRecord,
    Invoke,
    Issue,
    Loop,
    TensorRows,
    Transfer,
    View,
    WholeMemory,
)
from penstock.program.steps import Variables


def region_call(members: Sequence[Call], body: Sequence[Command]) -> Call:
    """Return the call of a region.

    members: the calls that it replaces, in order; each computes its whole output.
    body: the commands of the region."""
    inside = {call.output.tensor for call in members}
    views: dict[str, View] = {}
    data: dict[str, Data | None] = {}
    nodes: list[Node] = []
    for call in members:
        operands = zip(call.inputs, call.site.inputs, call.site.constants, strict=True)
        values = [Value(view.tensor, type, constant) for view, type, constant in operands]
        nodes.append(Node(call.op, tuple(values), Value(call.output.tensor, call.site.output)))
        for view, value in zip(call.inputs, values, strict=True):
            if view.tensor not in inside:
                views[view.tensor], data[view.tensor] = view, value.data
    last = members[-1]
    constants = tuple((k, f"input {k}") for k, name in enumerate(views) if data[name] is not None)
    return Call(
        Composite("region", last.engine, tuple(nodes), tuple(views)),
        Site(tuple(v.type for v in views.values()), last.site.output, tuple(data.values())),
        Kernel(
            f"{last.engine}.region",
            constants=constants,
            alignment_bytes=max(call.kernel.alignment_bytes for call in members),
            cache_line_bytes=max(call.kernel.cache_line_bytes for call in members),
        ),
        last.engine,
        tuple(views.values()),
        last.output,
        0,
        row_count(last.output.type.shape),
        origin=", ".join(dict.fromkeys(call.origin for call in members if call.origin)),
        body=tuple(body),
        members=tuple(replace(call, body=()) for call in members),
    )


def whole_body(call: Call) -> tuple[Command, ...]:
    """Return the commands of a call for all rows of its output, without FIRST and END."""
    values = {FIRST.name: 0, END.name: row_count(call.output.type.shape)}
    return tuple(_command(command, values) for command in call.body)


def _command(command: Command, values: Variables) -> Command:
    match command:
        case Loop():
            inner = {name: value for name, value in values.items() if name != command.variable}
            return replace(
                command,
                lower=_expr(command.lower, values),
                upper=_expr(command.upper, values),
                body=tuple(_command(each, inner) for each in command.body),
            )
        case Invoke(driver, given):
            if isinstance(given, tuple):
                return Invoke(driver, tuple(_argument(each, values) for each in given))
            return Invoke(driver, _record(given, values))
        case Issue():
            return replace(
                command,
                first=_expr(command.first, values),
                end=_expr(command.end, values),
                inputs=tuple(_rows(rows, values) for rows in command.inputs),
                result=_rows(command.result, values),
                tables=tuple(_address(table, values) for table in command.tables),
                scratch=command.scratch and _address(command.scratch, values),
            )
        case Transfer():
            source, target = _address(command.source, values), _address(command.target, values)
            return replace(command, source=source, target=target)
        case _:
            return command


def _record(record: DriverRecord, values: Variables) -> DriverRecord:
    """Return a record of arguments whose expressions have values."""
    found = {f.name: getattr(record, f.name) for f in fields(record)}
    changed = {
        name: value if isinstance(value, int) else _argument(value, values)
        for name, value in found.items()
    }
    return type(record)(**changed)


def _argument(argument: Argument, values: Variables) -> Argument:
    if isinstance(argument, WholeMemory):
        return argument
    if isinstance(argument, Address):
        return _address(argument, values)
    return _expr(argument, values)


def _address(address: Address, values: Variables) -> Address:
    return Address(address.buffer, _expr(address.offset, values))


def _rows(rows: TensorRows, values: Variables) -> TensorRows:
    return replace(
        rows,
        lower=_expr(rows.lower, values),
        upper=_expr(rows.upper, values),
        offset=_expr(rows.offset, values),
    )


def _expr(expr: Expr, values: Variables) -> Expr:
    """Return an expression in which variables are replaced by values."""
    match expr:
        case Var(name):
            return values.get(name, expr)
        case Binary(operator, left, right):
            return binary(operator, _expr(left, values), _expr(right, values))
        case TableEntry(entries, index):
            found = _expr(index, values)
            return entries[found] if isinstance(found, int) else TableEntry(entries, found)
        case _:
            return expr
