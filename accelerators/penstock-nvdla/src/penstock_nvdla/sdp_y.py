"""sdp_y: unit Y of SDP, which only the configuration large has, as a weighted sum of two tensors.

    result = round(value * factor / 2**right_shift) + convert(element)
    convert(element) = round((element - offset) * scale / 2**shift)

`value` is the input of the unit, and `element` is the element of a second tensor at the same
position.  `factor` has 32 bits, and `scale` has 16.  Both terms and their sum saturate to 32 bits.
Other modes of the unit, and its lookup table, are not modelled.

Source: nvdla/hw, branch nv_small, spec/manual and cmod/hls/sdp/sdp_y*.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock_nvdla.bindings import Bindings, Words
from penstock_nvdla.layer import NvdlaMemory, Surface


@dataclass(frozen=True, slots=True)
class SdpUnitY:
    """The operation of unit Y of SDP: round(value * factor / 2**right_shift) plus an element of a
    second tensor, converted to round((element - offset) * scale / 2**shift).

    memory, address, line_stride, surface_stride: the location of the second tensor, which has one
        byte per element, and the distances in bytes between its rows and its packs of channels."""

    factor: int
    scale: int
    address: int = 0
    line_stride: int = 0
    surface_stride: int = 0
    memory: NvdlaMemory = NvdlaMemory.MAIN
    right_shift: int = 0
    offset: int = 0
    shift: int = 0

    @property
    def second(self) -> Surface:
        """The memory layout of the second tensor."""
        return Surface(self.line_stride, self.surface_stride, self.address, self.memory)


MODE = "SDP.D_DP_EW_CFG"
"""The register that states what the unit does."""

UNIT_Y = Bindings(
    SdpUnitY,
    ("SDP", "SDP_RDMA"),
    chosen=(
        ("SDP.D_DP_EW_MUL_SRC_VALUE.ew_mul_operand", "factor", 0),
        ("SDP.D_DP_EW_TRUNCATE_VALUE.ew_truncate", "right_shift", 0),
        ("SDP.D_DP_EW_ALU_CVT_OFFSET_VALUE.ew_alu_cvt_offset", "offset", 0),
        ("SDP.D_DP_EW_ALU_CVT_SCALE_VALUE.ew_alu_cvt_scale", "scale", 0),
        ("SDP.D_DP_EW_ALU_CVT_TRUNCATE_VALUE.ew_alu_cvt_truncate", "shift", 0),
        ("SDP_RDMA.D_ERDMA_CFG.erdma_ram_type", "memory", 0),
        ("SDP_RDMA.D_EW_LINE_STRIDE.ew_line_stride", "line_stride", 0),
        ("SDP_RDMA.D_EW_SURFACE_STRIDE.ew_surface_stride", "surface_stride", 0),
    ),
    implied=(),
    addresses=(("SDP_RDMA.D_EW_BASE_ADDR_{}", "ew_base_addr_{}", "address"),),
    constant={
        f"{MODE}.ew_alu_algo": 2,  # sum
        f"{MODE}.ew_lut_bypass": 1,
        "SDP.D_DP_EW_ALU_CFG.ew_alu_src": 1,  # memory
        "SDP.D_DP_EW_MUL_CFG.ew_mul_cvt_bypass": 1,
        "SDP_RDMA.D_ERDMA_CFG.erdma_data_use": 1,  # addends
        "SDP_RDMA.D_ERDMA_CFG.erdma_data_mode": 1,  # one for each element
    },
    absent={},
    only_listed=True,
)


def encode_y(unit: SdpUnitY) -> dict[str, int]:
    """Return the register words of unit Y, by register name.  Raises UnsupportedError if an
    attribute does not fit its register field."""
    return UNIT_Y.encode(unit)


def decode_y(words: Words) -> SdpUnitY | None:
    """Return the operation of unit Y that register words encode; None if the unit is bypassed.

    words: the words by register name.

    Raises UnsupportedError if the unit is in a mode that is not modelled."""
    return None if words.get(MODE, 1) & 1 else UNIT_Y.decode(words)
