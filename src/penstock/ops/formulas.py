"""Formulas: Python's operators on tensors of real numbers, each of which adds a node."""

from __future__ import annotations

from penstock.frozen import frozen
from penstock.ir.graph import Value
from penstock.ir.op import Op
from penstock.opkit.real_nodes import RealNodes
from penstock.ops.plain import PlainAbs, PlainAdd, PlainDiv, PlainMul, PlainSub


@frozen(eq=False)
class Term:
    """A tensor in a formula; `nodes` are those that compute it."""

    nodes: RealNodes
    value: Value

    def to(self, op: Op, *others: Term | Value | float) -> Term:
        """The result of an operator of this tensor and others."""
        return Term(self.nodes, self.nodes.apply(op, self.value, *map(_operand, others)))

    def __abs__(self) -> Term:
        return self.to(PlainAbs())

    def __add__(self, other: Term | Value | float) -> Term:
        return self.to(PlainAdd(), other)

    def __sub__(self, other: Term | Value | float) -> Term:
        return self.to(PlainSub(), other)

    def __mul__(self, other: Term | Value | float) -> Term:
        return self.to(PlainMul(), other)

    def __truediv__(self, other: Term | Value | float) -> Term:
        return self.to(PlainDiv(), other)

    def __rsub__(self, number: float) -> Term:
        return Term(self.nodes, self.nodes.apply(PlainSub(), number, self.value))

    def __rtruediv__(self, number: float) -> Term:
        return Term(self.nodes, self.nodes.apply(PlainDiv(), number, self.value))


def _operand(other: Term | Value | float) -> Value | float:
    return other.value if isinstance(other, Term) else other
