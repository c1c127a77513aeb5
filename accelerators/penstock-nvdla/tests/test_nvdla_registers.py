"""NVDLA's registers: layers come back from their words, and what no hardware runs is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvdla_layers import layers
from penstock.errors import CapacityError, PenstockError, UnsupportedError
from penstock_nvdla.bindings import Register, registers, registers_by_address
from penstock_nvdla.configurations import LARGE, SMALL, SMALL_256
from penstock_nvdla.layer import (
    Accumulators,
    BankSplit,
    ConvolutionLayer,
    Demand,
    NvdlaMemory,
    Padding,
    ResidentWeights,
    Reuse,
    Surface,
    allocate,
    trimmed,
)
from penstock_nvdla.registers import decode, encode

PACKED = Surface.packed(12, 10, 8)
LAYER = ConvolutionLayer(
    SMALL, 12, 10, 16, 24, 3, 3, PACKED, PACKED, Accumulators(96, 960),
    data_banks=2, weight_banks=10, release=10, padding=Padding(1, 1, 1, 1),
)  # fmt: skip
"""A plain layer: 12x10x16, 24 kernels of 3x3, padded."""


@settings(max_examples=1000)
@given(layer=layers())
def test_a_layer_round_trips_through_registers(layer: ConvolutionLayer) -> None:
    words = encode(layer)
    assert decode(words, layer.hardware) == layer
    assert all(0 <= word < 1 << 32 for word in words.values())


def test_register_words_equal_a_manual_encoding() -> None:
    words = encode(LAYER)
    expected = {
        "CDMA.D_DATAIN_SIZE_0": 9 << 16 | 11,
        "CDMA.D_ENTRY_PER_SLICE": 2 * 12 - 1,
        "CDMA.D_WEIGHT_SIZE_0": 3 * 3 * 16 - 1,
        "CDMA.D_WEIGHT_BYTES": 27 * 128,
        "CDMA.D_BANK": 9 << 16 | 1,
        "CDMA.D_ZERO_PADDING": 0x01010101,
        "CSC.D_ZERO_PADDING": 0x00010001,
        "CSC.D_ATOMICS": 119,
        "CSC.D_WEIGHT_SIZE_EXT_1": 23 << 16 | 15,
        "CSC.D_RELEASE": 9,
        "CMAC_A.D_MISC_CFG": 0,
        "SDP.D_FEATURE_MODE_CFG": 1,
        "SDP.D_CVT_SCALE": 1,
        "SDP.D_DP_BS_CFG": 1,
    }
    assert {name: words[name] for name in expected} == expected


def test_rows_that_stay_in_the_buffer_are_not_fetched() -> None:
    words = encode(replace(LAYER, kept_rows=3))
    assert words["CDMA.D_DATAIN_SIZE_0"] >> 16 == 10 - 3 - 1
    assert words["CDMA.D_DATAIN_SIZE_EXT_0"] >> 16 == 10 - 1
    assert words["CSC.D_DATAIN_SIZE_EXT_0"] >> 16 == 10 - 1


def test_reuse_is_said_to_both_ends_of_the_buffer() -> None:
    words = encode(replace(LAYER, reuse=Reuse(data=True, keep_weights=True)))
    assert words["CDMA.D_MISC_CFG"] == words["CSC.D_MISC_CFG"] == 1 << 16 | 1 << 28


@pytest.mark.parametrize(
    "name",
    [
        "CSC.D_ATOMICS",
        "CSC.D_WEIGHT_BYTES",
        "CACC.D_DATAOUT_SIZE_0",
        "CSC.D_BANK",
        "CDMA.D_ENTRY_PER_SLICE",
        "CSC.D_ZERO_PADDING",
    ],
)
def test_words_that_contradict_each_other_are_refused(name: str) -> None:
    words = encode(LAYER)
    words[name] ^= 1
    with pytest.raises(PenstockError, match=name) as caught:
        decode(words, SMALL)
    assert caught.value.code == "nvdla-008"


def test_weights_are_fetched_in_whole_entries() -> None:
    with pytest.raises(PenstockError, match="must be whole entries of 8 bytes"):
        replace(LAYER, weight_padding=1)
    assert decode(encode(replace(LAYER, weight_padding=16)), SMALL).weight_padding == 16


@given(name=st.sampled_from(sorted(encode(LAYER))), bit=st.integers(0, 31))
def test_no_bit_is_lost(name: str, bit: int) -> None:
    """A bit that is turned over makes another layer, or none."""
    words = encode(LAYER)
    words[name] ^= 1 << bit
    try:
        found = decode(words, SMALL)
    except PenstockError:
        return
    assert found != LAYER
    assert encode(found) == words


ILLEGAL: tuple[tuple[dict[str, Any], str], ...] = (
    ({"width": 0}, "width is 0"),
    ({"padding": Padding(3, 1, 1, 1)}, "padding left is 3"),
    ({"padding": Padding(1, 1, 1, -1)}, "padding bottom is -1"),
    ({"stride_x": 2, "padding": Padding(1, 0, 1, 1), "width": 11},
     "the last 1 columns are not used by any window"),
    ({"width": 1, "padding": Padding(0, 0, 1, 1)}, "a kernel spans 3 columns of 1"),
    ({"height": 1, "release": 1, "padding": Padding(1, 1, 0, 0)}, "a kernel spans 3 rows"),
    ({"kept_rows": 10}, "10 of 10 rows are kept"),
    ({"release": 11}, "11 rows are released"),
    ({"source": Surface(100, 960)}, "line_stride of the input is 100"),
    ({"source": Surface(88, 960)}, "lines of the input are 88 bytes apart"),
    ({"output": Surface(96, 960, 4)}, "address of the output is 4"),
    ({"weight_address": 128}, "the address of weights is 0x80"),
    ({"source": Surface(96, 960, 2**32)}, "an address is 0x100000000"),
    ({"weight_memory": NvdlaMemory.CVSRAM}, "second memory port"),
)  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), ILLEGAL)
def test_the_constructor_rejects_layers_that_no_hardware_runs(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        replace(LAYER, **changes)
    assert caught.value.code == "nvdla-005"


@pytest.mark.parametrize("changes", [{"data_banks": 0}, {"weight_banks": 0}, {"data_banks": 23}])
def test_banks_must_suffice_and_exist(changes: dict[str, int]) -> None:
    with pytest.raises(CapacityError, match="do not suit") as caught:
        replace(LAYER, **changes)
    assert caught.value.code == "nvdla-007"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"stride_x": 9, "width": 1, "padding": Padding(1, 1, 1, 1)}, "conv_x_stride would be 8"),
        ({"pad_value": 40000}, "pad_value would be 40000"),
        ({"fetch_grain": 4097}, "grains would be 4096"),
        ({"accumulators": Accumulators(1 << 24, 0)}, "line_stride would be 16777216"),
    ],
)
def test_values_too_large_for_registers_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(UnsupportedError, match=field) as caught:
        encode(replace(LAYER, **changes))
    assert caught.value.code == "nvdla-003"


def test_a_trimmed_input_contains_the_rows_and_columns_that_windows_read() -> None:
    for width in range(1, 30):
        for reach, stride, before, behind in (
            (1, 2, 0, 0),
            (3, 2, 1, 1),
            (5, 3, 2, 2),
            (3, 4, 0, 2),
        ):
            if before + width + behind < reach:
                continue
            trim, pad = trimmed(width, reach, stride, before, behind)
            used = (before + width + behind - reach) // stride * stride + reach - before
            assert (trim, pad) == (min(width, used), max(0, used - width))


ADDRESSES = {
    "CDMA.D_MISC_CFG": 0x3014,
    "CDMA.D_BANK": 0x30BC,
    "CSC.D_ATOMICS": 0x4044,
    "CMAC_A.D_OP_ENABLE": 0x5008,
    "CMAC_B.D_OP_ENABLE": 0x6008,
    "CACC.D_CLIP_CFG": 0x702C,
    "SDP.D_OP_ENABLE": 0x9038,
}
"""Source: NVDLA's public address map of nv_small; ours, docs/nvdla.md."""


def test_registers_have_the_addresses_of_the_map() -> None:
    assert {name: registers()[name].address for name in ADDRESSES} == ADDRESSES


def test_no_two_registers_or_fields_share_a_place() -> None:
    assert len(registers_by_address()) == len(registers())
    for register in registers().values():
        bits = [bit for f in register.fields for bit in range(f.low, f.high + 1)]
        assert len(bits) == len(set(bits))
        assert max(bits) < 32


@given(register=st.sampled_from(tuple(registers().values())), data=st.data())
def test_fields_round_trip_through_words(register: Register, data: st.DataObject) -> None:
    values = {f.name: data.draw(st.integers(f.least, f.most)) for f in register.fields}
    assert register.values(register.word(values)) == values


# Banks.  The judge counts entries one by one.


def entries_one_by_one(width: int, channels: int, entry: int, atom: int) -> int:
    """Whole entries of channels at every point; what is left shares entries between points."""
    packs = [channels - first for first in range(0, channels, atom)]
    whole = 0
    while len(packs) >= entry // atom:
        packs = packs[entry // atom :]
        whole += width
    if len(packs) == 3:
        return whole + width
    filled = 0
    for _ in range(width * len(packs)):
        filled += atom
    return whole + (filled + entry - 1) // entry


@given(
    width=st.integers(1, 200),
    channels=st.integers(1, 1000),
    hardware=st.sampled_from((SMALL, SMALL_256, LARGE)),
)
def test_entries_are_those_counted_one_by_one(width: int, channels: int, hardware: Any) -> None:
    demand = Demand(hardware, width, 1, channels, 1, 1, 1, 1)
    expected = entries_one_by_one(width, channels, hardware.entry_bytes, hardware.memory_atom_bytes)
    assert demand.slice_entries == expected


SPLITS = (
    # 16 slices of 8 * 8 entries: two banks; 9 * 64 * 64 bytes: nine.
    (Demand(SMALL, 8, 16, 64, 64, 9, 3, 1), BankSplit(ResidentWeights.ALL, 2, 9, 16, 2)),
    # Weights of 1 MiB; a group is 18 KiB and a little, five banks, twice that ten.
    (Demand(SMALL, 8, 16, 256, 512, 9, 3, 1), BankSplit(ResidentWeights.TWO_GROUPS, 8, 10, 16, 2)),
    # Groups of 36 KiB, ten banks with the room behind them; 16 slices of 512 entries.
    (Demand(SMALL, 8, 16, 512, 512, 9, 3, 1), BankSplit(ResidentWeights.ONE_GROUP, 16, 10, 16, 2)),
    # 56 slices of 448 entries are too many: those that fit beside all nine banks of weights.
    (Demand(SMALL, 56, 56, 64, 64, 9, 3, 1), BankSplit(ResidentWeights.ALL, 23, 9, 26, 2)),
    (Demand(SMALL, 56, 56, 64, 64, 1, 1, 2), BankSplit(ResidentWeights.ALL, 31, 1, 35, 0)),
)


@pytest.mark.parametrize(("demand", "expected"), SPLITS)
def test_the_first_split_that_fits_is_taken(demand: Demand, expected: BankSplit) -> None:
    assert allocate(demand) == expected


def test_pieces_cover_the_input() -> None:
    demand, split = SPLITS[3]
    rows = split.rows
    for pieces in range(1, 10):
        if pieces == split.pieces(demand.height):
            break
        assert rows < demand.height
        rows += split.rows - split.overlap
    assert rows >= demand.height


def test_an_infeasible_split_is_an_error() -> None:
    with pytest.raises(CapacityError, match="of 32") as caught:
        allocate(Demand(SMALL, 8192, 8, 8, 8, 9, 3, 1))
    assert caught.value.code == "nvdla-006"


def test_a_layer_that_takes_some_rows_over_says_so_to_the_core() -> None:
    """Otherwise the core releases them, and waits for rows that are not fetched."""
    layer = replace(LAYER, kept_rows=3)
    words = encode(layer)
    for name in ("CDMA.D_MISC_CFG", "CSC.D_MISC_CFG"):
        assert registers()[name].values(words[name])["data_reuse"] == 1
        with pytest.raises(UnsupportedError, match="D_MISC_CFG is") as caught:
            decode({**words, name: words[name] & ~(1 << 16)}, SMALL)
        assert caught.value.code == "nvdla-008"
    assert decode(words, SMALL) == layer
    with pytest.raises(UnsupportedError, match="all rows are reused, 3 are kept"):
        replace(layer, reuse=Reuse(data=True))
