"""sequences: the steps of operators that several NPU operations compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import inf, prod
from typing import NamedTuple

import numpy as np

from penstock.uma import Array, Offloaded, TensorType, multiply
from penstock_ethos_u.configurations import BLOCK_CHANNELS, MapShape
from penstock_ethos_u.encoding import HIGH_BITS, WeightOrder, encoded
from penstock_ethos_u.movement import FILL, MOST_BOXES, Box, Lines, Selection, boxes, selection
from penstock_ethos_u.operation import (
    NpuFunction,
    Operation,
    SecondInput,
    fastest_copy,
    row_bytes,
)
from penstock_ethos_u.operators import (
    ARG_MAX,
    EXTREMES,
    MATRIX_PRODUCT,
    MOVEMENTS,
    PRELU,
    REDUCTIONS,
    RESIZE,
    SOFTMAX,
    SQUARE,
    extents,
    hardware,
    is_packed,
    is_unsigned,
    operands,
    reduced_extents,
)
from penstock_ethos_u.schedule import scheduled
from penstock_ethos_u.steps import CONSTANTS, RESULT, SCRATCH, Scratch, Step, Steps, View

ELEMENTS = np.arange(-128, 128, dtype=np.int64)
WHOLE = Lines(0, 1, 0, 0, 0)  # Whole rows of a tensor.


def steps_of(offloaded: Offloaded) -> Steps | None:
    """Return the operations that compute an operator, or None if a single one does."""
    if "steps" not in offloaded.cache:
        kind = offloaded.main.kind
        find = _moving_steps if kind in MOVEMENTS else FINDERS.get(kind)
        if folded_window(offloaded):
            find = _total_steps
        offloaded.cache["steps"] = find and find(offloaded)
    return offloaded.cache["steps"]


class _Tensors:
    """The tensors of an operator.

    inputs, output: rows, columns in bytes of channels, of each.
    packed: whether the layout of each input is NHCWB16 instead of NHWC; packed_out: of the output.
    """

    def __init__(self, offloaded: Offloaded) -> None:
        main = offloaded.main
        self.offloaded = offloaded
        self.inputs = tuple(byte_extents(v.type) for v in main.inputs)
        self.output = byte_extents(main.output.type)
        self.packed = tuple(is_packed(offloaded, k) for k in range(len(main.inputs)))
        self.packed_out = offloaded.output.layout is not None

    def steps(self, found: Sequence[Step], scratch: tuple[Scratch, ...] = ()) -> Steps:
        pairs = zip(self.inputs, self.packed, strict=True)
        sizes = tuple(row_bytes(x.width, x.depth, packed) for x, packed in pairs)
        return Steps(
            tuple(found), tuple(x.height for x in self.inputs), sizes, self.output.height, scratch
        )

    def copy(
        self, shape: MapShape, packed_in: bool, packed_out: bool, constant: int | None = None
    ) -> Operation:
        """The operation that copies a box, or fills it with a constant."""
        op = Operation(hardware(self.offloaded), NpuFunction.COPY, *shape, *shape)
        op = replace(op, packed_in=packed_in, packed_out=packed_out)
        return op if constant is None else replace(op, least=constant, most=constant)


def byte_extents(type: TensorType) -> MapShape:
    """Return rows, columns and channels of a tensor, where a channel is a byte."""
    shape = extents(type.shape)
    return shape._replace(depth=shape.depth * type.dtype.size_bytes)


def moved_boxes(offloaded: Offloaded) -> tuple[Box, ...]:
    """Return the boxes of an operator that only moves elements."""
    of = _Tensors(offloaded)
    return boxes(offloaded.main, (*of.inputs, of.output))


def is_natural(offloaded: Offloaded) -> bool:
    """Return whether tensors of an operator that only moves elements may have layout NHCWB16: its
    boxes consist of whole blocks of 16 adjacent channels, and of adjacent columns."""
    of = _Tensors(offloaded)

    def fits(lines: Lines, shape: MapShape, tensor: MapShape) -> bool:
        channel = lines.offset % tensor.depth
        return (
            not (lines.row_bytes or channel % BLOCK_CHANNELS)
            and channel + shape.depth <= tensor.depth
            and (shape.width == 1 or lines.pixel_bytes == tensor.depth)
            and (shape.depth % BLOCK_CHANNELS == 0 or channel + shape.depth == tensor.depth)
        )

    return all(
        fits(box.target, box.shape, of.output)
        and not box.is_broadcast
        and (box.tensor == FILL or fits(box.source, box.shape, of.inputs[box.tensor]))
        for box in moved_boxes(offloaded)
    )


def selected_channels(offloaded: Offloaded) -> Selection | None:
    """Return what an operator that only moves elements selects of each pixel, if it does."""
    of = _Tensors(offloaded)
    return selection(offloaded.main, (*of.inputs, of.output))


def _moving_steps(offloaded: Offloaded) -> Steps:
    """Copies of boxes, or a convolution that selects channels of each pixel if that is faster."""
    selected, boxes = selected_channels(offloaded), moved_boxes(offloaded)
    copied = _copying_steps(offloaded) if len(boxes) <= MOST_BOXES or not selected else None
    if selected is None or (copied is not None and len(boxes) == 1):
        assert copied is not None
        return copied
    found = _selecting_steps(offloaded, selected)
    return min((x for x in (copied, found) if x is not None), key=_cycles_of)


def _cycles_of(steps: Steps) -> float:
    """An estimate of the cycles of steps; infinite if no block fits one of them."""
    every = [step.op.fastest_block_and_cycles(step.op.work(step.op.out_h)) for step in steps.steps]
    return sum(inf if found is None else float(found[1].total[0]) for found in every)


def _selecting_steps(offloaded: Offloaded, selected: Selection) -> Steps:
    (height, width, depth), channels = selected
    outputs = len(channels)
    shapes = height, width, depth, height, width, outputs
    op = Operation(hardware(offloaded), NpuFunction.CONVOLUTION, *shapes)
    weights = np.zeros((outputs, 1, 1, depth), np.int16)
    weights[np.arange(outputs), 0, 0, channels] = 1
    one = (1 << HIGH_BITS - 1,) * outputs, (1,) * outputs
    step = _with_weights(Step(op, View(0, WHOLE), View(RESULT, WHOLE)), weights, *one)
    return _Tensors(offloaded).steps((step,))


def _copying_steps(offloaded: Offloaded) -> Steps:
    of, found = _Tensors(offloaded), list[Step]()
    packed_out = of.packed_out
    for box in moved_boxes(offloaded):
        target = _view(RESULT, box.target, of.output, packed_out)
        if box.tensor == FILL or box.is_broadcast:
            # Whatever the operation reads, it writes the constant, to which it limits its results.
            value = box.source.offset if box.tensor == FILL else -128
            op = fastest_copy(of.copy(box.shape, packed_out, packed_out, value))
            found.append(Step(op, target, target))
        if box.tensor == FILL:
            continue
        packed = of.packed[box.tensor]
        source = _view(box.tensor, box.source, of.inputs[box.tensor], packed)
        if box.is_broadcast:  # the larger of -128 and an element is the element
            small = MapShape(
                box.shape.height if box.source.row_step or box.source.row_bytes else 1,
                box.shape.width if box.source.pixel_bytes else 1,
                1 if box.one_channel else box.shape.depth,
            )
            op = replace(
                of.copy(box.shape, packed_out, packed_out),
                function=NpuFunction.LARGER,
                second=SecondInput(small, packed=packed),
            )
            found.append(Step(op, target, target, source))
        else:
            op = fastest_copy(of.copy(box.shape, packed, packed_out))
            found.append(Step(op, source, target))
    return of.steps(found)


def _view(tensor: int, lines: Lines, shape: MapShape, packed: bool) -> View:
    """The box of a tensor with these rows and columns.

    shape: rows, columns and channels of the tensor."""
    if not packed:
        return View(tensor, lines, lines.pixel_bytes)
    column, channel = divmod(lines.offset, shape.depth)
    block = BLOCK_CHANNELS * shape.width
    offset = channel // BLOCK_CHANNELS * block + column * BLOCK_CHANNELS
    return View(tensor, lines._replace(offset=offset), block)


def _prelu_steps(offloaded: Offloaded) -> Steps:
    """The larger of the element and its product with the slope, both requantised. That is what the
    operator computes if no slope exceeds 1 (`slopes_are_exact`)."""
    p, of = offloaded.parameters, _Tensors(offloaded)
    slope = offloaded.main.inputs[1]
    shape = (1,) * (offloaded.main.output.type.rank - slope.type.rank) + slope.type.shape
    second = SecondInput(extents(shape), p["zero1"], of.packed[1])
    below = replace(
        of.copy(of.output, of.packed[0], of.packed_out),
        function=NpuFunction.MULTIPLY,
        in_zero=p["zero0"],
        out_zero=p["out_zero"],
        second=second,
        out_multiplier=p["below_multiplier"],
        out_shift=p["below_shift"],
        constant_bytes=0 if slope.data is None else slope.type.elements,
    )
    larger = replace(
        of.copy(of.output, of.packed[0], of.packed_out),
        function=NpuFunction.LARGER,
        second=SecondInput(of.output, packed=of.packed_out),
    )
    image, slopes, result = View(0, WHOLE), View(1, WHOLE), View(RESULT, WHOLE)
    if (_above(p) == ELEMENTS).all():
        return of.steps((Step(below, image, result, slopes), Step(larger, image, result, result)))
    above = replace(
        below,
        second=SecondInput(MapShape(1, 1, 1), scalar=1),
        out_multiplier=p["above_multiplier"],
        out_shift=p["above_shift"],
        constant_bytes=0,
    )
    aside = View(SCRATCH, WHOLE)
    return of.steps(
        (
            Step(below, image, aside, slopes),
            Step(above, image, result),
            Step(replace(larger, packed_in=of.packed_out), result, result, aside),
        ),
        (Scratch(below.out_row_bytes),),
    )


def _above(p: Mapping[str, int]) -> Array:
    """What a PRELU computes for each element, if all were positive."""
    found = multiply(ELEMENTS - p["zero0"], p["above_multiplier"], p["above_shift"])
    return np.clip(found + p["out_zero"], -128, 127)


def slopes_are_exact(offloaded: Offloaded) -> bool:
    """Return whether the larger of the element and its product is a PRELU's result, for all
    elements and slopes."""
    p, above = offloaded.parameters, _above(offloaded.parameters)[:, None]
    constant = offloaded.main.inputs[1].data is not None
    slopes = np.unique(offloaded.constant(1)).astype(np.int64) if constant else ELEMENTS
    x = (ELEMENTS - p["zero0"])[:, None]
    below = multiply(x * (slopes - p["zero1"])[None], p["below_multiplier"], p["below_shift"])
    below = np.clip(below + p["out_zero"], -128, 127)
    return bool((np.where(x >= 0, above, below) == np.maximum(above, below)).all())


def _extreme_steps(offloaded: Offloaded) -> Steps:
    """The maximum of a window. For a minimum, tables complement the elements before and after."""
    of = _Tensors(offloaded)
    height, width, depth = reduced_extents(offloaded)
    image, packed = of.inputs[0], of.packed[0]
    source, target = View(0, WHOLE), View(RESULT, WHOLE)
    every = [(image, of.output, source, target)]
    if depth > 1 and width == image.width:  # a row is columns of one channel
        image = MapShape(image.height, image.width * depth, 1)
        width, every = image.width, [(image, of.output, source, target)]
    elif depth > 1:  # the columns of a row are rows of one channel
        image = MapShape(image.width, depth, 1)
        shapes = image, MapShape(image.height, 1, 1)
        every = [
            (*shapes, View(0, Lines(r, 0, 0, depth, 1)), View(RESULT, Lines(r, 0, 0, 1, 1)))
            for r in range(of.output.height)
        ]
        width = depth
    smallest = offloaded.main.kind == "ReduceMin"
    function = NpuFunction.LOOKUP if smallest else NpuFunction.MAXIMUM
    table = (-1 - ELEMENTS).astype(np.int8).tobytes() if smallest else b""
    found = list[Step]()
    aligned = of.inputs[0].height == of.output.height
    whole = of.inputs[0]
    if smallest:
        op = replace(of.copy(whole, packed, packed), function=NpuFunction.LOOKUP)
        found.append(Step(op, source, View(SCRATCH, WHOLE), constants=table, whole=not aligned))
    for x, y, one, other in every:
        op = Operation(hardware(offloaded), function, *x, *y, height, width)
        op = replace(op, packed_in=packed, packed_out=of.packed_out)
        view = one._replace(tensor=SCRATCH) if smallest else one
        found.append(Step(op, view, other, constants=table))
    size = row_bytes(whole.width, whole.depth, packed)
    scratch = Scratch(size, 0 if aligned else whole.height)
    return of.steps(found, (scratch,) if smallest else ())


MOST_ROWS, MOST_TAPS = 64, 64 * 64  # The largest window of a convolution.
MOST_FOLDED = 16


def folded_window(offloaded: Offloaded) -> MapShape | None:
    """Return rows, columns and pixels of the window that computes a mean or a sum of an image that
    is too large for a window; None for all other operators.

    The pixels of the image are adjacent in memory, so they can be divided into other rows and
    columns, and adjacent pixels can count as channels of one pixel."""
    if offloaded.main.kind not in REDUCTIONS:
        return None
    (height, width, depth), image = reduced_extents(offloaded), offloaded.main.inputs[0].type
    rows, columns, _ = extents(image.shape)
    count = rows * columns
    small = rows <= MOST_ROWS and count <= MOST_TAPS
    if small or depth > 1 or (height, width) != (rows, columns):
        return None
    for pixels in range(1, MOST_FOLDED + 1):
        taps, rest = divmod(count, pixels)
        if not rest and taps <= MOST_TAPS:
            found = max(n for n in range(1, MOST_ROWS + 1) if taps % n == 0 and n * n <= taps)
            return MapShape(found, taps // found, pixels)
    return None


def _total_steps(offloaded: Offloaded) -> Steps:
    p, of, window = offloaded.parameters, _Tensors(offloaded), folded_window(offloaded)
    assert window is not None
    (rows, columns, pixels), channels = window, of.output.depth
    depth = pixels * channels
    alone = pixels == 1 and channels > 1
    op = Operation(
        hardware(offloaded),
        NpuFunction.DEPTHWISE if alone else NpuFunction.CONVOLUTION,
        *MapShape(rows, columns, depth),
        *MapShape(1, 1, channels),
        kernel_h=rows,
        kernel_w=columns,
        in_zero=p["in_zero"],
        out_zero=p["out_zero"],
        packed_out=of.packed_out,
    )
    one = np.ones((channels, 1), np.int16) if alone else np.tile(np.eye(channels), pixels)
    weights = np.broadcast_to(one[:, None, None], (channels, rows, columns, one.shape[1]))
    scaling = (p["multiplier"],) * channels, (p["shift"],) * channels
    lines = Lines(0, 0, 0, columns * depth, depth)
    step = Step(op, View(0, lines, depth), View(RESULT, WHOLE))
    return of.steps((_with_weights(step, weights.astype(np.int16), *scaling),))


def _with_weights(
    step: Step, weights: Array, multipliers: tuple[int, ...], shifts: tuple[int, ...]
) -> Step:
    """The step with encoded weights of shape (output channels, rows, columns, input channels),
    without biases, and TFLite's requantisation of each output channel."""
    op, (outputs, rows, columns, inputs) = step.op, weights.shape
    op = scheduled(op, weights.size, buffered=False)
    order, shape = WeightOrder.of_operation(op), (outputs, rows, columns, inputs)
    made = encoded(order, weights.tobytes(), shape, (0,) * outputs, multipliers, shifts)
    (segment,) = made.segments
    op = replace(op, constant_bytes=segment.size_bytes, segment_bytes=(segment.size_bytes,))
    return replace(step, op=op, constants=made.raw, segment=segment)


class _Phase(NamedTuple):
    """Outputs along an axis of a resized image that have the same weights.

    first, step, outputs: the outputs: the first, their distance and number.
    read, stride: first input of the first output, and the distance of those of the next ones.
    weights: of one or two adjacent inputs."""

    first: int
    step: int
    outputs: int
    read: int
    stride: int
    weights: tuple[int, ...]


def _phases(extent: int, outputs: int, scale: int, offset: int) -> list[_Phase]:
    """The phases of an axis.

    extent: number of inputs.
    scale, offset: output o is at position o * scale + offset of the inputs, in units of 2**-10."""
    kinds = dict[tuple[int, ...], list[tuple[int, int]]]()
    for o in range(outputs):
        position = o * scale + offset
        before = min(max(position >> POSITION_BITS, 0), extent - 1)
        after = min(max(-(-position >> POSITION_BITS), before), extent - 1)
        upper = position - (before << POSITION_BITS)
        one = 1 << POSITION_BITS
        weights = (one,) if before == after else (one - upper, upper)
        kinds.setdefault(weights, []).append((o, before))
    found = list[_Phase]()
    for weights, pairs in kinds.items():
        while pairs:
            (o, before), count, step = pairs[0], 1, (1, 1)
            if len(pairs) > 1 and 1 <= pairs[1][1] - before <= MOST_STRIDE:
                step = pairs[1][0] - o, pairs[1][1] - before
                count = next(
                    (
                        n
                        for n, q in enumerate(pairs)
                        if q != (o + n * step[0], before + n * step[1])
                    ),
                    len(pairs),
                )
            found.append(_Phase(o, step[0], count, before, step[1], weights))
            del pairs[:count]
    return found


POSITION_BITS = 10
MOST_STRIDE = 3
MOST_WEIGHT = 127


def _pairs_of_phases(offloaded: Offloaded) -> Iterator[tuple[_Phase, _Phase]]:
    p = offloaded.parameters
    rows, columns = (
        _phases(p[f"in_{a}"], p[f"out_{a}"], p[f"scale_{a}"], p[f"offset_{a}"]) for a in "hw"
    )
    return product(rows, columns)


def phase_count(offloaded: Offloaded) -> int:
    """Return the number of operations that resize an image."""
    return sum(1 for _ in _pairs_of_phases(offloaded))


def resize_weights(rows: Sequence[int], columns: Sequence[int]) -> tuple[Array, int] | None:
    """Return the int8 weights of a window, and the number of fraction bits; None if they do not
    exist. There are more fraction bits than the weights need, unless there is a single weight.

    rows, columns: weights along both axes, with 10 fraction bits."""
    found = np.multiply.outer(np.array(rows), np.array(columns))
    bits = 2 * POSITION_BITS
    while bits and not (found % 2).any():
        found, bits = found // 2, bits - 1
    if not bits:
        return found, 0
    # One more bit makes the two roundings of the NPU equal to one, half away from zero.
    return (2 * found, bits + 1) if 2 * found.max() <= MOST_WEIGHT else None


def _resize_steps(offloaded: Offloaded) -> Steps:
    of, found = _Tensors(offloaded), list[Step]()
    depth = of.inputs[0].depth
    for rows, columns in _pairs_of_phases(offloaded):
        weights = resize_weights(rows.weights, columns.weights)
        if weights is None:
            continue
        kernel, bits = weights
        source = Lines(rows.read, 1, columns.read * depth, 0, depth)
        target = Lines(rows.first, rows.step, columns.first * depth, 0, columns.step * depth)
        views = View(0, source, depth), View(RESULT, target, columns.step * depth)
        taps: tuple[int, int] = kernel.shape
        reach = [(p.outputs - 1) * p.stride + n for p, n in zip((rows, columns), taps, strict=True)]
        image = MapShape(reach[0], reach[1], depth)
        function = NpuFunction.DEPTHWISE if depth > 1 else NpuFunction.CONVOLUTION
        op = Operation(
            hardware(offloaded),
            function if bits else NpuFunction.MAXIMUM,
            *image,
            *MapShape(rows.outputs, columns.outputs, depth),
            kernel_h=taps[0],
            kernel_w=taps[1],
            stride_h=rows.stride if rows.outputs > 1 else 1,
            stride_w=columns.stride if columns.outputs > 1 else 1,
        )
        step = Step(op, *views)
        if bits:
            every = np.broadcast_to(kernel, (depth, *taps))[..., None].astype(np.int16)
            scaling = (1 << HIGH_BITS - 1,) * depth, (1 - bits,) * depth
            step = _with_weights(step, every, *scaling)
        found.append(step)
    return of.steps(found)


# Constants of the division by Newton's method: -32 / 17 and 48 / 17 with 29 fraction bits, and 1.
#
# Source: gemmlowp, `one_over_one_plus_x_for_x_in_0_1` (fixedpoint.h).
DIVISION = (-1010580540, 1515870810, 1 << 29)
NEWTON_STEPS = 3
SUM_BITS = 12  # Bits by which exponentials are shifted right before they are added.
RESULT_BITS = 31 - 8  # Bits by which products of fractions with 31 bits exceed results of 8 bits.


def _softmax_steps(offloaded: Offloaded) -> Steps:
    """The steps of TFLite's softmax: exponentials from a table of int32, their sum, its inverse by
    Newton's method, and products, in integers of 32 bits."""
    of, found = _Tensors(offloaded), list[Step]()
    image = of.output
    pixels, wide = image._replace(depth=1), 4 * image.width
    names = ("largest", "exponential", "reduced", "sum", "zeros", "half", "x", "product", "shift")
    sizes = image.width, wide * image.depth, wide * image.depth, *(wide,) * 6
    place = {name: View(SCRATCH - k, WHOLE) for k, name in enumerate(names)}

    def view(name: str) -> View:
        stride = {"largest": 1, "exponential": 4 * image.depth, "reduced": 4 * image.depth}
        return place[name]._replace(stride=stride.get(name, 4))

    def add(
        function: NpuFunction,
        target: str,
        source: str,
        second: str | int | None = None,
        bits: int = 0,
        *,
        is_left: bool = False,
    ) -> None:
        deep, one = ("exponential", "reduced"), MapShape(1, 1, 1)
        shapes = (image if source in deep else pixels), (image if target in deep else pixels)
        op = Operation(hardware(offloaded), function, *shapes[0], *shapes[1])
        op = replace(op, in_bytes=4, out_bytes=4, out_multiplier=1, out_shift=HIGH_BITS - bits)
        other = None
        if isinstance(second, str):
            other = view(second)
            op = replace(op, second=SecondInput(pixels))
        elif second is not None and second in DIVISION:
            at = 4 * DIVISION.index(second)
            other = View(CONSTANTS, Lines(0, 0, at, 0, 4), 4)
            op = replace(op, second=SecondInput(one, is_left=is_left), constant_bytes=1)
        elif second is not None:
            op = replace(op, second=SecondInput(one, scalar=second, is_left=is_left))
        found.append(Step(op, view(source), view(target), other))

    image_view = View(0, WHOLE, image.depth)
    found += _largest_channels(offloaded, image, image_view, view("largest"))
    table = offloaded.tables["exp"].astype("<i4")[::-1]
    shifted = _tabulated(offloaded, image_view, view("exponential"), table, image)
    difference = replace(shifted.op, second=SecondInput(pixels), out_zero=127)
    found.append(replace(shifted, op=difference, second=view("largest")))
    add(NpuFunction.SHIFT_RIGHT, "reduced", "exponential", SUM_BITS)
    add(NpuFunction.CHANNEL_SUM, "sum", "reduced")
    add(NpuFunction.LEADING_ZEROS, "zeros", "sum")
    add(NpuFunction.SUBTRACT, "shift", "zeros", 1)
    add(NpuFunction.SHIFT_LEFT, "half", "sum", "shift")
    add(NpuFunction.MULTIPLY, "x", "half", DIVISION[0], bits=HIGH_BITS)
    add(NpuFunction.ADD, "x", "x", DIVISION[1])
    for _ in range(NEWTON_STEPS):
        add(NpuFunction.MULTIPLY, "product", "x", "half", bits=HIGH_BITS)
        add(NpuFunction.SUBTRACT, "product", "product", DIVISION[2], is_left=True)
        add(NpuFunction.MULTIPLY, "product", "product", "x", bits=HIGH_BITS)
        add(NpuFunction.SHIFT_LEFT, "product", "product", 2)
        add(NpuFunction.ADD, "x", "x", "product")
    add(NpuFunction.MULTIPLY, "x", "x", 2)
    add(NpuFunction.MULTIPLY, "exponential", "exponential", "x", bits=HIGH_BITS)
    add(NpuFunction.SUBTRACT, "shift", "zeros", SUM_BITS + RESULT_BITS, is_left=True)
    add(NpuFunction.SHIFT_RIGHT, "exponential", "exponential", "shift")
    last = found[-1].op
    last = replace(last, out_bytes=1, out_zero=-128, unsigned_out=is_unsigned(offloaded))
    found[-1] = replace(found[-1], op=last, target=View(RESULT, WHOLE, image.depth))
    numbers = np.array(DIVISION, "<i4").tobytes()
    return replace(
        of.steps(found, tuple(map(Scratch, sizes))), numbers=numbers + bytes(-len(numbers) % 16)
    )


def _largest_channels(
    offloaded: Offloaded, image: MapShape, source: View, target: View
) -> Iterator[Step]:
    """Steps that compute the largest channel of each pixel: of each row or each column at a time,
    whose channels are columns of one channel."""
    (height, width, depth), config = image, hardware(offloaded)
    for k in range(min(height, width)):
        if width <= height:
            count = height
            lines = Lines(0, 1, k * depth, 0, 1), Lines(0, 1, k, 0, 1)
        else:
            count = width
            lines = Lines(k, 0, 0, depth, 1), Lines(k, 0, 0, 1, 1)
        op = Operation(config, NpuFunction.MAXIMUM, count, depth, 1, count, 1, 1, kernel_w=depth)
        one, other = (
            view._replace(lines=line, stride=1)
            for view, line in zip((source, target), lines, strict=True)
        )
        yield Step(op, one, other)


def _tabulated(
    offloaded: Offloaded, source: View, target: View, table: Array, shape: MapShape
) -> Step:
    """The step that replaces each element of a tensor by its entry in a table of int8 or int32."""
    op = Operation(
        hardware(offloaded),
        NpuFunction.LOOKUP_DIFFERENCE,
        *shape,
        *shape,
        second=SecondInput(MapShape(1, 1, 1), scalar=0),
        out_bytes=table.itemsize,
    )
    return Step(op, source, target, constants=table.tobytes())


def _index_steps(offloaded: Offloaded) -> Steps:
    """The index of the first of the largest channels. A channel less than the largest counts as
    -128, any other as 127 less its index. The largest of these numbers determines the result."""
    of = _Tensors(offloaded)
    image = of.inputs[0]
    source, pixels = View(0, WHOLE, image.depth), image._replace(depth=1)
    largest, numbers = View(SCRATCH, WHOLE, 1), View(SCRATCH - 1, WHOLE, image.depth)
    is_largest = np.where(ELEMENTS[-1] == ELEMENTS, ELEMENTS[-1], ELEMENTS[0]).astype(np.int8)
    equal = _tabulated(offloaded, source, numbers, is_largest, image)
    difference = replace(equal.op, second=SecondInput(pixels), out_zero=127)
    every = SecondInput(MapShape(1, 1, image.depth))
    numbered = replace(
        of.copy(image, packed_in=False, packed_out=False),
        function=NpuFunction.SMALLER,
        second=every,
        constant_bytes=image.depth,
    )
    constant = View(CONSTANTS, WHOLE._replace(row_step=0), image.depth)
    index = (ELEMENTS[-1] - ELEMENTS).astype("<i4")
    found = (
        *_largest_channels(offloaded, image, source, largest),
        replace(equal, op=difference, second=largest),
        Step(numbered, numbers, numbers, constant),
        *_largest_channels(offloaded, image, numbers, largest),
        _tabulated(offloaded, largest, View(RESULT, WHOLE, 4), index, pixels),
    )
    scratch = Scratch(image.width), Scratch(image.width * image.depth)
    descending = ELEMENTS[::-1].astype(np.int8)[: image.depth].tobytes()
    return replace(of.steps(found, scratch), numbers=descending + bytes(-image.depth % 16))


def _square_steps(offloaded: Offloaded) -> Steps:
    """The difference of both terms, which are looked up as int32, times itself."""
    p, of, found = offloaded.parameters, _Tensors(offloaded), list[Step]()
    image, (first, second) = of.output, operands(offloaded)
    type = offloaded.main.inputs[second].type
    small = extents((1,) * (offloaded.main.output.type.rank - type.rank) + type.shape)
    terms = View(SCRATCH, WHOLE, 4 * image.depth), View(SCRATCH - 1, WHOLE, 4 * small.depth)
    for k, term, shape in zip((first, second), terms, (image, small), strict=True):
        scaled = (ELEMENTS - p[f"zero{k}"]) << SQUARED_BITS
        table = multiply(scaled, p[f"multiplier{k}"], p[f"shift{k}"]).astype("<i4")
        step = _tabulated(offloaded, View(k, WHOLE, shape.depth), term, table, shape)
        found.append(replace(step, whole=shape.height < image.height))
    difference = replace(
        of.copy(image, packed_in=False, packed_out=False),
        function=NpuFunction.SUBTRACT,
        second=SecondInput(small),
        in_bytes=4,
        out_bytes=4,
    )
    square = replace(
        difference,
        function=NpuFunction.MULTIPLY,
        second=SecondInput(image),
        out_multiplier=1,
        out_shift=HIGH_BITS,
    )
    found.append(Step(difference, terms[0], terms[0], terms[1]))
    found.append(Step(square, terms[0], terms[0], terms[0]))
    found.append(_scaled(square, p["out_shift"], p, terms[0], View(RESULT, WHOLE, image.depth)))
    height = 0 if small.height == image.height else 1
    sizes = (4 * shape.width * shape.depth for shape in (image, small))
    steps = of.steps(found, tuple(map(Scratch, sizes, (0, height))))
    return replace(steps, numbers=_number(p["out_multiplier"]))


def _scaled(op: Operation, shift: int, p: Mapping[str, int], source: View, target: View) -> Step:
    """The step that requantises int32 elements, the result of an operation, to int8: the NPU
    multiplies them by the first number of the constants, and shifts.

    shift: TFLite's shift.
    p: parameters of the operator, by name."""
    made = replace(
        op,
        function=NpuFunction.MULTIPLY,
        in_h=op.out_h,
        in_w=op.out_w,
        in_c=op.out_c,
        second=SecondInput(MapShape(1, 1, 1)),
        constant_bytes=1,
        out_multiplier=1,
        out_shift=shift,
        out_bytes=1,
        out_zero=p["out_zero"],
        least=p.get("least", -128),
        most=p.get("most", 127),
    )
    return Step(made, source, target, View(CONSTANTS, WHOLE._replace(row_step=0), 4))


def _number(x: int) -> bytes:
    """An int32 number as the constants of steps begin with it."""
    return np.int32(x).tobytes() + bytes(12)


SQUARED_BITS = 7  # Bits by which terms are shifted left before they are scaled.


def _product_steps(offloaded: Offloaded) -> Steps:
    """Each row or column of the products, whichever are fewer: the products of the elements of one
    matrix and a line of the other as int32, their sums over channels, and the requantisation."""
    p, of, found = offloaded.parameters, _Tensors(offloaded), list[Step]()
    depth, config = p["depth"], hardware(offloaded)
    counts, outer = (p["m"], p["n"]), (p["row0"], p["column1"])
    inner, results = (p["inner0"], p["inner1"]), (p["n"], 1)
    one = 0 if counts[1] <= counts[0] else 1  # the matrix that is multiplied by lines of the other
    other, width = 1 - one, counts[one]
    adjacent = inner == (1, 1)
    image = MapShape(1, width, depth) if adjacent else MapShape(depth, width, 1)
    multiplied = Operation(
        config,
        NpuFunction.MULTIPLY,
        *image,
        *image,
        in_zero=p[f"zero{one}"],
        second=SecondInput(image._replace(width=1), p[f"zero{other}"]),
        out_multiplier=1,
        out_shift=HIGH_BITS,
        out_bytes=4,
    )
    total = Operation(config, NpuFunction.CHANNEL_SUM, 1, width, depth, 1, width, 1)
    total = replace(total, in_bytes=4, out_bytes=4)
    output = offloaded.main.output.type.shape[:-2]
    shapes = (value.type.shape[:-2] for value in offloaded.main.inputs)
    images = [np.broadcast_to(np.arange(prod(s)).reshape(s), output).ravel() for s in shapes]
    for r, k in product(range(of.output.height), range(counts[other])):
        lines = [
            Lines(int(images[n][r]), 0, k * outer[n] * (n == other), inner[n], 0) for n in range(2)
        ]
        at = Lines(r, 0, 0, 4, 0)
        products, sums = View(SCRATCH, at, 4 * depth), View(SCRATCH - 1, at, 4)
        target = View(RESULT, Lines(r, 0, k * results[other], 0, 0), results[one])
        factors = View(one, lines[one], outer[one]), View(other, lines[other], depth)
        found.append(Step(multiplied, factors[0], products, factors[1]))
        found.append(Step(total, products, sums))
        found.append(_scaled(total, p["shift"], p, sums, target))
    steps = of.steps(found, (Scratch(4 * width * depth), Scratch(4 * width)))
    return replace(steps, numbers=_number(p["multiplier"]))


FINDERS = {
    PRELU: _prelu_steps,
    RESIZE: _resize_steps,
    SOFTMAX: _softmax_steps,
    ARG_MAX: _index_steps,
    SQUARE: _square_steps,
    MATRIX_PRODUCT: _product_steps,
    **dict.fromkeys(EXTREMES, _extreme_steps),
}
