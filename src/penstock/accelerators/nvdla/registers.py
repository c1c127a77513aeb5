"""registers: a convolution layer as values of NVDLA's registers, and back.

One table says which part of a layer stands in which field, less what (`CHOSEN`), and which fields
hold what follows from it (`IMPLIED`).  `decode` reads the first and demands that all else is as
`encode` would write it, so neither can say what the other does not.  Fields of no table are 0.

Source: NVDLA hardware manual; register programs of nvdla/hw, branch nv_small, verif/tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

from penstock.accelerators.nvdla.address_map import ENABLE, registers
from penstock.accelerators.nvdla.configurations import Configuration
from penstock.accelerators.nvdla.layer import (
    Accumulators,
    Conversion,
    ConvolutionLayer,
    Memory,
    Padding,
    Pixels,
    Reuse,
    Surface,
)
from penstock.uma import UnsupportedError

Values = Mapping[str, int]
"""Words by the name of their register, UNIT.REGISTER."""

UNITS = ("CDMA", "CSC", "CMAC_A", "CMAC_B", "CACC", "SDP")
"""In the order of data."""
WORD = 1 << 32

CHOSEN: tuple[tuple[str, str, int], ...] = (
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
    ("CDMA.D_MISC_CFG.data_reuse", "reuse.data", 0),
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
)
"""Field, what of a layer it holds, less how much."""

ADDRESSES = (
    ("CDMA.D_DAIN_ADDR_{}_0", "datain_addr_{}_0", "source.address"),
    ("CDMA.D_WEIGHT_ADDR_{}", "weight_addr_{}", "weight_address"),
    ("SDP.D_DST_BASE_ADDR_{}", "dst_base_addr_{}", "output.address"),
)
"""Registers and fields of a HIGH and a LOW word."""

IMPLIED: tuple[tuple[str, str, int], ...] = (
    ("CDMA.D_DATAIN_SIZE_0.datain_width", "width", 1),
    ("CDMA.D_DATAIN_SIZE_0.datain_height", "fetched_rows", 1),
    ("CDMA.D_ENTRY_PER_SLICE.entries", "entries_per_slice", 1),
    ("CDMA.D_WEIGHT_SIZE_0.byte_per_kernel", "bytes_per_kernel", 1),
    ("CDMA.D_WEIGHT_BYTES.weight_bytes", "weight_bytes", 0),
    ("CDMA.D_CONV_STRIDE.conv_x_stride", "stride_x", 1),
    ("CDMA.D_CONV_STRIDE.conv_y_stride", "stride_y", 1),
    ("CSC.D_MISC_CFG.data_reuse", "reuse.data", 0),
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
)
CONSTANT = {
    "SDP.D_FEATURE_MODE_CFG.flying_mode": 1,
    "SDP.D_DP_BS_CFG.bs_bypass": 1,
    "SDP.D_DP_BN_CFG.bn_bypass": 1,
    "SDP.D_DP_EW_CFG.ew_bypass": 1,
}
"""Sums come from the core, and pass NVDLA's own bias, batch norm and element-wise units by."""

ABSENT = {"source.memory": Memory.MAIN, "output.memory": Memory.MAIN, "weight_memory": Memory.MAIN}
"""What is meant where a register is not given, other than 0."""

GROUPS: Mapping[str, type[Any]] = {
    "Surface": Surface,
    "Padding": Padding,
    "Reuse": Reuse,
    "Accumulators": Accumulators,
    "Conversion": Conversion,
    "Pixels": Pixels,
}
SCALARS: Mapping[str, type[Any]] = {"int": int, "bool": bool, "Memory": Memory}


def encode(layer: ConvolutionLayer) -> dict[str, int]:
    """The words of every register that a layer needs, but those that start it.

    Raises UnsupportedError where a part of the layer has more bits than its field."""
    found: dict[str, dict[str, int]] = {}
    for place, path, less in (*CHOSEN, *IMPLIED):
        _put(found, place, int(attrgetter(path)(layer)) - less)
    for register, field, path in ADDRESSES:
        address = attrgetter(path)(layer)
        for half, value in (("low", address % WORD), ("high", address // WORD)):
            _put(found, f"{register.format(half.upper())}.{field.format(half)}", value)
    for place, value in CONSTANT.items():
        _put(found, place, value)
    return {
        name: register.word(found.get(name, {}))
        for name, register in registers().items()
        if name.startswith(tuple(f"{unit}.D_" for unit in UNITS)) and not name.endswith(ENABLE)
    }


def decode(values: Values, hardware: Configuration) -> ConvolutionLayer:
    """The layer of some registers' words; registers that are not given count as 0, memories as
    the main one.

    Raises UnsupportedError where the words are none of a direct convolution, or contradict each
    other, and CapacityError where banks are too few."""
    words = {name: registers()[name].values(word) for name, word in values.items()}
    tree: dict[str, Any] = {"hardware": hardware}
    for place, path, more in CHOSEN:
        register, _, field = place.rpartition(".")
        value = words[register][field] if register in words else ABSENT.get(path, 0)
        _hang(tree, path, value + more)
    for register, field, path in ADDRESSES:
        high, low = (
            words.get(register.format(half.upper()), {}).get(field.format(half), 0)
            for half in ("high", "low")
        )
        _hang(tree, path, high * WORD + low)
    fetched = words.get("CDMA.D_DATAIN_SIZE_0", {}).get("datain_height", 0) + 1
    tree["kept_rows"] = tree["height"] - fetched
    layer = _built(ConvolutionLayer, tree)
    _compare(encode(layer), values, str(layer))
    return layer


def _compare(expected: Values, found: Values, where: str) -> None:
    for name, word in found.items():
        if name in expected and word != expected[name]:
            raise UnsupportedError(
                "nvdla-008",
                f"{name} is {word:#x}, must be {expected[name]:#x}",
                where=where,
                why="the other registers say so, or it asks for more than a direct convolution of "
                "int8",
                help="mend the register program",
            )


def _put(found: dict[str, dict[str, int]], place: str, value: int) -> None:
    register, _, field = place.rpartition(".")
    found.setdefault(register, {})[field] = value


def _hang(tree: dict[str, Any], path: str, value: int) -> None:
    group, _, name = path.rpartition(".")
    (tree.setdefault(group, {}) if group else tree)[name] = value


def _built(kind: type[Any], tree: Mapping[str, Any]) -> Any:
    """A record of a tree of values; what is a group there is a record, too."""
    made: dict[str, Any] = {}
    for field in fields(kind):
        if field.name not in tree:
            continue
        name, value = str(field.type), tree[field.name]
        if name in GROUPS:
            made[field.name] = _built(GROUPS[name], value)
        else:
            made[field.name] = SCALARS[name](value) if name in SCALARS else value
    return kind(**made)
