"""The interface through which accelerators join: an accelerator's file imports this and NumPy.

    from penstock.uma import Driver, OpStrategy, UMABackend, is_constant, is_op, wildcard

what an accelerator is      UMABackend, PassPhase, OpStrategy
what it takes               is_op, wildcard, is_constant: each a Pattern
what its functions are told Offloaded (facts), KernelCall (a call to be made commands of)
commands                    Driver, Address, Loop, Var; + - * // % of variables, minimum, maximum
what graph passes change    Graph, Node, Value, Composite
what program passes change  Program and its records
functional models           elements: what lies at an address
exact arithmetic            requantise, multiply, rounding_shift, doubling_high_multiply

Source: TVM RFC 0060 (UMA).  docs/how-to/add-a-backend.md shows how; docs/how-to/migrate-from-uma.md
has UMA's calls beside these.
"""

from __future__ import annotations

from penstock.backends.accelerator import AcceleratorTarget, PassPhase
from penstock.backends.functional import elements
from penstock.backends.kernel_call import KernelCall, Offloaded, Operand
from penstock.backends.op_strategy import OpStrategy
from penstock.backends.pattern import Pattern, is_constant, is_op, wildcard
from penstock.backends.stream import Place, StreamCommand
from penstock.backends.uma import UMABackend
from penstock.errors import BackendError
from penstock.fixedpoint import (
    doubling_high_multiply,
    multiply,
    requantise,
    rounding_shift,
)
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.program.expr import Expr, TableEntry, Var, maximum, minimum
from penstock.program.program import (
    Address,
    Buffer,
    Call,
    Command,
    Driver,
    Invoke,
    Loop,
    Program,
)

__all__ = [
    "AcceleratorTarget",
    "Address",
    "Array",
    "BackendError",
    "Buffer",
    "Call",
    "Command",
    "Composite",
    "DType",
    "Driver",
    "Expr",
    "Graph",
    "Invoke",
    "KernelCall",
    "Loop",
    "Node",
    "Offloaded",
    "OpStrategy",
    "Operand",
    "PassPhase",
    "Pattern",
    "Place",
    "Program",
    "Quantisation",
    "StreamCommand",
    "TableEntry",
    "TensorType",
    "UMABackend",
    "Value",
    "Var",
    "doubling_high_multiply",
    "elements",
    "is_constant",
    "is_op",
    "maximum",
    "minimum",
    "multiply",
    "requantise",
    "rounding_shift",
    "wildcard",
]
