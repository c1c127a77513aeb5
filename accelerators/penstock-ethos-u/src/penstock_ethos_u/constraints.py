"""constraints: the rules that a node must satisfy to run on the NPU.

A rule returns True if the node satisfies it, or else the reason for rejecting the node. The first
paragraph of its docstring states what the node must satisfy; messages show it before the reason.

Source: the constraints of Arm's compiler, Vela 5.2.0 (`SUPPORTED_OPS.md`), and TFLite's arithmetic.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from penstock.uma import Array, DType, Offloaded, double_rounding, multiply, row_count
from penstock_ethos_u.configurations import BANK_BYTES, MapShape
from penstock_ethos_u.constants import channel_scaling, ohwi_weights
from penstock_ethos_u.encoding import HIGH_BITS
from penstock_ethos_u.movement import MOST_BOXES
from penstock_ethos_u.operation import NpuFunction, Operation, SecondInput, reciprocal
from penstock_ethos_u.operators import (
    ARG_MAX,
    ELEMENTWISE,
    EXTREMES,
    LARGEST_EXTENT,
    LOOKUPS,
    MATRIX_PRODUCT,
    MOVEMENTS,
    POOLS,
    PRELU,
    REDUCTIONS,
    RESIZE,
    SOFTMAX,
    SQUARE,
    WEIGHTED,
    extents,
    operands,
    plain_operation,
    reduced_extents,
    transposed_strides,
)
from penstock_ethos_u.performance import best_block
from penstock_ethos_u.sequences import (
    MOST_ROWS,
    MOST_TAPS,
    folded_window,
    moved_boxes,
    phase_count,
    selected_channels,
    slopes_are_exact,
    steps_of,
)

# Whether the NPU's arithmetic equals TFLite's for every possible element.
#
# The NPU's arithmetic is derived from its register interface and from Arm's compiler Vela.
#
# Element-wise sums: TFLite shifts both terms left by 20 bits and then multiplies each by its scale.
# The larger scale is 1/2, so the NPU shifts that term left by 19 bits only, with the same result.
# The NPU multiplies the other term by its scale * 2 ** 20 in a single step, which may round
# differently from TFLite's two steps. In a special case, the NPU shifts both terms left by 15 bits
# instead (`terms_are_shifted_equally`).
#
# Averages: the NPU multiplies by a reciprocal that is rounded up, where TFLite divides.


# Left shift of the terms of a sum in bits, including the scale of 1/2: in general, and if
# `terms_are_shifted_equally`.
BITS, EQUAL_BITS = 20, 16
# Number of low bits of the multiplier of a sum that are zero if `terms_are_shifted_equally`.
LOW_BITS = 12
# TFLite's multiplier and shift of the term with the larger scale: a factor of 1/2.
HALF = (1 << 30, 0)
ELEMENTS = np.arange(-128, 128, dtype=np.int64)


def sum_is_exact(op: Operation, others: Array) -> bool | str:
    """Return True if the NPU's sum or difference equals TFLite's for all pairs of elements, or else
    the reason why it does not.

    others: the values that the elements of the second input may have."""
    return _sum_differences(op, tuple(others.tolist()))


@lru_cache(maxsize=1024)
def _sum_differences(op: Operation, others: tuple[int, ...]) -> bool | str:
    """Compare the NPU's sum or difference with TFLite's for all pairs of elements. Return True if
    all results are equal, or else a reason such as "of 65536 sums 12 differ".

    others: the values that the elements of the second input may have."""
    second = op.second or SecondInput(MapShape(1, 1, 1))
    left = (ELEMENTS - op.in_zero)[:, None]
    right = (np.array(others, np.int64) - second.zero)[None, :]
    scales = (op.multiplier0, op.shift0), (op.multiplier1, op.shift1)
    if HALF not in scales:
        return "neither of its terms has the larger scale"
    sign = -1 if op.function is NpuFunction.SUBTRACT else 1
    signs = (sign, 1) if second.is_left else (1, sign)
    wanted = [multiply(x << BITS, *s) for x, s in zip((left, right), scales, strict=True)]
    bits = EQUAL_BITS if terms_are_shifted_equally(op) else BITS
    found = [_scaled_term(x, bits, *s) for x, s in zip((left, right), scales, strict=True)]
    limits = op.least - op.out_zero, op.most - op.out_zero
    sums = [
        np.clip(
            multiply(signs[0] * a + signs[1] * b, op.out_multiplier, op.out_shift + BITS - raised),
            *limits,
        )
        for (a, b), raised in ((wanted, BITS), (found, bits))
    ]
    odd = int((sums[0] != sums[1]).sum())
    return not odd or f"of {sums[0].size} sums {odd} differ"


def terms_are_shifted_equally(op: Operation) -> bool:
    """Return whether the NPU shifts both terms of a sum left by 15 bits. Otherwise, it shifts only
    the term with the larger scale, by 19 bits."""
    # Vela makes the NPU shift both if they have the same scale and the low 12 bits of the output's
    # multiplier are zero.
    same = (op.multiplier0, op.shift0) == (op.multiplier1, op.shift1)
    return same and op.out_multiplier % (1 << LOW_BITS) == 0


def _scaled_term(x: Array, bits: int, multiplier: int, shift: int) -> Array:
    """The term `x` of a sum, shifted left by `bits` bits and multiplied by its scale, which
    is `multiplier` * 2 ** (`shift` - 31). The NPU does both in a single step, unlike TFLite."""
    if (multiplier, shift) == HALF:
        return x << (bits - 1)
    return multiply(x, multiplier, shift + bits)


@lru_cache(maxsize=1024)
def average_is_exact(op: Operation) -> bool | str:
    """Return True if the NPU's average equals TFLite's for all elements in all windows of the
    operation, or else the reason why it does not."""
    counts = {r * c for r in _window_extents(op, 0) for c in _window_extents(op, 1)}
    how = op.scales_sum, op.rounds_average_once, op.in_zero
    odd = sorted(count for count in counts if not _reciprocal_is_exact(count, *how))
    return not odd or f"averages of {odd[0]} elements differ"


def _window_extents(op: Operation, axis: int) -> set[int]:
    """The distinct numbers of input rows (`axis` 0) or columns (`axis` 1) that windows of an
    operation cover. Padding is not counted, so a window at a border may cover fewer than others."""
    size, out, kernel, stride, before = (
        (op.in_h, op.out_h, op.kernel_h, op.stride_h, op.pad_top),
        (op.in_w, op.out_w, op.kernel_w, op.stride_w, op.pad_left),
    )[axis]
    starts = [k * stride - before for k in range(out)]
    return {min(start + kernel, size) - max(start, 0) for start in starts}


@lru_cache(maxsize=4096)
def _reciprocal_is_exact(count: int, scales_sum: bool, once: bool, zero: int) -> bool:
    """Whether the NPU computes every average of `count` int8 elements as TFLite does; False
    if `count` is not positive.

    scales_sum, once: `Operation.scales_sum` and `Operation.rounds_average_once`.
    zero: what is subtracted from each element, and added to the average."""
    # The NPU multiplies the sum of the elements by the reciprocal of `count` and rounds.  TFLite
    # divides the sum by `count` and rounds.
    if count < 1:
        return False
    # Neither result decreases when the sum increases.  So it suffices to check the sums at which
    # TFLite's result changes, and their neighbours.
    halves = (ELEMENTS - zero) * count + count // 2
    near = np.unique((halves[:, None] + np.arange(-2, 3)).ravel())
    sums = near[(near >= (-128 - zero) * count) & (near <= (127 - zero) * count)]
    scale, shift = reciprocal(count, scales_sum=scales_sum)
    quotient = np.sign(sums) * ((2 * abs(sums) + count) // (2 * count))
    return bool((_scaled(sums, scale, shift, once=once) == quotient).all())


def _scaled(x: Array, scale: int, shift: int, *, once: bool) -> Array:
    """Return `x * scale / 2**shift` with the NPU's rounding, which rounds twice if `shift` exceeds
    31, unless it rounds once, to nearest, ties upwards."""
    twice = np.where(x >= 0, 1, -1) * (1 << 30) * (shift > 31 and not once)
    product = x.astype(object) * scale
    return np.array((product + ((1 << shift) >> 1) + twice) >> shift, dtype=np.int64)


MOST_PRODUCTS = (1 << 31) // 255**2  # Sums of more products of int8 elements may overflow int32.
LARGEST_STRIDE = 3
LARGEST_UPSCALE = 2
MOST_POOL_ROWS, MOST_POOL_TAPS = 256, 256 * 256
LARGEST_PADDED_AVERAGE = 8
MOST_SUM = 127 * 65536
MOST_SHIFT = 63
MOST_PADDING = 127


def int8_images(offloaded: Offloaded) -> bool | str:
    """Tensors must be int8, have rank 2, 3 or 4 (with batch size 1 if the rank is 4) and no extent
    above 65536; their rank may be any if elements are only moved or looked up, and their type any
    if elements are only moved, or uint8 if they are looked up. Indices of maxima are int32. A dense
    layer must have a single row of outputs, or as many as its input has.

    Return True, or else the reason why the node violates this rule."""
    kind = offloaded.main.kind
    output = offloaded.main.output.type
    inputs = [value.type for value in offloaded.main.variable_inputs]
    for type in (*inputs, output):
        able = (DType.INT32,) if kind == ARG_MAX and type is output else (DType.INT8,)
        if kind in LOOKUPS:
            able = (DType.INT8, DType.UINT8)
        if type.dtype not in able and kind not in MOVEMENTS:
            return f"one has elements of type {type.dtype.value}"
        one = type.rank in (2, 3) or (type.rank == 4 and type.shape[0] == 1)
        one = one or (type.rank > 0 and kind in (*MOVEMENTS, *LOOKUPS))
        if not one or max(extents(type.shape)) > LARGEST_EXTENT:
            return f"one has shape {list(type.shape)}"
    rows = offloaded.main.inputs[0].type.shape[:-1]
    if (
        kind == "FullyConnected"
        and output.elements != output.shape[-1]
        and output.shape[:-1] != rows
    ):
        return f"one has shape {list(output.shape)}"
    return True


def windows(offloaded: Offloaded) -> bool | str:
    """Windows must have strides of 1 to 3. Windows of convolutions, means and sums must span at
    most 64 rows and 4096 elements (those of means and sums of whole images at most 16 times as
    many); windows of pools must have no dilation and span at most 256 rows and 65536 elements.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind not in WEIGHTED | POOLS or folded_window(offloaded):
        return True
    op = plain_operation(offloaded)
    pool = offloaded.main.kind in POOLS
    if max(op.stride_h, op.stride_w) > LARGEST_STRIDE:
        return f"its strides are {op.stride_h} x {op.stride_w}"
    if pool and max(op.dilation_h, op.dilation_w) > 1:
        return f"its dilations are {op.dilation_h} x {op.dilation_w}"
    rows, taps = (MOST_POOL_ROWS, MOST_POOL_TAPS) if pool else (MOST_ROWS, MOST_TAPS)
    if op.reach_h > rows or op.reach_h * op.reach_w > taps:
        return f"it spans {op.reach_h} x {op.reach_w} elements"
    return True


def transposed_windows(offloaded: Offloaded) -> bool | str:
    """Transposed convolutions must have a stride of 1 or 2, the same along rows and columns, and
    windows at least as large as the stride. Both are irrelevant along an axis where the input, the
    window and the output have one element each. The crop (the rows and columns omitted at the top
    and left of the output) must be smaller than the window, and each output element must depend on
    at least one input element.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind != "TransposeConv":
        return True
    p, op = offloaded.parameters, plain_operation(offloaded)
    moving = transposed_strides(p)
    if len(moving) > 1 or not moving <= {1, LARGEST_UPSCALE}:
        return f"its strides are {p['stride_h']} x {p['stride_w']}"
    for axis, lines, crop in (("h", "rows", p["pad_top"]), ("w", "columns", p["pad_left"])):
        size, inputs, outputs = (p[f"{side}_{axis}"] for side in ("kernel", "in", "out"))
        if size < op.upscale and inputs > 1:
            return f"its window is {p['kernel_h']} x {p['kernel_w']}"
        if crop >= size:
            return f"it crops {crop} {lines}, and its window is {p['kernel_h']} x {p['kernel_w']}"
        if crop < 0 or outputs + crop - size > op.upscale * (inputs - 1):
            return "output elements at a border depend on no input element"
    return True


def padding(offloaded: Offloaded) -> bool | str:
    """Padding must be at most 127 rows or columns, and no window may lie in padding alone; the
    windows of average pools with padding must have at most 8 rows and 8 columns.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind not in WEIGHTED | POOLS:
        return True
    op = plain_operation(offloaded)
    around = op.padding(0, op.out_h)
    if max(around) > MOST_PADDING:
        return f"it is {around} (top, left, bottom, right)"
    top, left, bottom, right = around
    if max(top, bottom) >= op.reach_h or max(left, right) >= op.reach_w:
        return f"a window of {op.reach_h} x {op.reach_w} is inside of {around}"
    large = max(op.kernel_h, op.kernel_w) > LARGEST_PADDED_AVERAGE
    if op.function is NpuFunction.AVERAGE and any(around) and large:
        return f"the window is {op.kernel_h} x {op.kernel_w}"
    return True


def resizing(offloaded: Offloaded) -> bool | str:
    """Bilinear resizing must have weights of at most 7 bits, and at most 64 combinations of them
    along rows and columns.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind != RESIZE:
        return True
    count, steps = phase_count(offloaded), steps_of(offloaded)
    if count > MOST_BOXES:
        return f"it has {count}"
    return (steps is not None and len(steps.steps) == count) or "a weight has more bits"


def softmax(offloaded: Offloaded) -> bool | str:
    """A softmax must have at most 65536 channels, and at most 64 rows or columns.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind != SOFTMAX:
        return True
    height, width, depth = extents(offloaded.main.output.type.shape)
    return min(height, width) <= MOST_BOXES or f"it has {height} x {width} x {depth} elements"


def indices(offloaded: Offloaded) -> bool | str:
    """The index of a maximum must be that of a channel, of at most 256; of an image of at most 64
    rows or columns.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind != ARG_MAX:
        return True
    height, width, depth = image = extents(offloaded.main.inputs[0].type.shape)
    if reduced_extents(offloaded) != (1, 1, depth):
        return "it is that of a row or column"
    small = depth <= len(ELEMENTS) and min(height, width) <= MOST_BOXES
    return small or f"the image has {' x '.join(map(str, image))} elements"


def products(offloaded: Offloaded) -> bool | str:
    """Both matrices of a product must be computed, and have one multiplier. Products must have at
    most 64 rows or columns, of all matrices together, and sums of at most 33025 products.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind != MATRIX_PRODUCT:
        return True
    p, images = offloaded.parameters, row_count(offloaded.main.output.type.shape)
    if any(value.data is not None for value in offloaded.main.inputs):
        return "one is constant"
    if "multiplier" not in p:
        return "columns have multipliers of their own"
    few = images * min(p["m"], p["n"]) <= MOST_BOXES and p["depth"] <= MOST_PRODUCTS
    return few or f"it has {images} x {p['m']} x {p['n']} sums of {p['depth']} products"


def reduced_axes(offloaded: Offloaded) -> bool | str:
    """Maxima and minima must reduce rows, columns and channels: not images, and channels only alone
    or with columns; of at most 64 rows if they reduce channels alone. They must cover at most 256
    rows and 65536 elements.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind not in EXTREMES:
        return True
    p, (height, width, depth) = offloaded.parameters, reduced_extents(offloaded)
    image = extents(offloaded.main.inputs[0].type.shape)
    if p["span_n"] != 1 and offloaded.main.inputs[0].type.rank == 4:
        return "it reduces images"
    if height > MOST_POOL_ROWS or height * width * depth > MOST_POOL_TAPS:
        return f"it covers {height} x {width} x {depth} elements"
    if depth > 1 and width < image.width and (height > 1 or image.height > MOST_BOXES):
        return f"it has {image.height} rows and reduces channels"
    return True


def few_boxes(offloaded: Offloaded) -> bool | str:
    """Operators that only move elements must have no constant inputs, and select channels of each
    pixel, or copies of at most 64 boxes must compute them.

    Return True, or else the reason why the node violates this rule."""
    main = offloaded.main
    if main.kind not in MOVEMENTS:
        return True
    if any(value.data is not None for value in main.inputs):
        return "an input is constant"
    able = len(moved_boxes(offloaded)) <= MOST_BOXES or selected_channels(offloaded) is not None
    return able or f"it copies more than {MOST_BOXES} boxes"


def whole_extents(offloaded: Offloaded) -> bool | str:
    """Means and sums must reduce rows, columns or channels, but not images.

    Return True, or else the reason why the node violates this rule."""
    p = offloaded.parameters
    return offloaded.main.kind not in REDUCTIONS or p["span_n"] == 1 or "it reduces images"


def constant_weights(offloaded: Offloaded) -> bool | str:
    """Weights and biases must be constant, and the absolute values of the weights of an output
    channel must sum to at most 127 x 65536.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind not in WEIGHTED:
        return True
    if any(value.data is None for value in offloaded.main.inputs[1:]):
        return "they are computed"
    weights = np.abs(ohwi_weights(offloaded).astype(np.int64)).sum(axis=(1, 2, 3))
    return int(weights.max()) <= MOST_SUM or f"they add up to {int(weights.max())}"


def shifts(offloaded: Offloaded) -> bool | str:
    """Requantisation must shift results right by 0 to 63 bits.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind in WEIGHTED:
        _, multipliers, every = channel_scaling(offloaded)
        found = [31 - s for m, s in zip(multipliers, every, strict=True) if m]
    elif offloaded.main.kind == MATRIX_PRODUCT:
        found = [31 - offloaded.parameters["shift"]]
    elif "out_shift" in offloaded.parameters:
        found = [31 - offloaded.parameters["out_shift"]]
    elif offloaded.main.kind == PRELU:
        found = [31 - offloaded.parameters[f"{side}_shift"] for side in ("above", "below")]
    else:
        return True
    odd = [shift for shift in found if not 0 <= shift <= MOST_SHIFT]
    return not odd or f"one is shifted by {odd[0]}"


def shapes(offloaded: Offloaded) -> bool | str:
    """One input of a sum, difference, product, maximum, minimum or squared difference must have the
    shape of the output. The other input is broadcast along axes where its extent is 1, and must
    have the extent of the output along all others. One of the two may be constant, but not of a
    squared difference.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind not in (*ELEMENTWISE, SQUARE):
        return True
    main, (first, second) = offloaded.main, operands(offloaded)
    constants = sum(value.data is not None for value in main.inputs)
    if constants > (main.kind != SQUARE):
        return "both are constant" if constants > 1 else "one is constant"
    if main.inputs[first].type.shape != main.output.type.shape:
        return f"input {first} has shape {list(main.inputs[first].type.shape)}"
    other = main.inputs[second]
    if other.data is None and other.type.rank != main.output.type.rank:
        return f"input {second} has shape {list(other.type.shape)}"
    return True


def exact(offloaded: Offloaded) -> bool | str:
    """Sums, averages and PRELU must equal TFLite's bit for bit. Not all do: the NPU shifts the
    terms of a sum by a different number of bits than TFLite, computes an average by multiplying by
    a reciprocal instead of dividing, and a PRELU as the larger of two products.

    Return True, or else the reason why the node violates this rule."""
    if offloaded.main.kind == PRELU:
        return slopes_are_exact(offloaded) or "a slope exceeds 1"
    op = plain_operation(offloaded)
    if op.function in (NpuFunction.ADD, NpuFunction.SUBTRACT):
        if op.configuration.memories is not None:  # both terms are shifted and scaled as in TFLite
            bits = [HIGH_BITS - BITS - shift for shift in (op.shift0, op.shift1)]
            return (min(bits) >= 0 and max(bits) <= MOST_SHIFT) or f"terms are shifted by {bits}"
        site, second = offloaded.main.site, operands(offloaded)[1]
        fixed = site.constants[second] is not None
        return sum_is_exact(op, np.unique(site.constant(second)) if fixed else ELEMENTS)
    if op.function is NpuFunction.AVERAGE:
        return average_is_exact(op)
    return True


def fits_the_buffer(offloaded: Offloaded) -> bool | str:
    """The NPU's internal memory must hold the inputs and accumulators of two blocks (parts of the
    output that the NPU computes at a time) of the smallest size.

    Return True, or else the reason why the node violates this rule."""
    op, steps = plain_operation(offloaded), steps_of(offloaded)
    every = [op] if steps is None else [step.op for step in steps.steps]
    fits = all(_block(each) is not None for each in every)
    chip = op.configuration
    size = chip.memories.input_bytes // BANK_BYTES if chip.memories else chip.banks
    return fits or f"it has {size} KiB"


def _block(op: Operation) -> tuple[int, int, int] | None:
    """The fastest block size (rows, columns, channels) for computing one output row, or None
    if no block fits the NPU's internal memory."""
    return best_block(op.work(1))


# All rules, in the order in which they are checked. A rule may assume that a node satisfies the
# rules before it.
RULES = (
    int8_images,
    whole_extents,
    few_boxes,
    resizing,
    softmax,
    indices,
    products,
    reduced_axes,
    constant_weights,
    double_rounding,
    shapes,
    transposed_windows,
    windows,
    padding,
    shifts,
    exact,
    fits_the_buffer,
)
