"""The interface through which accelerators join: an accelerator's file imports this and NumPy.

    from penstock.uma import Driver, OpStrategy, UMABackend, is_constant, is_op, wildcard

what an accelerator is      UMABackend, PassPhase, OpStrategy
what it takes               is_op, wildcard, is_constant: each a Pattern
what its functions are told Offloaded (facts), KernelCall (a call to be made commands of)
what a call costs           a number of cycles, or a Breakdown of them by resource; PlacedCall: a
                            call whose rows have addresses
commands                    Driver, Address, Loop, Var; + - * // % of variables, minimum, maximum
what graph passes change    Graph, Node, Value, Composite; packed: channels in packs
what a node takes           whole_work; row_count: rows of a shape
what users write            parse_size: 64KiB in bytes
what program passes change  Program and its records
what encoders are handed    StreamCommand, Place; RowCall: what commands say of a call's rows
functional models           elements: what lies at an address; convolved: sums of a convolution
tiles for local memories    Scratchpads, Copies, choose, LeastTraffic, Smaug; Layer, Tiler, Tiling
exact arithmetic            requantise, multiply, rounding_shift, doubling_high_multiply

Source: TVM RFC 0060 (UMA).  docs/how-to/add-a-backend.md shows how; docs/how-to/migrate-from-uma.md
has UMA's calls beside these.
"""

from __future__ import annotations

from penstock.backends.accelerator import AcceleratorTarget, PassPhase
from penstock.backends.functional import convolved, elements
from penstock.backends.kernel_call import Compute, KernelCall, Offloaded, Operand
from penstock.backends.op_strategy import OpStrategy
from penstock.backends.packed import packed
from penstock.backends.pattern import Pattern, is_constant, is_op, wildcard
from penstock.backends.stream import Place, RowCall, StreamCommand
from penstock.backends.uma import UMABackend
from penstock.errors import (
    BackendError,
    CapacityError,
    PenstockError,
    UnsupportedError,
    UsageError,
)
from penstock.fixedpoint import (
    doubling_high_multiply,
    multiply,
    quantise_multiplier,
    requantise,
    rounding_shift,
)
from penstock.hardware.size import parse_size
from penstock.ir.breakdown import Breakdown
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value, whole_work
from penstock.ir.op import Fetch, row_count
from penstock.ir.placed_call import Fill, Filling, PlacedCall, PlacedRows
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
from penstock.tiling.cuts import Cut, TileShape
from penstock.tiling.layer import INPUT, OUTPUT, WEIGHTS, Axis, Dimension, Layer
from penstock.tiling.layer import Operand as LayerOperand
from penstock.tiling.layer_of import layer_of
from penstock.tiling.least_traffic import LeastTraffic
from penstock.tiling.scratchpads import Copies, Scratchpads
from penstock.tiling.smaug import Smaug
from penstock.tiling.tiler import Tiler, choose
from penstock.tiling.tiling import Tiling

__all__ = [
    "INPUT",
    "OUTPUT",
    "WEIGHTS",
    "AcceleratorTarget",
    "Address",
    "Array",
    "Axis",
    "BackendError",
    "Breakdown",
    "Buffer",
    "Call",
    "CapacityError",
    "Command",
    "Composite",
    "Compute",
    "Copies",
    "Cut",
    "DType",
    "Dimension",
    "Driver",
    "Expr",
    "Fetch",
    "Fill",
    "Filling",
    "Graph",
    "Invoke",
    "KernelCall",
    "Layer",
    "LayerOperand",
    "LeastTraffic",
    "Loop",
    "Node",
    "Offloaded",
    "OpStrategy",
    "Operand",
    "PassPhase",
    "Pattern",
    "PenstockError",
    "Place",
    "PlacedCall",
    "PlacedRows",
    "Program",
    "Quantisation",
    "RowCall",
    "Scratchpads",
    "Smaug",
    "StreamCommand",
    "TableEntry",
    "TensorType",
    "TileShape",
    "Tiler",
    "Tiling",
    "UMABackend",
    "UnsupportedError",
    "UsageError",
    "Value",
    "Var",
    "choose",
    "convolved",
    "doubling_high_multiply",
    "elements",
    "is_constant",
    "is_op",
    "layer_of",
    "maximum",
    "minimum",
    "multiply",
    "packed",
    "parse_size",
    "quantise_multiplier",
    "requantise",
    "rounding_shift",
    "row_count",
    "whole_work",
    "wildcard",
]
