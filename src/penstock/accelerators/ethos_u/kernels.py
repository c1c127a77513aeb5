"""kernels: operators as operations of the NPU.

Between the NPU's own operations features lie in bricks of 16 channels, row by row
(`penstock.uma.packed`): a row of packs is a row of the layout NHCWB16.  What the processor or the
caller reads or writes lies as it is, NHWC; the NPU takes both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from penstock.accelerators.ethos_u.call import FIRST, PIECES, RESULT, SECOND, Piece
from penstock.accelerators.ethos_u.configurations import (
    Configuration,
    check_layout,
    configuration,
)
from penstock.accelerators.ethos_u.cost import assumed
from penstock.accelerators.ethos_u.encoding import Encoded, encoded
from penstock.accelerators.ethos_u.operation import (
    BINARY,
    NAMES,
    WITH_SCALAR,
    Function,
    Operation,
)
from penstock.accelerators.ethos_u.performance import copying_cycles
from penstock.accelerators.ethos_u.placed import PlacedCosts
from penstock.accelerators.ethos_u.programs import Drivers, drivers
from penstock.accelerators.ethos_u.schedule import scheduled, scheduled_to_be_fetched
from penstock.accelerators.ethos_u.segments import fetched_segments, fetching
from penstock.uma import (
    Address,
    Array,
    Breakdown,
    Command,
    Expr,
    Fetch,
    Filling,
    KernelCall,
    Loop,
    Offloaded,
    Operand,
    PlacedCall,
    Var,
    maximum,
    minimum,
    row_count,
)

WEIGHTED = {
    "Conv2D": Function.CONVOLUTION,
    "FullyConnected": Function.CONVOLUTION,
    "TransposeConv": Function.CONVOLUTION,
    "DepthwiseConv2D": Function.DEPTHWISE,
    "Mean": Function.DEPTHWISE,
    "Sum": Function.DEPTHWISE,
}
TOTALS = ("Mean", "Sum")
"""They are depthwise convolutions whose weights are ones."""
POOLS = {"MaxPool2D": Function.MAXIMUM, "AveragePool2D": Function.AVERAGE}
ELEMENTWISE = {"Add": Function.ADD, "Sub": Function.SUBTRACT, "Mul": Function.MULTIPLY}
TOGETHER = "Concatenation"
LOOKUPS = ("Relu", "Logistic", "Tanh", "HardSwish", "LeakyRelu", "Quantize")
"""Functions of one element: a table says them."""


def hardware(offloaded: Offloaded) -> Configuration:
    """The configuration that the user chose."""
    attrs = offloaded.target.attrs
    check_layout(attrs["layout"])
    family = "ethos-u" + offloaded.target.name.removeprefix("ethos_u")[:2]
    return configuration(family, int(attrs.get("macs", 256)), str(attrs["memory_mode"]))


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to run operators: with constants read where they lie, or `buffered`, copied before; of
    these, a `share` has been fetched before the call, by others (`fetched_segments`, from 1), or of
    the others the `biases`, which are waited for where they are far."""

    buffered: bool
    share: int = 0
    biases: bool = False

    def operation(self, offloaded: Offloaded) -> tuple[Operation, Encoded]:
        """What the main operator is on the NPU, and its constants."""
        if self not in offloaded.notes:
            offloaded.notes[self] = self._operation(offloaded)
        return offloaded.notes[self]

    def _operation(self, offloaded: Offloaded) -> tuple[Operation, Encoded]:
        plain = plain_operation(offloaded)
        if not plain.weighted:
            return plain, Encoded(_table(offloaded, plain), ())
        weights = ohwi(offloaded)
        if self.share:
            op = scheduled_to_be_fetched(plain, weights.size)
        else:
            op = scheduled(plain, weights.size, buffered=self.buffered)
        constants = _encoded(offloaded, op, weights)
        sizes = [segment.size_bytes for segment in constants.segments]
        buffer = max(sizes) if op.buffer_bytes else 0
        op = replace(op, constant_bytes=sum(sizes), buffer_bytes=buffer)
        if self.biases:
            return replace(op, biases_ahead=1), constants
        ahead = (0, *fetched_segments(op))[self.share :][:1]
        return fetching(op, ahead[0] if ahead else 0), constants

    def fetch(self, offloaded: Offloaded) -> Fetch | None:
        """What is fetched before the call; None where there is no such share."""
        op, constants = self.operation(offloaded)
        if not op.weighted or not op.fetched or op.sram_only:
            return None
        size = sum(segment.size_bytes for segment in constants.segments[: op.ahead])
        size += constants.segments[0].bias_bytes if op.biases_ahead else 0

        def commands(source: Address, target: Address) -> tuple[Command, ...]:
            return (KernelCall.invoke(drivers(offloaded.target.name).fetch, source, target, size),)

        return Fetch("constants", size, copying_cycles(op.configuration, size), commands)

    def tables(self, offloaded: Offloaded) -> Mapping[str, Array]:
        """Biases and weights; or the table of an activation."""
        _, constants = self.operation(offloaded)
        return {"constants": np.frombuffer(constants.raw, np.uint8)} if constants.raw else {}

    def scratch_bytes(self, offloaded: Offloaded) -> int:
        """Working memory."""
        return self.operation(offloaded)[0].scratch_bytes

    def compute(self, call: KernelCall) -> Sequence[Command]:
        """What the operation is, where everything lies, which rows are wanted."""
        op, constants = self.operation(call)
        told = drivers(call.target.name)
        commands: list[Command] = [call.invoke(told.begin, *map(int, astuple(op)))]
        places = [call.table("constants")] if constants.raw else []
        places += [call.scratch] if op.scratch_bytes else []
        places += [call.fetched] if op.fetched else []
        if places:
            commands.append(call.invoke(told.places, *places))
        commands += [call.invoke(told.segment, *segment) for segment in constants.segments]
        commands += list(_read(call, told, op))
        commands.append(_rows(call, told, RESULT, call.result, call.first, call.end))
        return [*commands, call.invoke(told.run, call.first, call.end)]

    def cost(self, offloaded: Offloaded, rows: int) -> Breakdown:
        """Cycles of a call that computes so many rows."""
        return self.filled_cost(offloaded, rows, ())

    def filled_cost(
        self, offloaded: Offloaded, rows: int, fillings: tuple[Filling, ...]
    ) -> Breakdown:
        """The same of a call that copies constants for calls to come."""
        op, constants = self.operation(offloaded)
        together = pieces(offloaded) if op.function == Function.COPY else ()
        return assumed(op, rows, constants.segments, together, fillings)

    def placed_cost(self, offloaded: Offloaded, call: PlacedCall) -> Breakdown:
        """What a call takes where its rows lie."""
        key = self, "placed"
        if key not in offloaded.notes:
            op, constants = self.operation(offloaded)
            together = pieces(offloaded) if op.function == Function.COPY else ()
            tensors = _tensors(offloaded, op)
            offloaded.notes[key] = PlacedCosts(op, constants.segments, together, tensors)
        return offloaded.notes[key].of(call)


def plain_operation(offloaded: Offloaded) -> Operation:
    """The same without weights."""
    kind = offloaded.main.kind
    if kind in LOOKUPS:
        found = _lookup(offloaded)
    elif kind == TOGETHER:
        found = Operation(*_chip(offloaded), Function.COPY, *_image(offloaded) * 2)
    elif kind in ELEMENTWISE:
        found = _elementwise(offloaded)
    else:
        found = _window(offloaded)
    return replace(found, **_layouts(offloaded))


def _encoded(offloaded: Offloaded, op: Operation, weights: Array) -> Encoded:
    """Weights and biases in the order of the operation."""
    bias, multipliers, shifts = scaling(offloaded)
    return encoded(op, weights.astype(np.int16).tobytes(), weights.shape, bias, multipliers, shifts)


Scaling = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""By output channel: biases, multipliers, shifts."""


def scaling(offloaded: Offloaded) -> Scaling:
    """What is added to sums of products, and how they are scaled."""
    if offloaded.main.kind in TOTALS:
        p, every = offloaded.parameters, (1,) * offloaded.parameters["in_c"]
        zeros, multipliers, shifts = (
            tuple(value * one for one in every) for value in (0, p["multiplier"], p["shift"])
        )
        return zeros, multipliers, shifts
    found = offloaded.constant(2), offloaded.tables["multiplier"], offloaded.tables["shift"]
    bias, multipliers, shifts = (tuple(each.tolist()) for each in found)
    return bias, multipliers, shifts


def _table(offloaded: Offloaded, plain: Operation) -> bytes:
    """The table of an activation, if it has one."""
    if plain.function != Function.LOOKUP:
        return b""
    return offloaded.tables["table"].astype(np.int8).tobytes()


def ohwi(offloaded: Offloaded) -> Array:
    """Weights: output channels, rows, columns, input channels."""
    p, kind = offloaded.parameters, offloaded.main.kind
    if kind in TOTALS:
        return np.ones((p["in_c"], p["span_h"], p["span_w"], 1), np.int8)
    weights = offloaded.constant(1)
    if kind == "FullyConnected":
        return weights.reshape((len(weights), *extents(offloaded.main.inputs[0].type.shape)))
    if kind == "TransposeConv":
        return weights[:, ::-1, ::-1]
    return weights.transpose(3, 1, 2, 0) if kind == "DepthwiseConv2D" else weights


def _window(offloaded: Offloaded) -> Operation:
    """Convolutions, dense layers, pools and totals; a depthwise convolution of one channel is a
    convolution, a dense layer one whose window is all of the input."""
    p, kind = dict(offloaded.parameters), offloaded.main.kind
    if kind == "FullyConnected":
        height, width, p["in_c"] = extents(offloaded.main.inputs[0].type.shape)
        p |= {"in_h": height, "in_w": width, "out_h": 1, "out_w": 1}
        p |= {"kernel_h": height, "kernel_w": width}
    if kind in TOTALS:
        p |= {f"kernel_{axis}": p[f"span_{axis}"] for axis in "hw"}
        p |= {f"out_{axis}": p[f"in_{axis}"] // p[f"span_{axis}"] for axis in "hw"}
        p["out_c"] = p["in_c"]
    if kind == "TransposeConv":
        p |= _transposed(p)
    function = (WEIGHTED | POOLS)[kind]
    if function == Function.DEPTHWISE and p["in_c"] == 1:
        function = Function.CONVOLUTION
    known = {name: p[name] for name in Operation.__dataclass_fields__ if name in p}
    for axis in ("h", "w"):
        if known[f"out_{axis}"] == 1:  # it does not move
            known[f"stride_{axis}"] = 1
    return Operation(*_chip(offloaded), function, **known)


def _transposed(p: Mapping[str, int]) -> dict[str, int]:
    """A transposed convolution as a convolution of the input with zeros between its elements."""
    return {
        "upscale": max(steps(p), default=1),
        "stride_h": 1,
        "stride_w": 1,
        "pad_top": p["kernel_h"] - 1 - p["pad_top"],
        "pad_left": p["kernel_w"] - 1 - p["pad_left"],
    }


def steps(p: Mapping[str, int]) -> set[int]:
    """How far windows of a transposed convolution move, along axes where there is where to."""
    sides = ("in", "kernel", "out")
    return {p[f"stride_{axis}"] for axis in "hw" if any(p[f"{side}_{axis}"] > 1 for side in sides)}


def _lookup(offloaded: Offloaded) -> Operation:
    """Every element by itself, as a pool of one element, through a table."""
    return Operation(*_chip(offloaded), Function.LOOKUP, *_image(offloaded) * 2)


def _elementwise(offloaded: Offloaded) -> Operation:
    """Sums, differences and products, of two tensors or of one and a number."""
    p, function = offloaded.parameters, ELEMENTWISE[offloaded.main.kind]
    first, second = operands(offloaded)
    other = offloaded.main.inputs[second]
    rank = offloaded.main.output.type.rank
    height, width, channels = extents((1,) * (rank - other.type.rank) + other.type.shape)
    constant, elements = other.data is not None, other.type.elements
    number = constant and elements == 1
    names = ("out_multiplier", "out_shift", "out_zero", "least", "most")
    known = {name: p[name] for name in names}
    for k, place in enumerate((first, second)):
        if "multiplier0" in p:
            known[f"multiplier{k}"] = p[f"multiplier{place}"]
            known[f"shift{k}"] = p[f"shift{place}"]
    return Operation(
        *_chip(offloaded),
        function,
        *_image(offloaded) * 2,
        in_zero=p[f"zero{first}"],
        second_zero=p[f"zero{second}"],
        second=WITH_SCALAR if number else BINARY,
        second_h=height,
        second_w=width,
        second_c=channels,
        scalar=int(offloaded.constant(second).ravel()[0]) if number else 0,
        second_first=int(second == 0),
        constant_bytes=elements if constant and not number else 0,
        **known,
    )


def operands(offloaded: Offloaded) -> tuple[int, int]:
    """Of two inputs the first and the second of the NPU, which may be constant and may have fewer
    elements than the output; of others, the only one twice."""
    if offloaded.main.kind not in ELEMENTWISE:
        return 0, 0
    left, right = offloaded.main.inputs
    smaller = left.type.shape != offloaded.main.output.type.shape == right.type.shape
    return (1, 0) if left.data is not None or (right.data is None and smaller) else (0, 1)


def _image(offloaded: Offloaded) -> tuple[int, int, int]:
    """Rows, columns and channels of the output."""
    return extents(offloaded.main.output.type.shape)


def extents(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Rows, columns and channels, such that its rows are its rows.

    >>> extents((1, 6, 5, 4)), extents((6, 5, 4)), extents((6, 4)), extents((4,))
    ((6, 5, 4), (6, 5, 4), (6, 1, 4), (1, 1, 4))
    """
    *before, channels = shape
    width = before[-1] if len(before) > 1 else 1
    return row_count(shape), width, channels


def _chip(offloaded: Offloaded) -> tuple[int, int]:
    """The configuration's number, and whether all lies in SRAM."""
    chip = hardware(offloaded)
    return NAMES.index(chip.name), int(chip.constants is chip.features)


def _layouts(offloaded: Offloaded) -> dict[str, int]:
    """Which tensors lie in bricks."""
    first, second = (_is_packed(offloaded, k) for k in operands(offloaded))
    written = int(offloaded.output.layout is not None)
    return {"packed_in": first, "packed_second": second, "packed_out": written}


def _is_packed(offloaded: Offloaded, k: int) -> int:
    """Whether input k of the main operator lies in bricks."""
    return int(offloaded.inputs[offloaded.source(k)].layout is not None)


def _read(call: KernelCall, told: Drivers, op: Operation) -> Iterator[Command]:
    """Where the rows lie that a call reads."""
    if op.function == Function.COPY:
        for k, piece in enumerate(pieces(call)):
            yield call.invoke(told.piece, *piece)
            yield _rows(call, told, PIECES + k, _operand(call, k), call.first, call.end)
        return
    first, second = operands(call)
    more = op.upscale - 1  # to round up
    lower = maximum((call.first * op.stride_h - op.pad_top + more) // op.upscale, 0)
    upper = (call.end - 1) * op.stride_h - op.pad_top + op.reach_h
    upper = minimum((upper + more) // op.upscale, op.in_h)
    yield _rows(call, told, FIRST, _operand(call, first), lower, upper)
    if op.second == BINARY:
        yield _rows(call, told, SECOND, _operand(call, second), *_second(op, call))


def pieces(offloaded: Offloaded) -> tuple[Piece, ...]:
    """What is put together along channels."""
    return tuple(
        Piece(value.type.shape[-1], _is_packed(offloaded, k))
        for k, value in enumerate(offloaded.main.inputs)
    )


def _second(op: Operation, call: KernelCall) -> tuple[Expr, Expr]:
    """Rows of the second input that the call reads."""
    return (call.first, call.end) if op.second_h == op.out_h else (0, 1)


def _rows(
    call: KernelCall, told: Drivers, tensor: int, operand: Operand, lower: Expr, upper: Expr
) -> Command:
    """Where rows of a tensor lie."""
    row = Var("row")
    return Loop("row", lower, upper, 1, (call.invoke(told.row, tensor, row, operand.row(row)),))


def _operand(call: KernelCall, k: int) -> Operand:
    """Input k of the main operator, in packs or not, as it comes from outside."""
    return call.operands[call.source(k)]


def _tensors(offloaded: Offloaded, op: Operation) -> dict[int, int]:
    """By tensor that a call reads, which input of the composite it is."""
    if op.function == Function.COPY:
        count = len(offloaded.main.inputs)
        return {PIECES + k: offloaded.source(k) for k in range(count)}
    first, second = operands(offloaded)
    found = {FIRST: offloaded.source(first)}
    return found | ({SECOND: offloaded.source(second)} if op.second == BINARY else {})
