"""sdp: records and registers of NVDLA's own post-processor, SDP, and its read engine, SDP_RDMA.

    accumulators or a tensor -> X1 (BS) -> X2 (BN) -> Y (EW) -> converter -> memory

Units X1 and X2 add an operand, multiply by another, shift right with rounding, and may replace
negative values by 0.  An operand is one number, or one for each channel or element.  Unit Y, which
only the configuration large has, adds a second tensor (`sdp.py`).  The converter subtracts an
offset, multiplies and shifts (`layer.Conversion`).

Source: nvdla/hw, branch nv_small, spec/manual and cmod/hls/sdp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from penstock_nvdla.bindings import Bindings, Words
from penstock_nvdla.layer import UNCHANGED, Conversion, NvdlaMemory, Surface


class Use(IntEnum):
    """Which operands of a unit are read from memory; each value is its code in the register.

    An operand that is not read from memory is one number for all elements."""

    FACTORS = 0
    ADDENDS = 1
    BOTH = 2


# Unit Y of SDP, which only the configuration large has.
#
#     result = round(value * factor / 2**right_shift) + convert(addend)
#     convert(addend) = round((addend - offset) * scale / 2**shift)
#
# `value` is the input of the unit.  `factor` is a register of 32 bits, and `addend` the element of
# a second tensor at the same position; or both are operands of the channel.  `scale` has 16 bits.
# Both terms and their sum saturate to 32 bits. Other modes of the unit, and its lookup table, are
# not modelled.
#
# Source: nvdla/hw, branch nv_small, spec/manual and cmod/hls/sdp/sdp_y*.cpp.


@dataclass(frozen=True, slots=True)
class SdpUnitY:
    """The operation of unit Y of SDP: round(value * factor / 2**right_shift) plus an addend,
    converted to round((addend - offset) * scale / 2**shift).

    memory, address, line_stride, surface_stride: the location of the second tensor, which has one
        byte per element, and the distances in bytes between its rows and its packs of channels.
    by_channel: whether there are an addend and a factor for each channel at `address`, as those of
        unit X1, instead of a second tensor and `factor`."""

    factor: int
    scale: int
    address: int = 0
    line_stride: int = 0
    surface_stride: int = 0
    memory: NvdlaMemory = NvdlaMemory.MAIN
    right_shift: int = 0
    offset: int = 0
    shift: int = 0
    by_channel: bool = False

    @property
    def use(self) -> Use:
        """Which operands are read from memory."""
        return Use.BOTH if self.by_channel else Use.ADDENDS

    @property
    def per_element(self) -> bool:
        """Whether memory contains operands for each element."""
        return not self.by_channel

    @property
    def second(self) -> Surface:
        """The memory layout of the second tensor."""
        return Surface(self.line_stride, self.surface_stride, self.address, self.memory)


MODE = "SDP.D_DP_EW_CFG"  # The register that states what the unit does.

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
        ("SDP.D_DP_EW_MUL_CFG.ew_mul_src", "by_channel", 0),
    ),
    implied=(
        ("SDP_RDMA.D_ERDMA_CFG.erdma_data_use", "use", 0),
        ("SDP_RDMA.D_ERDMA_CFG.erdma_data_size", "by_channel", 0),
        ("SDP_RDMA.D_ERDMA_CFG.erdma_data_mode", "per_element", 0),
    ),
    addresses=(("SDP_RDMA.D_EW_BASE_ADDR_{}", "ew_base_addr_{}", "address"),),
    constant={
        f"{MODE}.ew_alu_algo": 2,  # sum
        f"{MODE}.ew_lut_bypass": 1,
        "SDP.D_DP_EW_ALU_CFG.ew_alu_src": 1,  # memory
        "SDP.D_DP_EW_MUL_CFG.ew_mul_cvt_bypass": 1,
    },
    absent={},
    only_listed=True,
)


def decode_y(words: Words) -> SdpUnitY | None:
    """Return the operation of unit Y that register words encode; None if the unit is bypassed.

    Raises UnsupportedError if the unit is in a mode that is not modelled."""
    return None if words.get(MODE, 1) & 1 else UNIT_Y.decode(words)


# Size in bytes of the operands of a channel in memory: an addend and a factor, each an int16.
OPERAND_BYTES = 4


class Algorithm(IntEnum):
    """How a unit combines its input with the addend; each value is its code in the register."""

    LARGEST = 0
    SMALLEST = 1
    SUM = 2


@dataclass(frozen=True, slots=True)
class SdpUnit:
    """Unit X1 or X2 of SDP, as its register fields describe it.  Its steps are: addition,
    multiplication, right shift, clamp.

    bypass: True if the unit passes its input on unchanged.
    skip_addition, skip_multiplication, skip_clamp: True to skip this step.
    algorithm: the operation that takes the place of the addition: sum, maximum or minimum.
    prelu: True if only negative values are multiplied and shifted.
    addends_in_memory, factors_in_memory: True if these operands are in memory, False if `addend` or
        `factor` is used for all elements.
    left_shift, addend: the left shift of addends, and the addend.
    right_shift, factor: the right shift of products, and the factor.
    unread: True if the read engine of the unit is off, because no operand is in memory.
    use: the operands that the read engine fetches; if both, addend and factor alternate in memory.
    two_bytes: True if an operand in memory has two bytes, False if it has one.
    per_element: True if memory contains operands for each element, False if for each channel.
    memory, address: where the operands in memory begin.
    line_stride, surface_stride: as in `Surface`, for operands of elements."""

    bypass: bool = True
    skip_addition: bool = False
    algorithm: Algorithm = Algorithm.LARGEST
    skip_multiplication: bool = False
    prelu: bool = False
    skip_clamp: bool = False
    addends_in_memory: bool = False
    left_shift: int = 0
    addend: int = 0
    factors_in_memory: bool = False
    right_shift: int = 0
    factor: int = 0
    unread: bool = True
    use: Use = Use.FACTORS
    two_bytes: bool = False
    per_element: bool = False
    memory: NvdlaMemory = NvdlaMemory.MAIN
    address: int = 0
    line_stride: int = 0
    surface_stride: int = 0


UNUSED = SdpUnit()


def per_channel(left: int, right: int, address: int, *, one_sided: bool) -> SdpUnit:
    """Return a unit that adds, multiplies and shifts with operands of each channel.

    one_sided: whether negative results become 0."""
    return SdpUnit(
        bypass=False,
        algorithm=Algorithm.SUM,
        skip_clamp=not one_sided,
        addends_in_memory=True,
        left_shift=left,
        factors_in_memory=True,
        right_shift=right,
        unread=False,
        use=Use.BOTH,
        two_bytes=True,
        address=address,
    )


def scaled(addend: int, left: int, factor: int, right: int, *, one_sided: bool) -> SdpUnit:
    """Return unit X1 or X2, set to compute round((x + (addend << left)) * factor / 2**right) from
    its input x.

    one_sided: whether negative results become 0."""
    return SdpUnit(
        bypass=False,
        algorithm=Algorithm.SUM,
        skip_clamp=not one_sided,
        left_shift=left,
        addend=addend,
        right_shift=right,
        factor=factor,
    )


def added_elements(
    surface: Surface | None, left: int = 0, factor: int | None = None, right: int = 0
) -> SdpUnit:
    """Return unit X1 or X2, set to compute round((x + (element << left)) * factor / 2**right) from
    its input x and an int8 element of a second tensor.

    surface: the memory layout of the second tensor; None to add nothing.
    factor: None to multiply by nothing."""
    unit = SdpUnit(
        bypass=False,
        algorithm=Algorithm.SUM,
        skip_addition=surface is None,
        skip_multiplication=factor is None,
        skip_clamp=True,
        factor=factor or 0,
        right_shift=right,
    )
    if surface is None:
        return unit
    return replace(
        unit,
        addends_in_memory=True,
        left_shift=left,
        unread=False,
        use=Use.ADDENDS,
        per_element=True,
        memory=surface.memory,
        address=surface.address,
        line_stride=surface.line_stride,
        surface_stride=surface.surface_stride,
    )


@dataclass(frozen=True, slots=True)
class SdpOperations:
    """The operations of SDP's units, which process the input in this order, before the converter.

    y: the operation of unit Y; None if the unit is bypassed."""

    x1: SdpUnit = UNUSED
    x2: SdpUnit = UNUSED
    y: SdpUnitY | None = None


@dataclass(frozen=True, slots=True)
class SdpCube:
    """What SDP's read engine must know of a convolution to fetch the operands of SDP's units.

    width, height, channels: the size of the convolution's output.
    flying: True if SDP takes its input from the convolution core instead of memory."""

    width: int
    height: int
    channels: int
    flying: bool = True


@dataclass(frozen=True, slots=True)
class SdpLayer:
    """A hardware layer of SDP alone, which reads a tensor from memory.

    width, height, channels: the size of the input and the output.
    source, output: their memory layouts.
    conversion: how the results of the units become int8 elements.
    through_y: whether unit Y is used; it then determines how many elements the layer processes per
        cycle (`Rates.elementwise`)."""

    width: int
    height: int
    channels: int
    source: Surface
    output: Surface
    conversion: Conversion = UNCHANGED
    through_y: bool = False

    @property
    def out_width(self) -> int:
        """The number of output columns."""
        return self.width

    @property
    def out_height(self) -> int:
        """The number of output rows."""
        return self.height

    @property
    def kernels(self) -> int:
        """The number of output channels."""
        return self.channels


def _fields(path: str, unit: str, engine: str) -> tuple[tuple[str, str, int], ...]:
    """The entries of `Bindings.chosen` for unit X1 or X2: each is a register field, the path
    of the attribute that it holds, and the offset 0."""
    stage, dma = f"SDP.D_DP_{unit.upper()}", f"SDP_RDMA.D_{engine.upper()}_CFG.{engine}"
    place = f"SDP_RDMA.D_{unit.upper()}"
    return (
        (f"{stage}_CFG.{unit}_bypass", f"{path}.bypass", 0),
        (f"{stage}_CFG.{unit}_alu_bypass", f"{path}.skip_addition", 0),
        (f"{stage}_CFG.{unit}_alu_algo", f"{path}.algorithm", 0),
        (f"{stage}_CFG.{unit}_mul_bypass", f"{path}.skip_multiplication", 0),
        (f"{stage}_CFG.{unit}_mul_prelu", f"{path}.prelu", 0),
        (f"{stage}_CFG.{unit}_relu_bypass", f"{path}.skip_clamp", 0),
        (f"{stage}_ALU_CFG.{unit}_alu_src", f"{path}.addends_in_memory", 0),
        (f"{stage}_ALU_CFG.{unit}_alu_shift_value", f"{path}.left_shift", 0),
        (f"{stage}_ALU_SRC_VALUE.{unit}_alu_operand", f"{path}.addend", 0),
        (f"{stage}_MUL_CFG.{unit}_mul_src", f"{path}.factors_in_memory", 0),
        (f"{stage}_MUL_CFG.{unit}_mul_shift_value", f"{path}.right_shift", 0),
        (f"{stage}_MUL_SRC_VALUE.{unit}_mul_operand", f"{path}.factor", 0),
        (f"{dma}_disable", f"{path}.unread", 0),
        (f"{dma}_data_use", f"{path}.use", 0),
        (f"{dma}_data_size", f"{path}.two_bytes", 0),
        (f"{dma}_data_mode", f"{path}.per_element", 0),
        (f"{dma}_ram_type", f"{path}.memory", 0),
        (f"{place}_LINE_STRIDE.{unit}_line_stride", f"{path}.line_stride", 0),
        (f"{place}_SURFACE_STRIDE.{unit}_surface_stride", f"{path}.surface_stride", 0),
    )


OPERATIONS = Bindings(
    SdpOperations,
    ("SDP", "SDP_RDMA"),
    chosen=(*_fields("x1", "bs", "brdma"), *_fields("x2", "bn", "nrdma")),
    implied=(),
    addresses=(
        ("SDP_RDMA.D_BS_BASE_ADDR_{}", "bs_base_addr_{}", "x1.address"),
        ("SDP_RDMA.D_BN_BASE_ADDR_{}", "bn_base_addr_{}", "x2.address"),
    ),
    constant={"SDP.D_DP_EW_CFG.ew_bypass": 1, "SDP_RDMA.D_ERDMA_CFG.erdma_disable": 1},
    absent={},
    only_listed=True,
)

CUBE = Bindings(
    SdpCube,
    ("SDP_RDMA",),
    chosen=(
        ("SDP_RDMA.D_DATA_CUBE_WIDTH.width", "width", 1),
        ("SDP_RDMA.D_DATA_CUBE_HEIGHT.height", "height", 1),
        ("SDP_RDMA.D_DATA_CUBE_CHANNEL.channel", "channels", 1),
        ("SDP_RDMA.D_FEATURE_MODE_CFG.flying_mode", "flying", 0),
    ),
    implied=(),
    addresses=(),
    constant={},
    absent={},
    only_listed=True,
)

LAYER = Bindings(
    SdpLayer,
    ("SDP", "SDP_RDMA"),
    chosen=(
        ("SDP.D_DATA_CUBE_WIDTH.width", "width", 1),
        ("SDP.D_DATA_CUBE_HEIGHT.height", "height", 1),
        ("SDP.D_DATA_CUBE_CHANNEL.channel", "channels", 1),
        ("SDP_RDMA.D_SRC_LINE_STRIDE.src_line_stride", "source.line_stride", 0),
        ("SDP_RDMA.D_SRC_SURFACE_STRIDE.src_surface_stride", "source.surface_stride", 0),
        ("SDP_RDMA.D_SRC_DMA_CFG.src_ram_type", "source.memory", 0),
        ("SDP.D_DST_LINE_STRIDE.dst_line_stride", "output.line_stride", 0),
        ("SDP.D_DST_SURFACE_STRIDE.dst_surface_stride", "output.surface_stride", 0),
        ("SDP.D_DST_DMA_CFG.dst_ram_type", "output.memory", 0),
        ("SDP.D_CVT_OFFSET.cvt_offset", "conversion.offset", 0),
        ("SDP.D_CVT_SCALE.cvt_scale", "conversion.scale", 0),
        ("SDP.D_CVT_SHIFT.cvt_shift", "conversion.shift", 0),
        ("SDP.D_FEATURE_MODE_CFG.nan_to_zero", "conversion.nan_to_zero", 0),
    ),
    implied=(
        ("SDP_RDMA.D_DATA_CUBE_WIDTH.width", "width", 1),
        ("SDP_RDMA.D_DATA_CUBE_HEIGHT.height", "height", 1),
        ("SDP_RDMA.D_DATA_CUBE_CHANNEL.channel", "channels", 1),
    ),
    addresses=(
        ("SDP_RDMA.D_SRC_BASE_ADDR_{}", "src_base_addr_{}", "source.address"),
        ("SDP.D_DST_BASE_ADDR_{}", "dst_base_addr_{}", "output.address"),
    ),
    constant={"SDP_RDMA.D_FEATURE_MODE_CFG.flying_mode": 0, "SDP.D_DATA_FORMAT.out_precision": 0},
    absent={},
    only_listed=True,
)

# The registers of SDP's units and of the operands that they read.
OPERAND_REGISTERS = frozenset((*OPERATIONS.names, *UNIT_Y.names))
# The registers that state whether unit Y and its read engine are used.
Y_MODES = frozenset((MODE, "SDP_RDMA.D_ERDMA_CFG"))


def encode_operations(operations: SdpOperations) -> dict[str, int]:
    """Return the register words of SDP's units, by register name.  Raises UnsupportedError if an
    attribute does not fit its register field."""
    words = OPERATIONS.encode(operations)
    return words if operations.y is None else {**words, **UNIT_Y.encode(operations.y)}


def decode_operations(words: Words) -> SdpOperations:
    """Return the operations of SDP's units that register words encode.

    Raises UnsupportedError if a word sets bits outside the fields of its register, or if unit Y is
    in a mode that is not modelled."""
    y = decode_y(words)
    if y is None:
        return OPERATIONS.decode(words)
    others = {name: word for name, word in words.items() if name not in Y_MODES}
    return replace(OPERATIONS.decode(others), y=y)


def decode_sdp(words: Words) -> SdpLayer:
    """Return the layer of SDP alone that register words encode, by register name.

    Raises UnsupportedError if a word sets bits outside the fields of its register, or if a register
    differs from the value that the others imply."""
    return LAYER.decode(words, through_y=decode_y(words) is not None)
