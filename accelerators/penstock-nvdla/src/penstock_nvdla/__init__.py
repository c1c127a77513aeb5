"""nvdla: NVDLA's convolution core, with an extension for quantised networks.

Convolutions and fully connected layers run on NVDLA's convolution core in one of its public
configurations.  The extension, which penstock defines, adds requantisation as in TFLite, sums and
products of two tensors, pooling with TFLite's rounding, and depthwise convolutions (`extension.py`,
docs/nvdla.md).

The target has four attributes:

    config          small, small_256 or large
    extension       True or False; without the extension, NVDLA's own units run convolutions,
                    fully connected layers, means, pooling and sums, where they are proved to be
                    exact (`unextended_kernels.py`)
    feature_buffer  size of the extension's on-chip memory for tensors, such as 64KiB; 0 for none;
                    "own" for the configuration's default (`configurations.FEATURE_BANKS`)
    cvsram          without the extension: size of the memory at the second port that `large` has,
                    such as 1MiB; 0 for none; "own" for 512 KiB
    banked          True or False: whether a layer must not read and write the same bank of the
                    feature buffer; tensors in use at the same time then have banks of their own

A kernel call is a stream of register writes in NVDLA's register layout (`programs.py`), which a
functional model executes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from penstock.uma import (
    FUSED,
    AcceleratorTarget,
    Composite,
    DType,
    Graph,
    Node,
    Offloaded,
    OpStrategy,
    PassPhase,
    PenstockError,
    UMABackend,
    UsageError,
    double_rounding,
    is_constant,
    is_op,
    one_group,
    packed,
    parse_size,
    processor_cycles,
    wildcard,
)
from penstock_nvdla import fused, kernels
from penstock_nvdla.configurations import (
    CVSRAM,
    CVSRAM_BYTES,
    FEATURE_BANKS,
    FEATURE_BUFFER,
    configuration,
)
from penstock_nvdla.cut import LATE_CYCLES
from penstock_nvdla.dataflow import cycles, traffic
from penstock_nvdla.kernels import factors
from penstock_nvdla.programs import SUBMIT, WAIT, encode, placed_cycles
from penstock_nvdla.unextended_kernels import (
    ELEMENTWISE,
    NOT_EXTENDED,
    SLICE,
    constant_operand,
    own_layer_of_sums,
    plain_scratch_bytes,
    reason_against,
    spreads,
)


class Nvdla(UMABackend):
    """Backend of NVDLA: convolutions, fully connected layers, pooling, means, clamps, sums,
    differences, products and concatenations."""

    def __init__(self) -> None:
        super().__init__(merge_compiler_regions=False)  # its driver expects one task per stream
        self._register_target_attr("config", default="small")
        self._register_target_attr("extension", default=True)
        self._register_target_attr(FEATURE_BUFFER, default="own")
        self._register_target_attr(CVSRAM, default="own")
        self._register_target_attr("banked", default=False)
        self._register_memory(
            FEATURE_BUFFER,
            feature_bytes,
            bandwidth_bytes_per_cycle=feature_bandwidth,
            holds=("arena",),
            bank_bytes=bank_bytes,
        )
        self._register_memory(
            CVSRAM,
            cvsram_bytes,
            bandwidth_bytes_per_cycle=feature_bandwidth,
            holds=("arena",),
        )
        for op in kernels.SUMMED:
            weighted = is_op(op)(wildcard(), is_constant(), is_constant())
            self._register_pattern(f"{op}+add", is_op("add")(weighted, wildcard()))
            self._register_pattern(f"add+{op}", is_op("add")(wildcard(), weighted))
        for op in kernels.WEIGHTED:
            self._register_pattern(op, is_op(op)(wildcard(), is_constant(), is_constant()))
        for kind in ("max", "avg"):
            self._register_pattern(f"{kind}_pool2d", is_op(f"nn.{kind}_pool2d")(wildcard()))
        self._register_pattern("clip", is_op("clip")(wildcard()))
        self._register_pattern("leaky_relu", is_op("nn.leaky_relu")(wildcard()))
        self._register_pattern("prelu", is_op("nn.prelu")(wildcard(), is_constant()))
        self._register_pattern("concatenate", is_op("concatenate"))
        self._register_pattern("strided_slice", is_op("strided_slice")(wildcard()))
        scaled = is_op("multiply")(wildcard(), is_constant())
        self._register_pattern("multiply+add", is_op("add")(scaled, is_constant()))
        over_an_image = is_op("mean")(wildcard()).has_attr({"axes": (1, 2)})
        self._register_pattern("mean", over_an_image)
        for op in ("add", "subtract", "multiply"):
            self._register_pattern(op, is_op(op)(wildcard(), wildcard()))
        for rule in (one_image, one_group, dense_pools, double_rounding, equal_shapes,
                     fused_sums, whole_packs, same_types, exact_units, fits_the_core):  # fmt: skip
            self._register_constraint(rule)
        self._register_graph_pass(PassPhase.POST_PARTITIONING_0, with_packed_features)
        for op in kernels.OPERATORS:
            self._register_operator_strategy(op, strategy_of(op))
        self._register_operator_strategy(FUSED, fused_strategy)
        self._register_codegen(
            fmt="stream", encoder=encode, submit=SUBMIT, includes='#include "nvdla.h"',
            sources=("nvdla.h", "nvdla.c"),
        )  # fmt: skip
        self._register_wait(WAIT)

    @property
    def target_name(self) -> str:
        """The name of the accelerator, "nvdla"."""
        return "nvdla"


def feature_bytes(attrs: Mapping[str, object]) -> int:
    """Return the size in bytes of the feature buffer, the extension's on-chip memory for tensors; 0
    if the attributes select NVDLA without penstock's extension.

    attrs: the attributes of the target, by name.

    Raises UsageError if the attributes are invalid."""
    wanted = str(attrs[FEATURE_BUFFER])
    if wanted != "own":
        try:
            size_bytes = parse_size(wanted)
        except UsageError as error:
            raise error.at(f"--accelerator nvdla:{FEATURE_BUFFER}={wanted}") from None
        if size_bytes and not attrs["extension"]:
            raise UsageError(
                "usage-102",
                f"feature buffer of {size_bytes} bytes without the extension, must be 0",
                where=f"--accelerator nvdla:extension=False,{FEATURE_BUFFER}={wanted}",
                why="the feature buffer belongs to the extension that penstock assumes",
                help=f"leave out extension=False or {FEATURE_BUFFER}",
            )
        return size_bytes
    if not attrs["extension"]:
        return 0
    banks, bank_bytes = FEATURE_BANKS[configuration(str(attrs["config"])).name]
    return banks * bank_bytes


def cvsram_bytes(attrs: Mapping[str, object]) -> int:
    """Return the size in bytes of the memory at NVDLA's second port; 0 if there is none, or if the
    attributes select penstock's extension, which has its feature buffer there.

    attrs: the attributes of the target, by name.

    Raises UsageError if the attributes are invalid."""
    wanted, chip = str(attrs[CVSRAM]), configuration(str(attrs["config"]))
    exists = chip.sram is not None and not attrs["extension"]
    if wanted == "own":
        return CVSRAM_BYTES if exists else 0
    try:
        size_bytes = parse_size(wanted)
    except UsageError as error:
        raise error.at(f"--accelerator nvdla:{CVSRAM}={wanted}") from None
    if size_bytes and not exists:
        raise UsageError(
            "usage-245",
            f"memory of {size_bytes} bytes at a second port, which this NVDLA does not have",
            where=f"--accelerator nvdla:{CVSRAM}={wanted}",
            why="of NVDLA's configurations, large has a second port; penstock's extension uses it "
            "for its feature buffer",
            help=f"use config=large,extension=False, or leave out {CVSRAM}",
        )
    return size_bytes


def bank_bytes(attrs: Mapping[str, object]) -> int:
    """Return the size in bytes of a bank of the feature buffer; 0 if layers may read and write the
    same bank, or if there is no feature buffer.

    attrs: the attributes of the target, by name.

    Raises UsageError if the attributes are invalid."""
    if not attrs["banked"] or not feature_bytes(attrs):
        return 0
    return FEATURE_BANKS[configuration(str(attrs["config"])).name][1]


def feature_bandwidth(attrs: Mapping[str, object]) -> float:
    """Return the bandwidth in bytes per cycle of the second memory port.

    attrs: the attributes of the target, by name.

    Raises UsageError if the attribute `config` names no configuration."""
    chip = configuration(str(attrs["config"]))
    return (chip.extended(0, 0) if attrs["extension"] else chip).buffer_port.bytes_per_cycle


def with_packed_features(graph: Graph, target: AcceleratorTarget) -> Graph:
    """Return the graph in which the int8 inputs and outputs of NVDLA's composites are stored in
    packs of channels, the layout of the hardware.  The CPU packs those inputs that other engines
    produce, and unpacks those outputs that other engines read.  Without the extension, `large`
    itself fills the packs of images with few channels, where this takes fewer cycles."""
    chip = configuration(str(target.attrs["config"]))
    atom = chip.memory_atom_bytes
    if target.attrs["extension"] or chip.memory.latency_cycles < LATE_CYCLES:
        return packed(graph, target.name, atom)

    def fastest(ways: Sequence[Sequence[Node]]) -> Sequence[Node]:
        own = (_on_own_units(way, target, atom) for way in ways)
        return min((ways[0], *own), key=partial(_cycles_of_all, target=target))

    return packed(graph, target.name, atom, choose=fastest)


def _on_own_units(way: Sequence[Node], target: AcceleratorTarget, atom: int) -> Sequence[Node]:
    """The nodes, with those as composites that fill packs or then drop columns."""
    kinds = {node.name: "pad" for node in way if spreads(node, atom)}
    cropped = (node for node in way if node.kind == SLICE and node.inputs[0].name in kinds)
    kinds |= {node.name: "strided_slice" for node in cropped}
    return [
        replace(node, op=Composite(kind, target.name, (node,), (node.inputs[0].name,)))
        if (kind := kinds.get(node.name))
        else node
        for node in way
    ]


def _cycles_of_all(nodes: Sequence[Node], target: AcceleratorTarget) -> float:
    """The cycles of whole outputs, on NVDLA or on the processor."""
    return sum(
        cycles(Offloaded(node, target), node.output.type.shape[1]).cycles
        if isinstance(node.op, Composite)
        else processor_cycles(node, target.chip)
        for node in nodes
        if not node.op.ALIAS
    )


def exact_units(offloaded: Offloaded) -> bool | str:
    """Without penstock's extension, NVDLA's own units must be proved to compute the operator
    exactly. With it, slices and ReLUs with a slope run on the processor.

    Return True, or the reason why `offloaded` violates this rule."""
    if kernels.is_extended(offloaded) and offloaded.main.kind in NOT_EXTENDED:
        return f"it is {offloaded.main.kind}"
    if kernels.is_extended(offloaded) or offloaded.composite.name == FUSED:
        return True
    return reason_against(offloaded) or True


def one_image(offloaded: Offloaded) -> bool | str:
    """Tensors must have shape (1, H, W, C), or (1, C) or (1, 1, 1, C) in fully connected layers.

    Return True, or the reason why `offloaded` violates this rule."""
    is_dense = offloaded.main.kind == "FullyConnected"
    shapes = [v.type.shape for v in (*offloaded.main.variable_inputs, offloaded.main.output)]
    odd = [
        shape
        for shape in shapes
        if len(shape) not in ((2, 4) if is_dense else (4,))
        or (math.prod(shape[:-1]) if is_dense else shape[0]) != 1
    ]
    return not odd or f"one has shape {list(odd[0])}"


def dense_pools(offloaded: Offloaded) -> bool | str:
    """Pooling must have no dilation.

    Return True, or the reason why `offloaded` violates this rule."""
    p = offloaded.parameters
    dilations = p.get("dilation_h", 1), p.get("dilation_w", 1)
    is_pool = offloaded.main.kind in kernels.POOLS
    return not is_pool or dilations == (1, 1) or f"it is {dilations[0]} x {dilations[1]}"


def equal_shapes(offloaded: Offloaded) -> bool | str:
    """Both inputs of a sum, difference or product must have the shape of the output, or one is a
    constant that is a scalar or has one value per channel. With penstock's extension, a constant
    factor must be in [-127, 127] after subtraction of its zero point, and a tensor must not be
    subtracted from a constant.

    Return True, or the reason why `offloaded` violates this rule."""
    main = offloaded.main
    if main.kind not in ELEMENTWISE:
        return True
    constant, extended = constant_operand(main), kernels.is_extended(offloaded)
    if extended and constant == 0 and main.kind == "Sub":
        return "a tensor is subtracted from a constant"
    if extended and constant is not None and main.kind == "Mul":
        largest = int(np.abs(factors(main, constant)).max())
        if largest > 127:
            return f"a factor is {largest} without its zero point"
    for k, value in enumerate(main.inputs):
        if k == constant:
            continue
        if value.data is not None:
            return f"input {k} is constant"
        if value.type.shape != offloaded.main.output.type.shape:
            return f"input {k} has shape {list(value.type.shape)}"
    return True


def fused_sums(offloaded: Offloaded) -> bool | str:
    """A sum that is fused with a convolution must add a tensor that is not constant and not the
    result of the same convolution.  This tensor and the result of the convolution must have the
    shape of the output, and results must be rounded twice.  There must be a feature buffer:
    without one, a convolution and a sum that run as separate layers need less memory.  A sum that
    is fused with a product must add a constant that is a scalar or has one value per channel.

    Return True, or the reason why `offloaded` violates this rule."""
    addend = kernels.fused_addend(offloaded)
    if addend is None:
        return True
    if not kernels.is_extended(offloaded):
        return own_layer_of_sums(addend.node, kernels.hardware(offloaded))
    if dict(addend.node.op.kernel(addend.node.site).params).get("single_rounding", 0):
        return "the model requires single rounding"
    if offloaded.main.kind == "Mul":
        same = constant_operand(addend.node) == addend.index
        return same or f"the second operand has shape {list(addend.value.type.shape)}"
    if not feature_bytes(offloaded.target.attrs):
        return "there is no feature buffer"
    value, shape = addend.value, offloaded.output.shape
    if value.data is not None or offloaded.source_index(value) is None:
        return "the second operand is constant, or the result of the convolution"
    shapes = (value.type.shape, offloaded.main.output.type.shape)
    return shapes == (shape, shape) or f"the operands have shapes {list(map(list, shapes))}"


def whole_packs(offloaded: Offloaded) -> bool | str:
    """Concatenations must be along channels. With penstock's extension, all inputs but the last
    must consist of whole packs.

    A pack is a group of channels that memory stores together: 8, or 32 in the configuration large.
    Return True, or the reason why `offloaded` violates this rule."""
    if offloaded.main.kind != "Concatenation":
        return True
    channels = [value.type.shape[3] for value in offloaded.main.inputs]
    if sum(channels) != offloaded.main.output.type.shape[3]:
        return f"the axis is {getattr(offloaded.main.op, 'axis', None)}"
    if not kernels.is_extended(offloaded):
        return True
    atom = kernels.hardware(offloaded).memory_atom_bytes
    odd = [(k, count) for k, count in enumerate(channels[:-1]) if count % atom]
    return not odd or f"input {odd[0][0]} has {odd[0][1]} channels, and a pack has {atom}"


def same_types(offloaded: Offloaded) -> bool | str:
    """The inputs of a concatenation must be int8 tensors that are not constant and have the scale
    and zero point of the result.

    Return True, or the reason why `offloaded` violates this rule."""
    if offloaded.main.kind != "Concatenation":
        return True
    y = offloaded.main.output.type
    for k, value in enumerate(offloaded.main.inputs):
        if value.data is not None:
            return f"input {k} is constant"
        if (value.type.dtype, value.type.quantisation) != (DType.INT8, y.quantisation):
            return f"input {k} has type {value.type}, the result {y}"
    return True


def fits_the_core(offloaded: Offloaded) -> bool | str:
    """The input rows of one window and the weights of one group of kernels must fit into the
    convolution buffer, and every parameter must fit its register.

    Return True, or the reason why `offloaded` violates this rule."""
    if offloaded.composite.name == FUSED:
        return fused.chosen_plan(offloaded) is not None or "no tile fits the feature buffer"
    try:
        for one in kernels.tasks(offloaded):
            t = one.task
            t.layers(0, t.out_h, t.in_row_bytes, t.out_row_bytes, t.out_row_bytes)
    except PenstockError as error:
        return f"{error.what}: {error.why}"
    return True


def strategy_of(op: str) -> Any:
    """Return a function that creates the `OpStrategy` of an operator: its kernel with cost, traffic
    and constant tables.

    op: the name of the operator, such as "nn.conv2d"."""

    def strategy(attrs: Any, inputs: Any, out_type: Any, target: AcceleratorTarget) -> OpStrategy:
        del out_type
        atom = configuration(str(target.attrs["config"])).memory_atom_bytes
        found, weighted = OpStrategy(), op in kernels.WEIGHTED
        reach = attrs["rows"].extent if "rows" in attrs else 1
        gathered = kernels.gathered_bytes(reach, inputs[0])
        scratch = gathered if target.attrs["extension"] else plain_scratch_bytes
        found.add_implementation(
            kernels.compute,
            name="nvdla",
            cost=cycles,
            traffic=traffic,
            tables=kernels.tables if op in kernels.TABLED else None,
            by_rows=op != "mean",  # the output row of a mean reads all input rows
            scratch_bytes=scratch,
            folded=(1, 2) if weighted else (),
            alignment_bytes=atom,
            placed_cost=placed_cycles,
            even_rows=True,
        )
        return found

    return strategy


def fused_strategy(
    attrs: object, inputs: object, out_type: object, target: AcceleratorTarget
) -> OpStrategy:
    """Return the `OpStrategy` of a group of layers that runs tile by tile."""
    del attrs, inputs, out_type
    found = OpStrategy()
    found.add_implementation(
        fused.compute,
        name="nvdla_tiles",
        cost=fused.cycles,
        traffic=fused.traffic,
        tables=fused.tables,
        by_columns=True,
        scratch_bytes=fused.workspace_bytes,
        scratch_memory=fused.second_memory(target),
        alignment_bytes=configuration(str(target.attrs["config"])).memory_atom_bytes,
        placed_cost=fused.placed_cycles,
    )
    return found
