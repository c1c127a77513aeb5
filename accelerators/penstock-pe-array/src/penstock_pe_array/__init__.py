"""pe_array: an array of processing elements, as a TOML file describes it.

The attribute `file` names the file (`hardware.py`); without it, the array has 8 x 8 elements.  The
file states rows, columns and dataflow, the buffers with their banks, bandwidths and latencies, an
on-chip memory for tensors (the global buffer), main memory, and the operators that run on the
array.  Everything else follows from it: tiles
(`tiles.py`), cycles (`dataflow.py`, `timeline.py`), command streams (`stream.py`, `kernels.py`) and
the functional model (`model.py`, `pe_array.c`).

Source: Zheng et al., "Efficient Scheduling of Irregular Network Structures on CNN Accelerators",
TCAD 2020, section 5: accelerators that consist of a PE array and buffers for inputs, weights and
sums, whose time is the larger one of computation and communication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.uma import (
    AcceleratorTarget,
    Offloaded,
    OpStrategy,
    Pattern,
    UMABackend,
    double_rounding,
    is_constant,
    is_op,
    one_group,
    wildcard,
)
from penstock_pe_array import kernels, stream, tiles
from penstock_pe_array.hardware import GLOBAL_BUFFER, OPERATORS, hardware_of, read_file
from penstock_pe_array.model import SUBMIT

WEIGHTED = (wildcard(), is_constant(), is_constant())
OPERANDS: Mapping[str, tuple[Pattern, ...]] = {
    "nn.max_pool2d": (wildcard(),),
    "nn.avg_pool2d": (wildcard(),),
    "add": (wildcard(), wildcard()),
}
"""The operands of the operators that are not `WEIGHTED`, in patterns."""


class PeArray(UMABackend):
    """Backend of PE arrays."""

    def __init__(self) -> None:
        super().__init__()
        self._register_target_attr("file", default="")
        self._register_memory(
            GLOBAL_BUFFER,
            lambda attrs: read_file(str(attrs["file"])).global_buffer.size_bytes,
            bandwidth_bytes_per_cycle=lambda attrs: (
                read_file(str(attrs["file"])).global_buffer.bytes_per_cycle
            ),
            holds=("arena",),
        )
        for name, op in OPERATORS.items():
            self._register_pattern(name, is_op(op)(*OPERANDS.get(op, WEIGHTED)))
            self._register_operator_strategy(op, strategy_of(op))
        for rule in (listed, one_image, one_group, double_rounding, equal_shapes, tiles_fit):
            self._register_constraint(rule)
        self._register_codegen(
            fmt="stream",
            encoder=stream.encode,
            submit=SUBMIT,
            includes='#include "pe_array.h"',
            sources=sources,
        )

    @property
    def target_name(self) -> str:
        """The name of the accelerator, "pe_array"."""
        return "pe_array"


def listed(offloaded: Offloaded) -> bool | str:
    """The file that describes the array must list the operator.

    A constraint: returns True, or the reason for refusal.  Messages quote the first sentence."""
    supported = hardware_of(offloaded.target).operators
    return offloaded.composite.name in supported or f"it lists {', '.join(supported)}"


def one_image(offloaded: Offloaded) -> bool | str:
    """Tensors must have shape (1, H, W, C), or (N, C) in fully connected layers.

    A constraint: returns True, or the reason for refusal.  Messages quote the first sentence."""
    shape = offloaded.output.shape
    rank = 2 if offloaded.main.kind == "FullyConnected" else 4
    is_right = len(shape) == rank and (rank == 2 or shape[0] == 1)
    return is_right or f"the output has shape {list(shape)}"


def equal_shapes(offloaded: Offloaded) -> bool | str:
    """The inputs of a sum must be tensors of the shape of the output, not constants.

    A constraint: returns True, or the reason for refusal.  Messages quote the first sentence."""
    if offloaded.main.kind != "Add":
        return True
    for k, value in enumerate(offloaded.main.inputs):
        if value.data is not None:
            return f"input {k} is constant"
        if value.type.shape != offloaded.output.shape:
            return f"input {k} has shape {list(value.type.shape)}"
    return True


def tiles_fit(offloaded: Offloaded) -> bool | str:
    """The smallest tiles of all tensors must fit the buffers, and must not be too many.

    A constraint: returns True, or the reason for refusal.  Messages quote the first sentence."""
    return tiles.why_no_tile(offloaded) or True


def strategy_of(op: str) -> Callable[..., OpStrategy]:
    """Return the strategy function of an operator, which has a single kernel."""
    is_dense, has_weights = op == "nn.dense", op not in OPERANDS

    def strategy(*facts: object) -> OpStrategy:
        del facts
        found = OpStrategy()
        found.add_implementation(
            kernels.compute,
            name="pe_array",
            cost=tiles.cycles,
            traffic=tiles.traffic,
            tables=kernels.parameters,
            folded=(2,) if has_weights else (),
            by_rows=not is_dense,
            by_columns=not is_dense,
        )
        return found

    return strategy


def sources(target: AcceleratorTarget) -> Mapping[str, str]:
    """Return the contents, by file name, of the C files that the accelerator adds to the generated
    code: the driver, and headers with its registers and the properties of the array."""
    here, hardware = Path(__file__).parent, hardware_of(target)
    return {
        "pe_array_hardware.h": stream.hardware_header(hardware),
        "pe_array_registers.h": stream.registers_header(),
        **{name: (here / name).read_text("utf-8") for name in ("pe_array.h", "pe_array.c")},
    }
