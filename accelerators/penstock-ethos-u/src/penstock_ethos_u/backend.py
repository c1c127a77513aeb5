"""backend: the operators that Ethos-U supports, and their kernels.

Attributes of the target:

    macs          multiply-accumulates per cycle: 32, 64, 128 or 256 on Ethos-U55, 256 or 512 on
                  Ethos-U65, 128, 256, 512, 1024 or 2048 on Ethos-U85
    memory_mode   shared_sram: constants are in flash or DRAM, tensors in SRAM;
                  sram_only: constants and tensors are in SRAM;
                  dedicated_sram (Ethos-U65, U85): constants are in DRAM, tensors in an SRAM that
                  only the NPU accesses
    layout        nhcwb16: tensors that only the NPU accesses are stored in blocks of 16 channels;
                  nhwc: all tensors are stored in NHWC; by default, nhcwb16, and nhwc where it is
                  better because blocks are not full
    cache_line    size in bytes of the lines of the processor's data cache, 16, 32, 64 or 128:
                  addresses and sizes of memory regions are multiples of it
    submission    cycles of the NPU's clock that the processor takes to submit a stream and to
                  notice its end; the search prefers schedules with fewer submissions

Each kernel call is encoded as a stream of register commands. The reference machine, which is
penstock's interpreter of compiled programs, executes the stream on a functional model of the NPU
(`interpreter`).
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, cast

from penstock.uma import (
    AcceleratorTarget,
    ElementTypes,
    Graph,
    JoinedStreams,
    Node,
    Offloaded,
    OpStrategy,
    PassPhase,
    Pattern,
    RegionNumbers,
    StreamDriver,
    UMABackend,
    is_constant,
    is_op,
    packed,
    row_count,
    wildcard,
)
from penstock_ethos_u.configurations import (
    BLOCK_CHANNELS,
    LAYOUTS,
    NHCWB16,
    SRAM_ONLY,
    memory_modes,
)
from penstock_ethos_u.constraints import RULES
from penstock_ethos_u.functional import trap
from penstock_ethos_u.kernels import Variant
from penstock_ethos_u.operators import (
    COMPOSED,
    EXTREMES,
    LOOKUPS,
    MATRIX_PRODUCT,
    MOVEMENTS,
    PRELU,
    SHIFT,
    SOFTMAX,
    SQUARE,
    UNSIGNED_AVERAGE,
)
from penstock_ethos_u.programs import encode, encode_calls, submission, submit_parts
from penstock_ethos_u.schedule import MOST_PREFETCH_CHOICES
from penstock_ethos_u.sequences import folded_window, is_natural
from penstock_ethos_u.tiles import MOST_SCATTERED_ROWS

TRANSPOSED = "nn.conv2d_transpose"
DENSE = "nn.dense"
# Operators with constant weights and biases.
LAYERS = ("nn.conv2d", TRANSPOSED, "nn.depthwise_conv2d", DENSE)
POOLS = ("nn.max_pool2d", "nn.avg_pool2d", UNSIGNED_AVERAGE)
REDUCTIONS = ("mean", "sum")
CONCATENATION = "concatenate"
# Operators with two inputs, and with one input, that several operations compute.
COMPOSED_BINARY = (PRELU, MATRIX_PRODUCT, SQUARE)
COMPOSED_UNARY = tuple(kind for kind in COMPOSED if kind not in ("Concatenation", *COMPOSED_BINARY))
MOST_CONCATENATED = 8  # Maximum number of inputs of a concatenation.
SUMS = ("add", "subtract", "multiply", "maximum", "minimum")
IN_SRAM = "which does not count the constants that then lie in SRAM"
# Kernels of an operator with weights, by name.
VARIANTS = {
    "ethos_u": Variant(buffered=False),
    "ethos_u_buffered": Variant(buffered=True),
    "ethos_u_biases_fetched": Variant(buffered=False, biases=True),
    **{
        f"ethos_u_fetched_{n}": Variant(buffered=True, prefetch_choice=n)
        for n in range(1, MOST_PREFETCH_CHOICES + 1)
    },
}
# Kernels of other operators: of those with look-up tables, the second one reads copies of them.
TABLE_VARIANTS = ("ethos_u", "ethos_u_fetched_1")
FEATURES_STEP = 16  # Alignment of the rows of a tensor, in bytes.
DRIVER_FILES = ("ethosu_submit.h", "ethosu_functional.h", "ethosu_functional.c")
# Regions of memory by number, as Arm's driver and the files of Vela use them: 0 holds constants,
# which the NPU reads through a port of its own, and 1 tensors. The driver replaces the address of 2
# by that of its own fast memory.
REGIONS = RegionNumbers(constants=0, memories=(1, 3, 4, 5, 6, 7))


class EthosU(UMABackend):
    """Backend of Ethos-U. The NPU runs convolutions, dense layers, pools, reductions, element-wise
    operators, and concatenations.

    name: name of the backend and of its accelerator, such as "ethos_u55".
    macs: default value of the target attribute `macs`, in multiply-accumulates per cycle; None if
        the backend does not have this attribute."""

    name: str
    macs: int | None = 256

    def __init__(self) -> None:
        super().__init__(merge_compiler_regions=False)  # the cost model counts one stream per call
        if self.macs is not None:
            self._register_target_attr("macs", default=self.macs)
        modes = memory_modes(self.name.replace("_", "-"))
        notes = {mode: IN_SRAM if mode == SRAM_ONLY else "" for mode in modes}
        self._register_target_attr("memory_mode", default=modes[0], choices=notes)
        layouts = {name: "" for name in LAYOUTS}
        self._register_target_attr("layout", default=NHCWB16, choices=layouts, searched=True)
        self._register_target_attr("cache_line", default=32)
        self._register_target_attr("submission", default=0, least=0)
        for op in LAYERS:
            read = is_op(SHIFT)(wildcard()) | wildcard()
            layer = is_op(op)(read, is_constant(), is_constant())
            # Streams have weights of 9 bits.
            self._register_pattern(op, is_op(SHIFT)(layer) | layer, wide_weights=True)
        softmax = is_op(SOFTMAX)(wildcard())
        self._register_pattern(SOFTMAX, is_op(SHIFT)(softmax) | softmax)
        for op in (*POOLS, *REDUCTIONS, *LOOKUPS, *COMPOSED_UNARY):
            if op != SOFTMAX:
                self._register_pattern(op, is_op(op)(wildcard()))
        for op in (*SUMS, *COMPOSED_BINARY):
            self._register_pattern(op, is_op(op)(wildcard(), wildcard()))
        self._register_pattern(CONCATENATION, concatenation())
        for rule in RULES:
            self._register_constraint(rule)
        self._register_graph_pass(PassPhase.POST_PARTITIONING_0, in_channel_blocks)
        every = (*LAYERS, *POOLS, *REDUCTIONS, *SUMS, *LOOKUPS, *COMPOSED_UNARY)
        for op in (*every, *COMPOSED_BINARY, CONCATENATION):
            self._register_operator_strategy(op, strategy_of(op))
        driver = StreamDriver(
            submission(self.name),
            REGIONS,
            is_status=True,
            traps={"ethosu_functional_execute": trap},
            cmake=driver_file("ethosu_driver.cmake"),
            joined=JoinedStreams(encode_calls, submit_parts),
        )
        self._register_codegen(
            fmt="stream", encoder=encode, submit=driver,
            includes='#include "ethosu_submit.h"', sources=driver_sources,
        )  # fmt: skip

    @property
    def target_name(self) -> str:
        """Name of the accelerator, such as "ethos_u55"."""
        return self.name


def driver_file(name: str) -> str:
    """Return the text of a file for the driver, which is beside this module."""
    return Path(__file__).with_name(name).read_text("utf-8")


def driver_sources(target: AcceleratorTarget) -> dict[str, str]:
    """Return the files of a bundle that submit streams to Arm's driver, or to a functional model
    with the interface of Arm's driver, by name."""
    texts = {name: driver_file(name) for name in DRIVER_FILES}
    line = "ETHOSU_CACHE_LINE_BYTES 32"
    stated = line.replace("32", str(target.attrs["cache_line"]))
    return {name: text.replace(line, stated) for name, text in texts.items()}


def in_channel_blocks(graph: Graph, target: AcceleratorTarget) -> Graph:
    """Return the graph with layout NHCWB16 (channels in blocks of 16) for tensors that only the NPU
    accesses."""
    # Tensors with fewer than 16 channels keep their layout.  The graph is returned unchanged if the
    # user selected layout nhwc.
    if target.attrs["layout"] != NHCWB16:
        return graph

    def takes_blocks(node: Node) -> bool:
        offloaded = Offloaded(node, target)
        kind = offloaded.main.kind
        if kind in MOVEMENTS:
            return is_natural(offloaded)
        return (kind == PRELU or kind not in COMPOSED) and not folded_window(offloaded)

    return packed(
        graph,
        target.name,
        BLOCK_CHANNELS,
        borders=False,
        least_channels=BLOCK_CHANNELS,
        takes_blocks=takes_blocks,
    )


def concatenation() -> Pattern:
    """Return a pattern that matches concatenations of 2 to `MOST_CONCATENATED` tensors."""
    counts = range(2, MOST_CONCATENATED + 1)
    every = (is_op(CONCATENATION)(*(wildcard() for _ in range(count))) for count in counts)
    return reduce(or_, every)


def window_rows(op: str, attrs: Any, inputs: Any) -> int:
    """Return the number of input rows that the window of one output row covers, including rows of
    padding.

    attrs: attributes of the operator by name.
    inputs: types of the operator's inputs."""
    if op in (*REDUCTIONS, *EXTREMES, DENSE):
        return row_count(inputs[0].shape)
    if op == TRANSPOSED:
        return -(-attrs["rows"].size // attrs["rows"].stride)
    return attrs["rows"].extent if op in (*LAYERS, *POOLS) else 1


def strategy_of(op: str) -> Any:
    """Return the strategy of operator `op`: a function that the compiler calls to learn which
    kernels can compute a node."""
    # Convolutions and dense layers have several kernels, which differ in how a call obtains its
    # weights and biases.  Any other operator has a single kernel.

    def strategy(attrs: Any, inputs: Any, out_type: Any, target: AcceleratorTarget) -> OpStrategy:
        one_row = row_count(out_type.shape) == 1
        reach = window_rows(op, attrs, inputs)
        # Rules have refused the types of tensors that the NPU does not compute with.
        count = len(inputs) if op in LAYERS else 1
        types = ElementTypes(tuple(x.dtype for x in inputs[:count]), out_type.dtype)
        found = OpStrategy()
        for name, variant in VARIANTS.items():
            if op not in LAYERS and name not in TABLE_VARIANTS:
                continue
            found.add_implementation(
                variant.compute,
                name=name,
                cost=variant.cost,
                placed_cost=variant.placed_cost,
                filled_cost=variant.filled_cost,
                tables=variant.tables,
                by_rows=not (one_row and reach > MOST_SCATTERED_ROWS),
                by_columns=op not in (*COMPOSED_UNARY, *COMPOSED_BINARY, CONCATENATION)
                and all(type.layout is None for type in (*inputs, out_type)),
                scratch_bytes=variant.scratch_bytes,
                placed_scratch=variant.placed_scratch,
                scattered_scratch_bytes=variant.scattered_scratch_bytes,
                folded=(1, 2) if op in LAYERS else (),
                alignment_bytes=FEATURES_STEP,
                cache_line_bytes=cast(int, target.attrs["cache_line"]),
                element_types=types,
                prefetch=variant.prefetch if variant.prefetch_choice or variant.biases else None,
            )
        return found

    return strategy
