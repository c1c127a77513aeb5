"""The public interface for accelerators; a backend needs only this module and NumPy.

    from penstock.uma import Driver, OpStrategy, UMABackend, is_constant, is_op, wildcard

accelerator                 UMABackend, PassPhase, OpStrategy
patterns                    is_op, wildcard, is_constant, is_tuple, is_tuple_get_item; Pattern
arguments of its functions  Offloaded: facts about a node; KernelCall: a call to lower to commands
constraints                 double_rounding, one_group, single_image: those of many accelerators
costs                       cycles, or a Breakdown of them by resource; PlacedCall: a call with
                            addresses; processor_cycles: a node's on the processor
commands                    Driver, DriverRecord: a function and a record of its arguments; Invoke,
                            Issue, Transfer, Loop; Address, TensorRows: operands of commands
expressions                 Expr: a number, Var, TableEntry; operators + - * // %, minimum, maximum
graph passes                Graph, Node, Value, Composite; layouts of tensors: packed, in blocks of
                            channels; channels_first, NCHW; folded_columns of images
work of a node              whole_work; row_count: rows of a shape
element types               ElementTypes: those of an implementation's inputs and output; DType
sizes, boxes, memories      parse_size: "64KiB" in bytes; Region: a box of a tensor; MemoryRegion: a
                             memory of the chip
program passes              Program and its records; calls: all calls of a program, in order; walk:
                            all commands; submissions; as_step: a call with all rows; used_buffers;
                            with_constant, with_scratch: a program with a further buffer
arguments of encoders       StreamCommand (an Invoke), StreamOperation (an Issue), StreamTransfer (a
                            Transfer); Place, StreamRows: addresses in a stream; RegionNumbers:
                            the memory regions to which these refer; StreamDriver: what submits,
                            JoinedStreams: several calls as one stream
files in place of C         FileFormat; FileRunner: the vendor's software as a judge; ModelFile,
                            ForeignModel, ForeignNode: the file that is compiled
functional models           elements: the array at an address; convolved: sums of a convolution;
                            sliding_windows: those of a pool; load_piece, store_piece: copies
tiles for local memories    Scratchpads, Copies, choose, LeastTraffic, LoopOrder; Layer, Tiler,
                            Tiling; choose_sequence, TileSequence: tiles in a free order;
                            flattened: an element-wise layer as one row; does_not_fit: the error
                            without tiles
tiles of a call             CallTiles, ScratchpadTile, TilePiece: loops, copies and boxes of tiles,
                            also in stripes; tiles_of_call; Span: an interval
exact arithmetic            requantise, multiply, rounding_shift, doubling_high_multiply; Channels,
                            reachable: requantisation over the range of accumulators, for proofs

Source: TVM RFC 0060 (UMA).  See docs/how-to/add-a-backend.md; docs/how-to/migrate-from-uma.md
compares it with UMA.
"""

from __future__ import annotations

from penstock.backends.accelerator import (
    AcceleratorTarget,
    JoinedStreams,
    PassPhase,
    RegionNumbers,
    StreamDriver,
)
from penstock.backends.added_buffers import with_constant, with_scratch
from penstock.backends.call_tiles import CallTiles, tiles_of_call
from penstock.backends.contributions import FileFormat, FileRunner, ModelFile
from penstock.backends.folded_columns import folded_columns
from penstock.backends.functional import (
    convolved,
    elements,
    load_piece,
    sliding_windows,
    store_piece,
)
from penstock.backends.kernel_call import Compute, KernelCall, Operand
from penstock.backends.offloaded import Offloaded
from penstock.backends.op_strategy import OpStrategy
from penstock.backends.packed import channels_first, packed
from penstock.backends.pattern import (
    Pattern,
    is_constant,
    is_op,
    is_tuple,
    is_tuple_get_item,
    wildcard,
)
from penstock.backends.processor_parts import processor_cycles
from penstock.backends.rules import double_rounding, one_group, single_image
from penstock.backends.scratchpad_tile import ScratchpadTile, Span, TilePiece
from penstock.backends.stream import (
    AnyStreamCommand,
    Place,
    StreamCommand,
    StreamOperation,
    StreamRows,
    StreamTransfer,
)
from penstock.backends.uma.backend import UMABackend
from penstock.errors import (
    BackendError,
    CapacityError,
    PenstockError,
    ToolError,
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
from penstock.frontends.tflite import builtin_code
from penstock.hardware.core_access import CoreAccess
from penstock.hardware.quantities import parse_size
from penstock.hardware.target import MemoryRegion
from penstock.ir.breakdown import Breakdown, Fill, Filling, PlacedCall, PlacedRows
from penstock.ir.composite import FUSED, Composite
from penstock.ir.element_types import ElementTypes
from penstock.ir.foreign import ForeignModel, ForeignNode
from penstock.ir.graph import Graph, Node, Value, whole_work
from penstock.ir.op import ConstantPrefetch
from penstock.ir.tensor import Array, DType, Quantisation, Region, TensorType, row_count
from penstock.program.expr import Expr, TableEntry, Var, maximum, minimum
from penstock.program.program import (
    Address,
    Buffer,
    Call,
    Command,
    Driver,
    DriverRecord,
    Invoke,
    Issue,
    Kind,
    Loop,
    Program,
    Pull,
    Submission,
    TensorRows,
    Transfer,
    View,
    WholeMemory,
)
from penstock.program.steps import as_step, calls, submissions, used_buffers, walk
from penstock.requantisation.form import Channels, reachable
from penstock.tiling.layer import (
    INPUT,
    OUTPUT,
    PARAMETERS,
    WEIGHTS,
    Axis,
    Copies,
    Dimension,
    Layer,
    LayerOperand,
    Scratchpads,
    flattened,
    layer_of,
    matrix_layer,
    runs_of,
)
from penstock.tiling.least_traffic import LeastTraffic, LoopOrder
from penstock.tiling.nest import Cut, TileCopy, Tiler, TileShape, Tiling, choose, does_not_fit
from penstock.tiling.sequence import (
    TileSequence,
    TileSequencer,
    TileVisit,
    choose_sequence,
)

__all__ = [
    "FUSED",
    "INPUT",
    "OUTPUT",
    "PARAMETERS",
    "WEIGHTS",
    "AcceleratorTarget",
    "Address",
    "AnyStreamCommand",
    "Array",
    "Axis",
    "BackendError",
    "Breakdown",
    "Buffer",
    "Call",
    "CallTiles",
    "CapacityError",
    "Channels",
    "Command",
    "Composite",
    "Compute",
    "ConstantPrefetch",
    "Copies",
    "CoreAccess",
    "Cut",
    "DType",
    "Dimension",
    "Driver",
    "DriverRecord",
    "ElementTypes",
    "Expr",
    "FileFormat",
    "FileRunner",
    "Fill",
    "Filling",
    "ForeignModel",
    "ForeignNode",
    "Graph",
    "Invoke",
    "Issue",
    "JoinedStreams",
    "KernelCall",
    "Kind",
    "Layer",
    "LayerOperand",
    "LeastTraffic",
    "Loop",
    "LoopOrder",
    "MemoryRegion",
    "ModelFile",
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
    "Pull",
    "Quantisation",
    "Region",
    "RegionNumbers",
    "ScratchpadTile",
    "Scratchpads",
    "Span",
    "StreamCommand",
    "StreamDriver",
    "StreamOperation",
    "StreamRows",
    "StreamTransfer",
    "Submission",
    "TableEntry",
    "TensorRows",
    "TensorType",
    "TileCopy",
    "TilePiece",
    "TileSequence",
    "TileSequencer",
    "TileShape",
    "TileVisit",
    "Tiler",
    "Tiling",
    "ToolError",
    "Transfer",
    "UMABackend",
    "UnsupportedError",
    "UsageError",
    "Value",
    "Var",
    "View",
    "WholeMemory",
    "as_step",
    "builtin_code",
    "calls",
    "channels_first",
    "choose",
    "choose_sequence",
    "convolved",
    "does_not_fit",
    "double_rounding",
    "doubling_high_multiply",
    "elements",
    "flattened",
    "folded_columns",
    "is_constant",
    "is_op",
    "is_tuple",
    "is_tuple_get_item",
    "layer_of",
    "load_piece",
    "matrix_layer",
    "maximum",
    "minimum",
    "multiply",
    "one_group",
    "packed",
    "parse_size",
    "processor_cycles",
    "quantise_multiplier",
    "reachable",
    "requantise",
    "rounding_shift",
    "row_count",
    "runs_of",
    "single_image",
    "sliding_windows",
    "store_piece",
    "submissions",
    "tiles_of_call",
    "used_buffers",
    "walk",
    "whole_work",
    "wildcard",
    "with_constant",
    "with_scratch",
]
