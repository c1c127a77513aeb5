"""tiling: a kernel call as a loop nest, and how it is split into tiles that fit the scratchpads.

The tiler chooses the tiles of the loop nest (`layer_of_call`), which states the constraints of the
engine on their sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from penstock.uma import (
    INPUT,
    PARAMETERS,
    WEIGHTS,
    AcceleratorTarget,
    CapacityError,
    Copies,
    Dimension,
    Layer,
    LayerOperand,
    LeastTraffic,
    Node,
    Offloaded,
    Scratchpads,
    Tiler,
    TileSequence,
    TileSequencer,
    Tiling,
    UnsupportedError,
    choose,
    choose_sequence,
    does_not_fit,
    flattened,
    matrix_layer,
)
from penstock_smv.smaug import Smaug

ALIGNMENT = 8
"""The number of elements per pixel of a tile is rounded up to a multiple of this, the width of a
vector."""
HALF_BYTES, BIAS_BYTES = 2, 4
"""Bytes of an element of float16, and of a bias."""
SCALE_BYTES = 9
"""Bytes per output channel: 4 for the bias, 4 for the multiplier, 1 for the shift."""
COPIES = Copies(bytes_per_cycle=8, per_run=2, per_copy=100)
"""The default timing of copies in cycles.  Source of the 100 cycles per copy: SMAUG's configuration
of its DMA engine; the other figures are assumptions."""
PROCESSING_ELEMENTS, MULTIPLIERS = 8, 32
"""The default number of processing elements, and of multipliers in each of them.
Source: SMAUG, SMV backend (kNumPEs, kNumMaccsPerPE)."""
REFUSALS = (CapacityError, UnsupportedError)
"""The errors by which a tiler refuses a layer.  Any other error is a mistake of the tiler."""
TILERS: Mapping[str, Tiler] = {"least_traffic": LeastTraffic(), "smaug": Smaug()}


def scratchpads(target: AcceleratorTarget) -> Scratchpads:
    """Return the scratchpads, with the sizes that the accelerator's attributes define.

    Partial sums stay in the accumulators: they are never stored to memory."""
    sizes = [int(target.attrs[f"{role}_bytes"]) for role in ("input", "weights", "output")]
    return Scratchpads.separate(
        *sizes,
        parameters_bytes(sizes[1]),
        alignment=ALIGNMENT,
        double_buffered=bool(target.attrs["double_buffering"]),
        spills=False,
        copies=replace(COPIES, bytes_per_cycle=int(target.attrs["bytes_per_cycle"])),
    )


def parameters_bytes(weights_bytes: int) -> int:
    """Return the size of the memory of biases, multipliers and shifts: room for those of all output
    channels whose weights fit a scratchpad of weights, so it never limits the size of tiles.

    Each channel has at least `ALIGNMENT` bytes of weights, and its parameters take `SCALE_BYTES`.
    The channels of a tile are aligned, too, and there may be two tiles."""
    return SCALE_BYTES * 2 * ALIGNMENT * -(-weights_bytes // (2 * ALIGNMENT * ALIGNMENT))


def tiling_of(
    offloaded: Offloaded, rows: int | None = None, images: int | None = None
) -> Tiling | TileSequence:
    """Return the tiling of a call that computes `rows` consecutive output rows.

    The tiling is valid for any position of these rows in the output.  If `rows` is None, the call
    computes the whole output.  If the tiler is a `TileSequencer`, the result is a sequence of tiles
    for the whole output, whatever the value of `rows`.

    images: compute this number of consecutive images of a batch; None: all.

    Raises CapacityError or UnsupportedError (`REFUSALS`) if the tiler finds no tiling."""
    tiler, memories = _tiler(offloaded), scratchpads(offloaded.target)
    found: Tiling | TileSequence
    if isinstance(tiler, TileSequencer):
        found = _sequence(tiler, layer_on_engine(offloaded), memories)
    else:
        layer = layer_on_engine(offloaded, rows)
        if images is not None:
            layer = layer.stripe(layer.axes[0].name, images)
        found = _tiled(tiler, layer, memories)
    if offloaded.main.kind == "Softmax" and len(found.tiles["c"]) > 1:
        raise does_not_fit(found.layer, "the engine computes whole vectors of a softmax")
    if has_ordered_sums(offloaded) and len(found.tiles["sum"]) > 1:
        raise does_not_fit(found.layer, "the order of float32 sums over windows would change")
    return found


def engine_count(target: AcceleratorTarget) -> int:
    """Return the number of engines that share a layer."""
    return int(target.attrs["engines"])


def rows_at_once(offloaded: Offloaded, rows: int) -> int:
    """Return how many of the `rows` rows of a call an engine computes at once.

    A call that computes more rows divides them into intervals of this length, which the engines
    take in turns.  Tile sequences are not divided, nor are the rows of batches of images."""
    if isinstance(_tiler(offloaded), TileSequencer) or has_images(offloaded):
        return tiled_rows(offloaded, rows)
    return tiled_rows(offloaded, -(-rows // engine_count(offloaded.target)))


def images_at_once(offloaded: Offloaded) -> int | None:
    """Return how many images of a batch an engine computes at once, if several engines share it:
    they take intervals of this length in turns.

    None if there is one engine or one image, or if tiles are not those of images."""
    engines, tiler = engine_count(offloaded.target), _tiler(offloaded)
    if engines == 1 or isinstance(tiler, TileSequencer) or not has_images(offloaded):
        return None
    if len(layer_on_engine(offloaded).output.dimensions) < 4:  # a row of elements
        return None
    for images in range(-(-offloaded.output.shape[0] // engines), 0, -1):
        with suppress(*REFUSALS):
            tiling_of(offloaded, images=images)
            return images
    return None


def has_images(offloaded: Offloaded) -> bool:
    """Return whether an operator computes a batch of several images (N, H, W, C)."""
    shape = offloaded.output.shape
    return len(shape) == 4 and shape[0] > 1


def tiled_rows(offloaded: Offloaded, rows: int) -> int:
    """Return the largest number of rows, at most `rows`, for which the tiler finds a tiling; 1 if
    the tiler finds none for two rows or more.

    The function tries every number from `rows` down, because a tiler that cannot split rows, such
    as SMAUG's, may find a tiling for 4 and for 6 rows, for example, but none for 5."""
    for fewer in range(rows, 1, -1):
        with suppress(*REFUSALS):
            tiling_of(offloaded, fewer)
            return fewer
    return 1


def why_no_tile(offloaded: Offloaded) -> str:
    """Return why the tiler finds no tiling for the calls of a layer, as a phrase for an error
    message; "" if it finds one for each.

    Calls compute all rows of the output or some of them, so a tiling must exist for all rows and
    for a single row.  For a batch of images, and with a tiler that returns tile sequences, all
    calls compute all rows, so only the first tiling must exist."""
    sequenced = isinstance(_tiler(offloaded), TileSequencer)
    try:
        for rows in (None,) if sequenced or has_images(offloaded) else (None, 1):
            tiling_of(offloaded, rows)
    except REFUSALS as error:
        return error.what
    return ""


def layer_on_engine(offloaded: Offloaded, rows: int | None = None) -> Layer:
    """Return the loop nest, for the tiler, of a call that computes `rows` consecutive output rows.

    If `rows` is None, the call computes the whole output.  For SMAUG's tiler, a unary or
    element-wise operator on tensors of one shape is a single loop over all elements."""
    return layer_of_call(offloaded, rows, flat=isinstance(_tiler(offloaded), Smaug))


def has_ordered_sums(offloaded: Offloaded) -> bool:
    """Return whether an operator adds the input channels of one tap before those of the next, with
    rounding: tiles of some input channels would add in another order."""
    p = offloaded.parameters
    return offloaded.main.kind == "PlainConv2D" and p["kernel_h"] * p["kernel_w"] > 1


def _tiler(offloaded: Offloaded) -> Tiler:
    """Return the tiler of a composite.

    It is the first of these that exists: the tiler that is registered for the composite's pattern
    or main operator; the tiler that the kernel's `OpStrategy` gives as `schedule`; the tiler that
    the accelerator's attribute `tiler` names."""
    return offloaded.tiler(TILERS[str(offloaded.target.attrs["tiler"])])


@lru_cache(maxsize=4096)
def _tiled(tiler: Tiler, layer: Layer, memories: Scratchpads) -> Tiling:
    """Return the tiling that the tiler chooses for a layer and the scratchpads `memories`.

    Results are cached.  Raises CapacityError or UnsupportedError (`REFUSALS`) if there is no
    tiling."""
    if type(tiler) is LeastTraffic:
        return tiler.tile(layer, memories)
    return choose(tiler, layer, memories)


@lru_cache(maxsize=256)
def _sequence(tiler: TileSequencer, layer: Layer, memories: Scratchpads) -> TileSequence:
    """Return the first sequence of tiles of a tiler that the engine can execute for a layer.

    Results are cached.  Raises CapacityError if there is none."""
    return choose_sequence(tiler, layer, memories)


TABLE_ENTRIES = 256
"""The number of entries of the table that defines a unary operator, one per int8 value."""
EXPONENTIAL_BYTES = 4
"""Bytes of an entry of a softmax's table."""
WHOLE = 1 << 30
"""As the least extent of tiles along an axis: the whole axis."""
HALVES = ("PlainConv2D", "PlainFullyConnected")
"""Kinds of operators with float16 weights and a float32 bias per output channel."""
WEIGHTED = ("Conv2D", "DepthwiseConv2D", "FullyConnected", *HALVES)
"""Kinds of operators with weights.  Others than `HALVES` have a bias, multiplier and shift per
output channel."""
BATCH_NORM = "batch_norm"
"""The pattern of a product and a sum with constants per channel."""
ELEMENTWISE = ("Add", "Sub", "Mul", "Maximum", "Minimum", "Compare")
"""Kinds of operators that combine two tensors, or a tensor and a constant per channel."""
UNARY = (
    "Abs",
    "Elu",
    "Exp",
    "Gelu",
    "HardSwish",
    "LeakyRelu",
    "Logistic",
    "Quantize",
    "RealFunction",
    "Relu",
    "Rsqrt",
    "Tabulated",
    "Tanh",
)
"""Kinds of operators that a table of 256 entries defines."""


def layer_of_call(offloaded: Offloaded, rows: int | None, *, flat: bool) -> Layer:
    """Return the loop nest of a call that computes `rows` consecutive output rows.

    The loop nest is valid for any position of these rows in the output.  If `rows` is None, the
    call computes the whole output.

    flat: whether the loop nest of a unary or element-wise operator on tensors of one shape is a
        single loop over all elements, as in SMAUG.  Otherwise, the nest has an axis for each
        dimension of the output.

    Properties of the engine determine the loop nest:

    - A tile has all output channels, or a multiple of the number of processing elements.  If the
      layer sums over input channels, a tile has all of them, or a multiple of the number of
      multipliers in a processing element.
    - The operand of biases also holds multipliers and shifts: 4 + 4 + 1 bytes per channel, in a
      memory of its own.
    - Each byte of the scratchpad of outputs has an accumulator for its partial sum, so incomplete
      sums take no more room there than elements.
    - The input of a fully connected layer has shape (N, C).
    - The second operand of an element-wise operator is in the scratchpad of weights.  Constants per
      channel have shape (1, C); the factors and offsets of a batch normalisation, (2, C).
    - A unary operator has an additional operand, its table, as has a softmax.  Vectors of a softmax
      are not split."""
    layer = offloaded.layer(rows)
    main = offloaded.main
    kind, n = main.kind, int(offloaded.target.attrs["processing_elements"])
    if kind in ("FullyConnected", "PlainFullyConnected"):
        layer = matrix_layer(main.op, main.site, main.name)
        layer = layer if rows is None else layer.stripe("n", rows)
    elif kind in ELEMENTWISE:
        layer = _with_second_operand(offloaded, layer)
    elif kind == "BatchMatmul":
        multipliers = int(offloaded.target.attrs["multipliers"])
        depth = offloaded.parameters["depth"]
        x, other = layer.inputs
        layer = replace(
            layer,
            inputs=(x, replace(other, role=WEIGHTS)),
            cycles_per_point=-(-depth // multipliers),
        )
    elif kind in UNARY:
        layer = _with_table(layer, 1)
    elif kind == "Softmax":
        return _with_table(layer, EXPONENTIAL_BYTES).with_axis("c", least=WHOLE, lanes=n)
    row = flattened(layer) if flat and kind in (*ELEMENTWISE, *UNARY) else None
    if row is not None:
        return row.with_axis(row.axes[0].name, lanes=n)
    layer = layer.with_axis("c", least=n, step=n, lanes=n)
    if kind not in WEIGHTED:
        return layer
    return _weighted(offloaded, layer)


def has_weights(layer: Layer) -> bool:
    """Return whether an operator has weights and biases: whether it is a convolution or a fully
    connected layer.

    layer: the loop nest of the operator, a result of `layer_of_call`."""
    return any(operand.role == PARAMETERS for operand in layer.inputs)


def constant_input(node: Node) -> int | None:
    """Return the index of the constant input of an element-wise node; None if there is none."""
    return next((k for k, value in enumerate(node.inputs) if value.data is not None), None)


def _with_second_operand(offloaded: Offloaded, layer: Layer) -> Layer:
    """Return an element-wise layer whose second operand is in the scratchpad of weights.

    If one input of the operator is a constant, the constant becomes the second operand."""
    constant = constant_input(offloaded.main)
    if constant is None:
        x, other = layer.inputs
        return replace(layer, inputs=(x, replace(other, role=WEIGHTS)))
    channels = layer.output.dimensions[-1]
    count = len(offloaded.composite.nodes)
    second = LayerOperand("constants", WEIGHTS, (Dimension(count), channels))
    return replace(layer, inputs=(replace(layer.inputs[1 - constant], role=INPUT), second))


def _weighted(offloaded: Offloaded, layer: Layer) -> Layer:
    """Return a layer with weights, with the constraints of the engine on its sums and operands."""
    if (groups := offloaded.parameters.get("groups", 1)) > 1:
        layer = _in_groups(offloaded, layer, groups)
    if layer.reduced:
        summed = int(offloaded.target.attrs["multipliers"])
        least = WHOLE if has_ordered_sums(offloaded) else summed
        layer = layer.with_axis("sum", least=least, step=summed, lanes=summed)
    x, w, scale = layer.inputs
    scale = replace(scale, role=PARAMETERS, element_bytes=SCALE_BYTES)
    output = replace(layer.output, partial_bytes=None)
    if offloaded.main.kind in HALVES:
        scale = replace(scale, element_bytes=BIAS_BYTES)
        x, w, output = (replace(one, element_bytes=HALF_BYTES) for one in (x, w, output))
    return replace(layer, inputs=(x, w, scale), output=output)


def _in_groups(offloaded: Offloaded, layer: Layer, groups: int) -> Layer:
    """Return the layer of a convolution with groups of channels: the engine computes the outputs of
    each group, in steps of its processing elements, from the channels of the group."""
    attrs, p = offloaded.target.attrs, offloaded.parameters
    multipliers, n = int(attrs["multipliers"]), int(attrs["processing_elements"])
    per_group, channels = p["out_c"] // groups, p["in_c"] // groups
    taps = p["kernel_h"] * p["kernel_w"]
    layer = layer.with_axis("c", least=per_group, step=per_group, lanes=min(n, per_group))
    return replace(layer, cycles_per_point=taps * -(-channels // multipliers))


def _with_table(layer: Layer, element_bytes: int) -> Layer:
    """Return a layer with a table as a further operand, in the scratchpad of weights."""
    table = LayerOperand("table", WEIGHTS, (Dimension(TABLE_ENTRIES),), element_bytes)
    return replace(layer, inputs=(*layer.inputs, table))
