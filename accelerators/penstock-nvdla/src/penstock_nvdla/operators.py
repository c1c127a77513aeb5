"""operators: translates operators to tasks for NVDLA, and states which of them it cannot compute
exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from penstock.uma import (
    Array,
    Channels,
    DType,
    Node,
    Offloaded,
    Region,
    quantise_multiplier,
    reachable,
)
from penstock_nvdla.configurations import CVSRAM, NvdlaConfiguration, configuration
from penstock_nvdla.packing import pack_weights
from penstock_nvdla.pairs import RowPairs
from penstock_nvdla.pdp import MOST_KERNEL, PoolingMethod, reciprocals, spans
from penstock_nvdla.sdp_constants import (
    Averages,
    Int64s,
    Pass,
    Passes,
    Sums,
    Unproved,
    find_passes,
)
from penstock_nvdla.sdp_functions import ELEMENTS, find_function
from penstock_nvdla.sdp_sums import SumSettings, UnitYSum, find_sum, find_sum_in_y
from penstock_nvdla.task import (
    Task,
    aligned,
    spread_block,
    spread_packs,
    spread_weight_bytes,
)

# The operators whose sums the convolution core computes and SDP requantises.
CONVOLUTIONS = ("Conv2D", "DepthwiseConv2D", "FullyConnected", "Mean")
POOLS = {"MaxPool2D": PoolingMethod.LARGEST, "AveragePool2D": PoolingMethod.AVERAGE}
SUMS = ("Add", "Sub")
ELEMENTWISE = (*SUMS, "Mul")
CLAMPS, SLOPES = ("Relu", "LeakyRelu"), "Prelu"
CONCATENATION, SLICE, PAD = "Concatenation", "Slice", "Pad"
Sides = tuple[SumSettings | UnitYSum, ...]
NO_FUNCTION = "no constants were found that are proved for all elements"
NO_SUM = "no constants were found that are proved for all pairs of elements"
LOWEST, HIGHEST = -128, 127


def reason_against(offloaded: Offloaded) -> str | None:
    """Return why NVDLA's own units cannot compute an operator exactly; None if they can.

    Whether shapes are supported, and parameters fit registers and buffers, is checked elsewhere."""
    kind, p = offloaded.main.kind, offloaded.parameters
    if kind in POOLS:
        return _reason_against_pool(offloaded)
    if computes_elements(offloaded.main):
        return None if function(offloaded) else NO_FUNCTION
    if kind in SUMS:
        return None if summation(offloaded) else NO_SUM
    if kind == CONCATENATION:
        return None
    if kind == SLICE:
        return _reason_against_slice(offloaded)
    if kind == PAD:
        atom = hardware(offloaded).memory_atom_bytes
        return None if spreads(offloaded.main, atom) else "they only fill packs of channels"
    if kind not in CONVOLUTIONS:
        return "they have no exact form of this operator"
    if kind == "DepthwiseConv2D" and p["multiplier_d"] > 1 and p["in_c"] > 1:
        return "depthwise convolutions must have one output per channel"
    found = requantisation(offloaded)
    if isinstance(found, Unproved):
        channels = f"{found.count} of {found.total} channels"
        return f"requantisation is not proved for {channels}: {found.reason}"
    return None


def _reason_against_pool(offloaded: Offloaded) -> str | None:
    """Return why PDP cannot compute a pooling operator exactly; None if it can."""
    p = offloaded.parameters
    if (p["least"], p["most"]) != (LOWEST, HIGHEST):
        return f"pooling does not clamp to [{p['least']}, {p['most']}]"
    if POOLS[offloaded.main.kind] is PoolingMethod.LARGEST:
        return None
    rows, columns = (
        {
            one.window
            for one in spans(
                (0, p[f"out_{d}"]), p[f"kernel_{d}"], p[f"stride_{d}"], pad, p[f"in_{d}"]
            )
        }
        for d, pad in (("h", p["pad_top"]), ("w", p["pad_left"]))
    )
    counts = sorted({height * width for height in rows for width in columns})
    inexact = [count for count in counts if reciprocals(count) is None]
    if not inexact and not _is_large(p):
        return None
    if len(counts) == 1 and isinstance(requantisation(offloaded), Passes):
        return None
    if inexact:
        return f"averages of {inexact[0]} elements are rounded in another way"
    return "the window is too large, and the padding counts less"


def _is_large(p: Mapping[str, int]) -> bool:
    """Whether the window of a pool is larger than those of PDP."""
    return max(p["kernel_h"], p["kernel_w"]) > MOST_KERNEL


def _sums_elements(offloaded: Offloaded) -> bool:
    """Whether the convolution core sums the elements of an average: of a mean, or of a pool without
    padding that PDP cannot compute."""
    if offloaded.main.kind != "AveragePool2D":
        return offloaded.main.kind == "Mean"
    p = offloaded.parameters
    return _is_large(p) or reciprocals(p["kernel_h"] * p["kernel_w"]) is None


def _reason_against_slice(offloaded: Offloaded) -> str | None:
    """Return why PDP cannot compute a slice, as the maxima of windows of one element; None if it
    can."""
    x, y, slices = offloaded.main.inputs[0].type, offloaded.main.output.type, _slices(offloaded)
    if (x.dtype, x.shape[3]) != (DType.INT8, y.shape[3]) or slices[3] != (0, 1):
        return "slices must be of rows and columns of int8 elements"
    if min(step for _, step in slices) < 1:
        return "steps of slices must be positive"
    return None


def spreads(node: Node, atom_bytes: int) -> bool:
    """Return whether a node fills each pixel of an int8 image up to a pack, with zeros."""
    x, y = node.inputs[0].type, node.output.type
    filled = node.kind == PAD and getattr(node.op, "fill", None) == 0
    if not filled or x.dtype is not DType.INT8 or y.rank != 4 or y.shape[0] != 1:
        return False
    is_pack = (*x.shape[:3], atom_bytes) == y.shape
    return is_pack and not any(getattr(node.op, "before", ()))


def _slices(offloaded: Offloaded) -> tuple[tuple[int, int], ...]:
    """The start and the step of a slice along each axis."""
    op = offloaded.main.op
    return tuple(zip(getattr(op, "start", ()), getattr(op, "step", ()), strict=True))


def operator_task(offloaded: Offloaded) -> Task:
    """Return the task that computes an operator, for which `reason_against` must return None."""
    key = "task"
    if key not in offloaded.cache:
        offloaded.cache[key] = _task(offloaded)
    return offloaded.cache[key]


def summation(offloaded: Offloaded) -> Sides:
    """Return constants with which SDP adds or subtracts two tensors exactly as TFLite does: those
    of one pass, or of one for the results from `split` on and one for those below.

    A `SumSettings` is for units X1 and X2, a `UnitYSum` for unit Y.  The result is empty if the
    search finds no exact constants."""
    key = "summation"
    if key not in offloaded.cache:
        offloaded.cache[key] = _proved_sum(offloaded.parameters, hardware(offloaded))
    return offloaded.cache[key]


def split(p: Mapping[str, int]) -> int:
    """Return the result at which the two passes of a sum meet: its zero point, or 0 if all results
    are on one side of that.  p: the parameters of TFLite's arithmetic, by name."""
    return p["out_zero"] if LOWEST < p["out_zero"] < HIGHEST else 0


def constant_operand(node: Node) -> int | None:
    """Return the index of the constant input of a sum, difference, product or PReLU: 0 or 1.

    The result is None if the operator is another one, or if no input is a constant that is a scalar
    or has one value per channel."""
    if node.kind not in (*ELEMENTWISE, SLOPES):
        return None
    channels = node.output.type.shape[-1]
    for k, value in enumerate(node.inputs):
        by_channel = value.type.shape[-1:] == (channels,) and value.type.elements == channels
        if value.data is not None and (value.type.elements == 1 or by_channel):
            return k
    return None


def computes_elements(node: Node) -> bool:
    """Return whether a node computes a function of one element: a clamp, a ReLU with a slope, or a
    sum, difference or product with a constant."""
    return node.kind in CLAMPS or constant_operand(node) is not None


def function(offloaded: Offloaded) -> Passes | None:
    """Return the passes of SDP that compute a function of one element exactly as TFLite does; None
    if the search finds none.  They have one channel if all channels have the same function."""
    key = "function"
    if key not in offloaded.cache:
        node = offloaded.main
        variable = constant_operand(node) == 0
        zeros = node.inputs[variable].type.zero_point, node.output.type.zero_point
        offloaded.cache[key] = find_function(_results(node, int(variable)), *zeros)
    return offloaded.cache[key]


def _results(node: Node, variable: int) -> Int64s:
    """The results of a function of one element, of shape (channels or 1, 256), as the operator
    itself defines them for an image with all elements in each channel.

    variable: the index of the input that is not constant."""
    constants = [value.type.elements for value in node.inputs if value.data is not None]
    shape = (1, 1, len(ELEMENTS), max(constants, default=1))
    types = list(node.site.inputs)
    types[variable] = replace(types[variable], shape=shape)
    output = replace(node.site.output, shape=shape)
    site = replace(node.site, inputs=tuple(types), output=output)
    every = np.broadcast_to(ELEMENTS.astype(np.int8)[:, None], shape)
    inputs = (every if k == variable else site.constant(k) for k in range(len(types)))
    found = node.op.evaluate(site, tuple(inputs), Region.whole(shape))
    return found[0, 0].T.astype(np.int64)


def copies(offloaded: Offloaded) -> tuple[Task, ...]:
    """Return the tasks that write the inputs of a concatenation to their channels of the output."""
    chip, found = hardware(offloaded), list[Task]()
    channel = weight_bytes = 0
    *_, total = offloaded.main.output.type.shape
    for value in offloaded.main.inputs:
        _, h, w, c = value.type.shape
        lead, channel = channel % chip.memory_atom_bytes, channel + c
        moves = lead > 0 or (channel % chip.memory_atom_bytes > 0 and channel < total)
        task = Task(chip, w, h, c, w, h, lead + c, lead=lead, moves=moves)
        if moves:
            task = replace(task, weight_address=weight_bytes)
            weight_bytes += len(_moving_weights(task))
        found.append(task)
    return tuple(found)


def _moving_weights(task: Task) -> bytes:
    """The weights with which an input of a concatenation becomes channels `task.lead` and up."""
    every, found = np.eye(task.out_c, task.in_c, -task.lead, np.int8)[:, None, None], b""
    for begin, end, channels in task.moved_kernels:
        packed = pack_weights(every[begin:end, ..., :channels], task.hardware)
        found += packed + bytes(aligned(len(packed)) - len(packed))
    return found


def _proved_sum(p: Mapping[str, int], chip: NvdlaConfiguration) -> Sides:
    """The result of `summation`."""
    whole = _proved_side(p, chip, 0)
    if whole is not None:
        return (whole,)
    if (p["least"], p["most"]) != (LOWEST, HIGHEST):
        return ()
    above = _proved_side(p, chip, LOWEST - split(p))
    below = _proved_side(p, chip, HIGHEST - split(p)) if above is not None else None
    return () if above is None or below is None else (above, below)


def _proved_side(
    p: Mapping[str, int], chip: NvdlaConfiguration, moved: int
) -> SumSettings | UnitYSum | None:
    # Unit Y processes fewer elements per cycle than X1 and X2, but proves one side more often.
    searches = (find_sum, find_sum_in_y)[: 1 + bool(chip.rates.elementwise)]
    found = (search(p, moved) for search in (searches[::-1] if moved else searches))
    return next((one for one in found if one is not None), None)


def _task(offloaded: Offloaded) -> Task:
    """Compute the result of `operator_task`, which caches it."""
    kind, chip = offloaded.main.kind, hardware(offloaded)
    if computes_elements(offloaded.main):
        return _function_task(offloaded)
    if kind in SUMS:
        _, h, w, c = offloaded.main.output.type.shape
        middle = split(offloaded.parameters)
        total = summation(offloaded)
        return Task(chip, w, h, c, w, h, c, total=total, split=middle)
    if kind == SLICE:
        return _slicing_task(offloaded)
    if kind == PAD:
        _, h, w, atom = offloaded.main.output.type.shape
        channels = offloaded.main.inputs[0].type.shape[3]
        stored = -(-w * channels // atom)
        return Task(chip, stored, h, atom, w, h, atom, spreads=channels)
    is_average = kind == "AveragePool2D" and _sums_elements(offloaded)
    task = _sized(chip, _sizes(offloaded))
    gathered = task.reach_h * task.in_row_bytes if task.reach_h > 1 else 0
    task = replace(task, gathered_bytes=gathered)
    if kind in POOLS and not is_average:
        return replace(task, method=POOLS[kind])
    found = requantisation(offloaded)
    assert isinstance(found, Passes)
    settings = tuple(one.settings for one in found.passes)
    by_pack = _is_by_pack(offloaded)
    task = replace(task, passes=settings, by_pack=by_pack, alike=is_average and by_pack)
    return task.with_pairs()


def _sizes(offloaded: Offloaded) -> Mapping[str, int]:
    """The parameters of an operator that PDP or the convolution core computes, as the hardware runs
    it."""
    p, kind = dict(offloaded.parameters), offloaded.main.kind
    if kind == "FullyConnected":
        p |= {"in_h": 1, "in_w": 1, "out_h": 1, "out_w": 1}
    if kind == "Mean":
        _, h, w, c = offloaded.main.inputs[0].type.shape
        p |= {"in_h": h, "in_w": w, "in_c": c, "out_h": 1, "out_w": 1, "out_c": c}
        p |= {"kernel_h": h, "kernel_w": w}
    if kind in ("Conv2D", "DepthwiseConv2D"):
        for axis, pad in (("h", "pad_top"), ("w", "pad_left")):
            before, behind = _added_taps(offloaded.parameters, axis)
            p[pad] = p.get(pad, 0) + before
            p[f"kernel_{axis}"] += before + behind
    if kind == "AveragePool2D" and _sums_elements(
        offloaded
    ):  # strides that the core does not have, if there is a single output
        p |= {f"stride_{d}": 1 for d in ("h", "w") if p[f"out_{d}"] == 1}
    return p


def _sized(chip: NvdlaConfiguration, p: Mapping[str, int]) -> Task:
    """The task of an operator with the sizes `p`; sizes of windows, strides and dilations that are
    missing are 1, padding and a zero point 0."""
    return Task(
        chip,
        in_w=p["in_w"],
        in_h=p["in_h"],
        in_c=p["in_c"],
        out_w=p["out_w"],
        out_h=p["out_h"],
        out_c=p["out_c"],
        kernel_w=p.get("kernel_w", 1),
        kernel_h=p.get("kernel_h", 1),
        stride_w=p.get("stride_w", 1),
        stride_h=p.get("stride_h", 1),
        dilation_w=p.get("dilation_w", 1),
        dilation_h=p.get("dilation_h", 1),
        pad_left=p.get("pad_left", 0),
        pad_top=p.get("pad_top", 0),
        in_zero=p.get("in_zero", 0),
    )


def _function_task(offloaded: Offloaded) -> Task:
    found = function(offloaded)
    assert found is not None
    _, h, w, c = offloaded.main.output.type.shape
    every = [one.operands for one in found.passes]
    shared = tuple(tuple(map(int, one[0])) for one in every if len(one) == 1)
    return Task(
        hardware(offloaded),
        *(w, h, c, w, h, c),
        function=tuple(one.settings for one in found.passes),
        shared=shared,
    )


def _slicing_task(offloaded: Offloaded) -> Task:
    """The task of a slice of rows and columns: negative padding skips those before it."""
    (_, in_h, in_w, c), (_, h, w, _) = (
        value.type.shape for value in (offloaded.main.inputs[0], offloaded.main.output)
    )
    _, (top, stride_h), (left, stride_w), _ = _slices(offloaded)
    return Task(
        hardware(offloaded),
        *(in_w, in_h, c, w, h, c),
        stride_w=stride_w,
        stride_h=stride_h,
        pad_left=-left,
        pad_top=-top,
        method=PoolingMethod.LARGEST,
    )


def hardware(offloaded: Offloaded) -> NvdlaConfiguration:
    """Return the hardware configuration that the user selected."""
    memory = offloaded.target.memories.get(CVSRAM)
    chip = configuration(str(offloaded.target.attrs["config"]))
    return replace(chip, sram_bank_bytes=memory.bank_bytes if memory else 0)


def _is_by_pack(offloaded: Offloaded) -> bool:
    """Whether an operator runs as one convolution per pack: it computes each channel
    separately, and has several channels."""
    depthwise = offloaded.main.kind == "DepthwiseConv2D" or _sums_elements(offloaded)
    return depthwise and offloaded.main.inputs[0].type.shape[-1] > 1


def requantisation(offloaded: Offloaded) -> Passes | Unproved:
    """Return the passes of SDP that requantise the sums of an operator, or why there are none."""
    key = "passes"
    if key not in offloaded.cache:
        in_y = hardware(offloaded).rates.elementwise > 0
        offloaded.cache[key] = find_passes(_sums(offloaded), in_y=in_y)
    return offloaded.cache[key]


def _sums(offloaded: Offloaded) -> Sums:
    x, y, p = offloaded.main.inputs[0].type, offloaded.main.output.type, offloaded.parameters
    weights, bias = _weights_and_bias(offloaded)
    if offloaded.main.kind == "AveragePool2D":
        return _sums_of_average(x.dtype, weights)
    matrix = weights.reshape(len(weights), -1).astype(np.int64)
    least, upper = x.dtype.lower - x.zero_point, x.dtype.upper - x.zero_point
    lower, above = reachable(matrix, bias, least, upper)
    scales = p if offloaded.main.kind == "Mean" else offloaded.tables
    multiplier, shift = (
        np.broadcast_to(np.asarray(scales[name], np.int64), bias.shape)
        for name in ("multiplier", "shift")
    )
    bounds = (p.get("least", LOWEST), p.get("most", HIGHEST))
    channels = Channels(multiplier, shift, lower, above, y.zero_point, *bounds)
    return Sums(channels, bias - x.zero_point * matrix.sum(axis=1))


def _sums_of_average(dtype: DType, weights: Array) -> Sums:
    """The requantisation of a pool's averages, for weights that are 1."""
    channels, count = len(weights), weights[0].size
    multiplier, shift = quantise_multiplier(1 / count)
    averages = Averages(
        *(np.full(channels, number) for number in (multiplier, shift)),
        *(np.full(channels, number) for number in (dtype.lower * count, dtype.upper * count)),
        zero=0,
        least=LOWEST,
        most=HIGHEST,
        count=count,
    )
    return Sums(averages, np.zeros(channels, np.int64))


def _weights_and_bias(offloaded: Offloaded) -> tuple[Array, Int64s]:
    # The weights have shape (output channels, rows, columns, input channels).  A kernel of a
    # depthwise convolution has one input channel.
    if _sums_elements(offloaded):
        _, h, w, c = offloaded.main.inputs[0].type.shape
        p = offloaded.parameters
        window = (p["kernel_h"], p["kernel_w"]) if offloaded.main.kind != "Mean" else (h, w)
        return np.ones((c, *window, 1), np.int8), np.zeros(c, np.int64)
    weights, bias = offloaded.constant(1), offloaded.constant(2).astype(np.int64)
    if offloaded.main.kind == "FullyConnected":
        return weights.reshape(len(weights), 1, 1, -1), bias
    if offloaded.main.kind == "DepthwiseConv2D":
        weights = weights.transpose(3, 1, 2, 0)
    added = (_added_taps(offloaded.parameters, axis) for axis in ("h", "w"))
    return np.pad(weights, ((0, 0), *added, (0, 0))), bias


def _added_taps(p: Mapping[str, int], axis: str) -> tuple[int, int]:
    """How many taps with weights 0 precede and follow the kernel along the axis "h" or "w", because
    the hardware has less padding than the kernel reaches over."""
    reach = (p[f"kernel_{axis}"] - 1) * p.get(f"dilation_{axis}", 1) + 1
    before = p.get("pad_top" if axis == "h" else "pad_left", 0)
    outputs, inputs = p[f"out_{axis}"] - 1, p[f"in_{axis}"]
    behind = outputs * p.get(f"stride_{axis}", 1) + reach - before - inputs
    if p.get(f"dilation_{axis}", 1) > 1:
        return 0, 0
    return max(0, behind - reach + 1), max(0, before - reach + 1)


def scratch_bytes(offloaded: Offloaded) -> int:
    """Return the size in bytes of the scratch memory that an operator needs."""
    if offloaded.main.kind == CONCATENATION:
        return max(task.scratch_bytes for task in copies(offloaded))
    return operator_task(offloaded).scratch_bytes


def tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """Return the constant arrays that the hardware reads for an operator, by name.

    The result is empty if the task of the operator has no passes."""
    # "weights": the int8 weights, in the order in which the hardware reads them; those of a
    #   concatenation move channels within packs.
    # "post": the int16 operands of SDP, one pass after the other.  A pass has operands for unit X1,
    #   then for units X2 and Y.  Those of a unit are pairs (addend, factor), one for each output
    #   channel; the number of channels is rounded up to whole packs.
    if offloaded.main.kind == CONCATENATION:
        packed = b"".join(_moving_weights(task) for task in copies(offloaded) if task.moves)
        return {"weights": np.frombuffer(packed, np.int8)} if packed else {}
    task = operator_task(offloaded)
    if task.spreads:
        return {"weights": _spreading_weights(task)}
    if not task.tables:
        return {}
    found = function(offloaded) if task.function else requantisation(offloaded)
    assert isinstance(found, Passes)
    posts = [_unit_operands(one, task.padded_channels) for one in found.passes]
    if task.pairs and task.pairs.outputs > 1:
        packs = posts[0].reshape(-1, 2 * task.hardware.memory_atom_bytes)
        posts.append(packs.repeat(task.pairs.outputs, axis=0).ravel())
    post = np.concatenate(posts)
    if task.function:
        return {"post": post}
    weights, _ = _weights_and_bias(offloaded)
    if task.by_pack:
        packs = tuple(task.packs())
        if task.alike:
            packs = tuple(dict.fromkeys((0, count) for _, count in packs))
        chosen = [weights[first : first + count] for first, count in packs]
        packed = b"".join(_diagonal(some, task) for some in chosen)
        if task.pairs:
            packed += b"".join(_paired(some, task, task.pairs) for some in chosen)
    else:
        packed = pack_weights(weights, task.hardware)
    return {"weights": np.frombuffer(packed, np.int8), "post": post}


def _spreading_weights(task: Task) -> Array:
    """The weights that select the channels of each pixel of a block from the packs that contain
    them."""
    atom, each = task.hardware.memory_atom_bytes, np.arange(task.spreads)
    found = np.zeros((spread_block(task)[0], spread_weight_bytes(task)), np.int8)
    for pixel, (first, count) in enumerate(spread_packs(task)):
        kernels = np.zeros((task.spreads, 1, count, atom), np.int8)
        places = pixel * task.spreads + each - first * atom
        kernels[each, 0, places // atom, places % atom] = 1
        packed = np.frombuffer(pack_weights(kernels, task.hardware), np.int8)
        found[pixel, : len(packed)] = packed
    return found.ravel()


def _diagonal(weights: Array, task: Task) -> bytes:
    """The weights of an ordinary convolution that computes some channels of a depthwise
    convolution, in the hardware's memory order (`pack_weights`).  Kernel c has the weights of
    channel c in input channel c, and zeros in all other input channels."""
    count = len(weights)
    kernels = np.zeros((*weights.shape[:3], count), np.int8)
    each = np.arange(count)
    kernels[each, :, :, each] = weights[..., 0]
    packed = pack_weights(kernels, task.hardware)
    return packed + bytes(aligned(len(packed)) - len(packed))


def _paired(weights: Array, task: Task, pairs: RowPairs) -> bytes:
    """The weights of some channels for pairs of rows."""
    kernels = pairs.weights(weights[..., 0], task.hardware.memory_atom_bytes)
    packed = pack_weights(kernels, task.hardware)
    return packed + bytes(aligned(len(packed)) - len(packed))


def _unit_operands(single: Pass, channels: int) -> Array:
    """The operands of a pass as the hardware reads them: a flat int16 array with addend and
    factor of each channel, for unit X1, then for X2, and then for Y if it is used."""
    padded = np.zeros((channels, single.operands.shape[1]), np.int16)
    padded[: len(single.operands)] = single.operands
    return padded.reshape(channels, -1, 2).transpose(1, 0, 2).ravel()
