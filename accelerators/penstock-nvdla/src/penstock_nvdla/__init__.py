"""nvdla: NVDLA, NVIDIA's open accelerator, in its published configurations.

Its own units run the operators that they are proved to compute exactly (`operators.py`,
docs/nvdla.md).

The target has three attributes:

    config  small, small_256 or large
    cvsram  size of the memory at the second port that `large` has, such as 1MiB; 0 for none; "own"
            for 512 KiB
    banked  True or False: whether a layer must not read and write the same bank of that memory;
            tensors in use at the same time then have banks of their own

A kernel call is a stream of register writes in NVDLA's register layout (`programs.py`), which a
functional model executes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

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
    folded_columns,
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
    CVSRAM_BANK_BYTES,
    CVSRAM_BYTES,
    configuration,
)
from penstock_nvdla.cut import LATE_CYCLES
from penstock_nvdla.dataflow import cycles, traffic
from penstock_nvdla.operators import (
    CONCATENATION,
    ELEMENTWISE,
    POOLS,
    constant_operand,
    reason_against,
    scratch_bytes,
    spreads,
    tables,
)
from penstock_nvdla.programs import SUBMIT, WAIT, encode, placed_cycles
from penstock_nvdla.stream import to_bytes


class Nvdla(UMABackend):
    """Backend of NVDLA: convolutions, fully connected layers, pooling, means, clamps, sums,
    differences, products and concatenations."""

    def __init__(self) -> None:
        super().__init__(merge_compiler_regions=False)  # its driver expects one task per stream
        self._register_target_attr("config", default="small")
        self._register_target_attr(CVSRAM, default="own")
        self._register_target_attr("banked", default=False)
        self._register_memory(
            CVSRAM,
            cvsram_bytes,
            bandwidth_bytes_per_cycle=cvsram_bandwidth,
            holds=("arena",),
            bank_bytes=bank_bytes,
        )
        for op in kernels.WEIGHTED:
            self._register_pattern(op, is_op(op)(wildcard(), is_constant(), is_constant()))
        for kind in ("max", "avg"):
            self._register_pattern(f"{kind}_pool2d", is_op(f"nn.{kind}_pool2d")(wildcard()))
        self._register_pattern("clip", is_op("clip")(wildcard()))
        self._register_pattern("leaky_relu", is_op("nn.leaky_relu")(wildcard()))
        self._register_pattern("prelu", is_op("nn.prelu")(wildcard(), is_constant()))
        self._register_pattern("concatenate", is_op("concatenate"))
        self._register_pattern("strided_slice", is_op("strided_slice")(wildcard()))
        over_an_image = is_op("mean")(wildcard()).has_attr({"axes": (1, 2)})
        self._register_pattern("mean", over_an_image)
        for op in ("add", "subtract", "multiply"):
            self._register_pattern(op, is_op(op)(wildcard(), wildcard()))
        for rule in (one_image, one_group, dense_pools, double_rounding, equal_shapes,
                     along_channels, same_types, exact_units, own_banks, fits_core):  # fmt: skip
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


def cvsram_bytes(attrs: Mapping[str, object]) -> int:
    """Return the size in bytes of the memory at NVDLA's second port; 0 if there is none.

    attrs: the attributes of the target, by name.

    Raises UsageError if the attributes are invalid."""
    wanted, chip = str(attrs[CVSRAM]), configuration(str(attrs["config"]))
    if wanted == "own":
        return CVSRAM_BYTES if chip.sram else 0
    try:
        size_bytes = parse_size(wanted)
    except UsageError as error:
        raise error.at(f"--accelerator nvdla:{CVSRAM}={wanted}") from None
    if size_bytes and chip.sram is None:
        raise UsageError(
            "usage-245",
            f"memory of {size_bytes} bytes at a second port, which this NVDLA does not have",
            where=f"--accelerator nvdla:{CVSRAM}={wanted}",
            why="of NVDLA's configurations, large has a second port",
            help=f"use config=large, or leave out {CVSRAM}",
        )
    return size_bytes


def bank_bytes(attrs: Mapping[str, object]) -> int:
    """Return the size in bytes of a bank of the memory at the second port; 0 if layers may read and
    write the same bank.

    attrs: the attributes of the target, by name."""
    return CVSRAM_BANK_BYTES if attrs["banked"] else 0


def cvsram_bandwidth(attrs: Mapping[str, object]) -> float:
    """Return the bandwidth in bytes per cycle of the second memory port.

    attrs: the attributes of the target, by name.

    Raises UsageError if the attribute `config` names no configuration."""
    return configuration(str(attrs["config"])).second_port.bytes_per_cycle


def with_packed_features(graph: Graph, target: AcceleratorTarget) -> Graph:
    """Return the graph in which the int8 inputs and outputs of NVDLA's composites are stored in
    packs of channels, the layout of the hardware.  The CPU packs those inputs that other engines
    produce, and unpacks those outputs that other engines read.  `large` itself fills the packs of
    images with few channels, where this takes fewer cycles; columns that a convolution strides over
    are folded into channels before."""
    chip = configuration(str(target.attrs["config"]))
    atom = chip.memory_atom_bytes
    if chip.memory.latency_cycles < LATE_CYCLES:
        return packed(graph, target.name, atom)

    def fastest(nodes: Sequence[Node]) -> Sequence[Node]:
        own = [
            replace(node, op=Composite("pad", target.name, (node,), (node.inputs[0].name,)))
            if spreads(node, atom)
            else node
            for node in nodes
        ]
        return min((nodes, own), key=partial(_cycles_of_all, target=target))

    return packed(folded_columns(graph, target.name, atom), target.name, atom, choose=fastest)


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
    """NVDLA's units must be proved to compute the operator exactly.

    Return True, or the reason why `offloaded` violates this rule."""
    return offloaded.composite.name == FUSED or reason_against(offloaded) or True


def own_banks(offloaded: Offloaded) -> bool | str:
    """A layer must not add to its output if it must not read and write the same bank.

    Return True, or the reason why `offloaded` violates this rule."""
    if offloaded.composite.name == FUSED or not offloaded.target.attrs["banked"]:
        return True
    adds = any(one.task.adds for one in kernels.tasks(offloaded))
    return not adds or "a layer reads and writes the output"


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
    is_pool = offloaded.main.kind in POOLS
    return not is_pool or dilations == (1, 1) or f"it is {dilations[0]} x {dilations[1]}"


def equal_shapes(offloaded: Offloaded) -> bool | str:
    """Both inputs of a sum, difference or product must have the shape of the output, or one is a
    constant that is a scalar or has one value per channel.

    Return True, or the reason why `offloaded` violates this rule."""
    main = offloaded.main
    if main.kind not in ELEMENTWISE:
        return True
    for k, value in enumerate(main.inputs):
        if k == constant_operand(main):
            continue
        if value.data is not None:
            return f"input {k} is constant"
        if value.type.shape != main.output.type.shape:
            return f"input {k} has shape {list(value.type.shape)}"
    return True


def along_channels(offloaded: Offloaded) -> bool | str:
    """Concatenations must be along channels.

    Return True, or the reason why `offloaded` violates this rule."""
    if offloaded.main.kind != CONCATENATION:
        return True
    channels = sum(value.type.shape[3] for value in offloaded.main.inputs)
    along = channels == offloaded.main.output.type.shape[3]
    return along or f"the axis is {getattr(offloaded.main.op, 'axis', None)}"


def same_types(offloaded: Offloaded) -> bool | str:
    """The inputs of a concatenation must be int8 tensors that are not constant and have the scale
    and zero point of the result.

    Return True, or the reason why `offloaded` violates this rule."""
    if offloaded.main.kind != CONCATENATION:
        return True
    y = offloaded.main.output.type
    for k, value in enumerate(offloaded.main.inputs):
        if value.data is not None:
            return f"input {k} is constant"
        if (value.type.dtype, value.type.quantisation) != (DType.INT8, y.quantisation):
            return f"input {k} has type {value.type}, the result {y}"
    return True


def fits_core(offloaded: Offloaded) -> bool | str:
    """The input rows of one window and the weights of one group of kernels must fit into the
    convolution buffer, and every parameter must fit its register.

    Return True, or the reason why `offloaded` violates this rule."""
    if offloaded.composite.name == FUSED:
        return (
            fused.chosen_plan(offloaded) is not None or "no tile fits the memory at the second port"
        )
    try:
        for one in kernels.tasks(offloaded):
            for step in one.task.even_steps(0, one.task.out_h):
                to_bytes(step.writes)
    except PenstockError as error:
        return f"{error.what}: {error.why}"
    return True


def strategy_of(op: str) -> Any:
    """Return a function that creates the `OpStrategy` of an operator: its kernel with cost, traffic
    and constant tables.

    op: the name of the operator, such as "nn.conv2d"."""

    def strategy(attrs: Any, inputs: Any, out_type: Any, target: AcceleratorTarget) -> OpStrategy:
        del attrs, out_type
        found, atom = OpStrategy(), configuration(str(target.attrs["config"])).memory_atom_bytes
        *_, width, channels = inputs[0].shape
        reads_all_rows = op == "mean" or (op == "nn.pad" and width * channels % atom > 0)
        found.add_implementation(
            kernels.compute,
            name="nvdla",
            cost=cycles,
            traffic=traffic,
            tables=tables if op in kernels.TABLED else None,
            by_rows=not reads_all_rows,
            scratch_bytes=scratch_bytes,
            folded=(1, 2) if op in kernels.WEIGHTED else (),
            alignment_bytes=atom,
            # Packs of the last pixels of an image may begin in it and end behind it.
            cache_line_bytes=atom if op == "nn.pad" else 1,
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
        scratch_memory=CVSRAM,
        alignment_bytes=configuration(str(target.attrs["config"])).memory_atom_bytes,
        placed_cost=fused.placed_cycles,
    )
    return found
