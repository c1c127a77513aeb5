"""registers: encodes a convolution layer as values of NVDLA's registers, and decodes them.

Source: NVDLA hardware manual; register programs of nvdla/hw, branch nv_small, verif/tests.
"""

from __future__ import annotations

from penstock_nvdla.bindings import Bindings, Words, registers
from penstock_nvdla.configurations import NvdlaConfiguration
from penstock_nvdla.layer import (
    ConvolutionLayer,
    NvdlaMemory,
)
from penstock_nvdla.sdp import OPERAND_REGISTERS

# The units of the core, in the order of the data flow.
UNITS = ("CDMA", "CSC", "CMAC_A", "CMAC_B", "CACC", "SDP")

# Register fields that make SDP, NVDLA's post-processor, read from the core instead of memory and
# bypass its bias, batch-norm and element-wise units.
BYPASS = {
    "SDP.D_FEATURE_MODE_CFG.flying_mode": 1,
    "SDP.D_DP_BS_CFG.bs_bypass": 1,
    "SDP.D_DP_BN_CFG.bn_bypass": 1,
    "SDP.D_DP_EW_CFG.ew_bypass": 1,
}
BYPASSED = frozenset(place.rpartition(".")[0] for place in BYPASS)  # The registers of these fields.
# The registers that state what the units of SDP do.
UNIT_MODES = BYPASSED - {"SDP.D_FEATURE_MODE_CFG"}
# Registers that only matter if SDP's units are used (`sdp.OPERATIONS`).
OPERANDS = OPERAND_REGISTERS - BYPASSED
MODES = "CDMA.D_MISC_CFG"  # The register that states what a layer takes over and keeps.
# The registers that state how many bytes of weights a layer fetches.
WEIGHT_BYTES = ("CDMA.D_WEIGHT_BYTES", "CSC.D_WEIGHT_BYTES")
# The memories of a layer whose memory registers are absent.
MAIN = {path: NvdlaMemory.MAIN for path in ("source.memory", "output.memory", "weight_memory")}

CONVOLUTION = Bindings(
    ConvolutionLayer,
    UNITS,
    chosen=(
        ("CDMA.D_DATAIN_SIZE_EXT_0.datain_width_ext", "width", 1),
        ("CDMA.D_DATAIN_SIZE_EXT_0.datain_height_ext", "height", 1),
        ("CDMA.D_DATAIN_SIZE_1.datain_channel", "channels", 1),
        ("CDMA.D_WEIGHT_SIZE_1.weight_kernel", "kernels", 1),
        ("CSC.D_WEIGHT_SIZE_EXT_0.weight_width_ext", "kernel_width", 1),
        ("CSC.D_WEIGHT_SIZE_EXT_0.weight_height_ext", "kernel_height", 1),
        ("CDMA.D_LINE_STRIDE.line_stride", "source.line_stride", 0),
        ("CDMA.D_SURF_STRIDE.surf_stride", "source.surface_stride", 0),
        ("CDMA.D_DAIN_RAM_TYPE.datain_ram_type", "source.memory", 0),
        ("CDMA.D_DAIN_MAP.line_packed", "source_line_packed", 0),
        ("CDMA.D_DAIN_MAP.surf_packed", "source_surface_packed", 0),
        ("SDP.D_DST_LINE_STRIDE.dst_line_stride", "output.line_stride", 0),
        ("SDP.D_DST_SURFACE_STRIDE.dst_surface_stride", "output.surface_stride", 0),
        ("SDP.D_DST_DMA_CFG.dst_ram_type", "output.memory", 0),
        ("CACC.D_LINE_STRIDE.line_stride", "accumulators.line_stride", 0),
        ("CACC.D_SURF_STRIDE.surf_stride", "accumulators.surface_stride", 0),
        ("CACC.D_DATAOUT_MAP.line_packed", "accumulators.line_packed", 0),
        ("CACC.D_DATAOUT_MAP.surf_packed", "accumulators.surface_packed", 0),
        ("CACC.D_CLIP_CFG.clip_truncate", "accumulators.truncate", 0),
        ("CDMA.D_BANK.data_bank", "data_banks", 1),
        ("CDMA.D_BANK.weight_bank", "weight_banks", 1),
        ("CSC.D_RELEASE.rls_slices", "release", 1),
        ("CSC.D_CONV_STRIDE_EXT.conv_x_stride_ext", "stride_x", 1),
        ("CSC.D_CONV_STRIDE_EXT.conv_y_stride_ext", "stride_y", 1),
        ("CSC.D_DILATION_EXT.x_dilation_ext", "dilation_x", 1),
        ("CSC.D_DILATION_EXT.y_dilation_ext", "dilation_y", 1),
        ("CDMA.D_ZERO_PADDING.pad_left", "padding.left", 0),
        ("CDMA.D_ZERO_PADDING.pad_right", "padding.right", 0),
        ("CDMA.D_ZERO_PADDING.pad_top", "padding.top", 0),
        ("CDMA.D_ZERO_PADDING.pad_bottom", "padding.bottom", 0),
        ("CDMA.D_ZERO_PADDING_VALUE.pad_value", "pad_value", 0),
        ("CDMA.D_WEIGHT_RAM_TYPE.weight_ram_type", "weight_memory", 0),
        ("CDMA.D_FETCH_GRAIN.grains", "fetch_grain", 1),
        ("CDMA.D_MISC_CFG.weight_reuse", "reuse.weights", 0),
        ("CDMA.D_MISC_CFG.skip_data_rls", "reuse.keep_data", 0),
        ("CDMA.D_MISC_CFG.skip_weight_rls", "reuse.keep_weights", 0),
        ("SDP.D_CVT_OFFSET.cvt_offset", "conversion.offset", 0),
        ("SDP.D_CVT_SCALE.cvt_scale", "conversion.scale", 0),
        ("SDP.D_CVT_SHIFT.cvt_shift", "conversion.shift", 0),
        ("SDP.D_FEATURE_MODE_CFG.nan_to_zero", "conversion.nan_to_zero", 0),
        ("CDMA.D_DATAIN_FORMAT.pixel_format", "pixels.format", 0),
        ("CDMA.D_DATAIN_FORMAT.pixel_mapping", "pixels.mapping", 0),
        ("CDMA.D_DATAIN_FORMAT.pixel_sign_override", "pixels.sign_override", 0),
    ),
    implied=(
        ("CDMA.D_DATAIN_SIZE_0.datain_width", "width", 1),
        ("CDMA.D_DATAIN_SIZE_0.datain_height", "fetched_rows", 1),
        ("CDMA.D_ENTRY_PER_SLICE.entries", "entries_per_slice", 1),
        ("CDMA.D_WEIGHT_SIZE_0.byte_per_kernel", "bytes_per_kernel", 1),
        ("CDMA.D_WEIGHT_BYTES.weight_bytes", "weight_bytes", 0),
        ("CDMA.D_CONV_STRIDE.conv_x_stride", "stride_x", 1),
        ("CDMA.D_CONV_STRIDE.conv_y_stride", "stride_y", 1),
        ("CDMA.D_MISC_CFG.data_reuse", "takes_rows_over", 0),
        ("CSC.D_MISC_CFG.data_reuse", "takes_rows_over", 0),
        ("CSC.D_MISC_CFG.weight_reuse", "reuse.weights", 0),
        ("CSC.D_MISC_CFG.skip_data_rls", "reuse.keep_data", 0),
        ("CSC.D_MISC_CFG.skip_weight_rls", "reuse.keep_weights", 0),
        ("CSC.D_DATAIN_SIZE_EXT_0.datain_width_ext", "width", 1),
        ("CSC.D_DATAIN_SIZE_EXT_0.datain_height_ext", "height", 1),
        ("CSC.D_DATAIN_SIZE_EXT_1.datain_channel_ext", "channels", 1),
        ("CSC.D_ENTRY_PER_SLICE.entries", "entries_per_slice", 1),
        ("CSC.D_WEIGHT_SIZE_EXT_1.weight_channel_ext", "channels", 1),
        ("CSC.D_WEIGHT_SIZE_EXT_1.weight_kernel", "kernels", 1),
        ("CSC.D_WEIGHT_BYTES.weight_bytes", "weight_bytes", 0),
        ("CSC.D_DATAOUT_SIZE_0.dataout_width", "out_width", 1),
        ("CSC.D_DATAOUT_SIZE_0.dataout_height", "out_height", 1),
        ("CSC.D_DATAOUT_SIZE_1.dataout_channel", "kernels", 1),
        ("CSC.D_ATOMICS.atomics", "atomics", 1),
        ("CSC.D_ZERO_PADDING.pad_left", "padding.left", 0),
        ("CSC.D_ZERO_PADDING.pad_top", "padding.top", 0),
        ("CSC.D_ZERO_PADDING_VALUE.pad_value", "pad_value", 0),
        ("CSC.D_BANK.data_bank", "data_banks", 1),
        ("CSC.D_BANK.weight_bank", "weight_banks", 1),
        ("CACC.D_DATAOUT_SIZE_0.dataout_width", "out_width", 1),
        ("CACC.D_DATAOUT_SIZE_0.dataout_height", "out_height", 1),
        ("CACC.D_DATAOUT_SIZE_1.dataout_channel", "kernels", 1),
        ("SDP.D_DATA_CUBE_WIDTH.width", "out_width", 1),
        ("SDP.D_DATA_CUBE_HEIGHT.height", "out_height", 1),
        ("SDP.D_DATA_CUBE_CHANNEL.channel", "kernels", 1),
    ),
    addresses=(
        ("CDMA.D_DAIN_ADDR_{}_0", "datain_addr_{}_0", "source.address"),
        ("CDMA.D_WEIGHT_ADDR_{}", "weight_addr_{}", "weight_address"),
        ("SDP.D_DST_BASE_ADDR_{}", "dst_base_addr_{}", "output.address"),
    ),
    constant=BYPASS,
    absent=MAIN,
    left_out=OPERANDS,
)


def encode(layer: ConvolutionLayer) -> dict[str, int]:
    """Return the words of all registers of the convolution core, by register name, except those
    that start its units.

    Raises UnsupportedError if an attribute of the layer does not fit its register field."""
    return CONVOLUTION.encode(layer)


def decode(words: Words, hardware: NvdlaConfiguration) -> ConvolutionLayer:
    """Return the layer that register words encode.

    words: the words by register name.  A missing register counts as 0; but if a register that
        selects a memory is missing, the main memory (code 1) is selected.

    Raises UnsupportedError if the words describe no direct convolution, or if a register differs
    from the value that the others imply.  Raises CapacityError if the layer has too few banks."""
    kept_rows = words.get("CDMA.D_DATAIN_SIZE_EXT_0", 0) >> 16
    kept_rows -= words.get("CDMA.D_DATAIN_SIZE_0", 0) >> 16
    # The same bit takes over some rows or all of them.
    values = registers()[MODES].values(words.get(MODES, 0))
    data = values["data_reuse"] == 1 and kept_rows == 0

    def decoded(own: Words, weight_padding: int) -> ConvolutionLayer:
        more = {"kept_rows": kept_rows, "reuse": {"data": data}, "weight_padding": weight_padding}
        return CONVOLUTION.decode(own, hardware=hardware, **more)

    layer = decoded({name: word for name, word in words.items() if name not in WEIGHT_BYTES}, 0)
    return decoded(words, words.get(WEIGHT_BYTES[0], layer.weight_bytes) - layer.weight_bytes)
