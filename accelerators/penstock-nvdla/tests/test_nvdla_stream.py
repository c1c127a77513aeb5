"""Streams of NVDLA's registers: bytes and text are equivalent; malformed ones are refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvdla_layers import layers
from penstock.errors import BackendError, UnsupportedError
from penstock_nvdla.bindings import registers
from penstock_nvdla.configurations import SMALL
from penstock_nvdla.layer import Accumulators, ConvolutionLayer, Surface
from penstock_nvdla.registers import decode
from penstock_nvdla.stream import (
    Write,
    convolution_writes,
    from_bytes,
    from_text,
    to_bytes,
    to_text,
)

PACKED = Surface.packed(8, 4, 8)
LAYER = ConvolutionLayer(
    SMALL, 8, 4, 16, 8, 1, 1, PACKED, PACKED, Accumulators(64, 256),
    data_banks=1, weight_banks=1, release=4,
)  # fmt: skip


@given(layer=layers())
def test_a_stream_is_the_same_as_bytes_and_as_text(layer: ConvolutionLayer) -> None:
    writes = convolution_writes(layer)
    stream = to_bytes(writes)
    text = to_text(from_bytes(stream))
    assert from_bytes(stream) == writes
    assert to_bytes(from_text(text)) == stream
    assert to_text(from_text(text)) == text


@given(layer=layers())
def test_a_layer_round_trips_through_a_stream(layer: ConvolutionLayer) -> None:
    words = {w.register: w.word for w in from_bytes(to_bytes(convolution_writes(layer)))}
    assert decode(words, layer.hardware) == layer


def test_units_are_started_against_the_direction_of_data() -> None:
    started = [w.starts for w in convolution_writes(LAYER) if w.starts]
    assert started == ["SDP", "CACC", "CMAC_B", "CMAC_A", "CSC", "CDMA"]


def test_a_write_is_an_address_and_a_word() -> None:
    stream = to_bytes([Write("CSC.D_ATOMICS", 63), Write("CDMA.D_OP_ENABLE", 1)])
    assert struct.unpack("<4I", stream) == (0x4044, 63, 0x3010, 1)
    assert to_text(from_bytes(stream)) == (
        "CSC.D_ATOMICS 0x0000003f atomics=63\nCDMA.D_OP_ENABLE 0x00000001 op_en=1\n\n"
    )


def test_text_may_have_comments_and_leave_fields_out() -> None:
    text = "# a layer\n\nCSC.D_BANK 0x10002 # three and two\nCSC.D_ATOMICS 63 atomics=63\n"
    assert from_text(text) == (Write("CSC.D_BANK", 0x10002), Write("CSC.D_ATOMICS", 63))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CSC.D_COLOUR 1\n", "line 1.*no register CSC.D_COLOUR|no register CSC.D_COLOUR"),
        ("\nCSC.D_ATOMICS\n", "is not followed by a 32-bit word"),
        ("CSC.D_ATOMICS many\n", "is not followed by a 32-bit word"),
        ("CSC.D_ATOMICS 0x100000000\n", "is not followed by a 32-bit word"),
        ("CSC.D_ATOMICS 0x3f atomics=62\n", "has other fields than are written"),
    ],
)
def test_malformed_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(BackendError, match=message) as caught:
        from_text(text)
    assert caught.value.code == "nvdla-011"
    assert f"line {text.index('CSC') + 1}" in caught.value.where


@pytest.mark.parametrize(
    ("stream", "message", "where"),
    [
        (bytes(12), "12 bytes, which is not a multiple of 8", "byte 8"),
        (to_bytes([Write("CSC.D_BANK", 1)]) + bytes(8), "no register at 0x0", "byte 8"),
        (struct.pack("<2I", 0x4045, 0), "no register at 0x4045", "byte 0"),
    ],
)
def test_malformed_bytes_are_refused(stream: bytes, message: str, where: str) -> None:
    with pytest.raises(BackendError, match=message) as caught:
        from_bytes(stream)
    assert where in caught.value.where


@given(stream=st.binary(max_size=64))
def test_any_bytes_are_a_stream_or_refused(stream: bytes) -> None:
    try:
        writes = from_bytes(stream)
    except BackendError:
        return
    assert to_bytes(writes) == stream


def test_text_shows_no_bits_of_no_field() -> None:
    name = "CMAC_A.D_MISC_CFG"
    assert sum(f.most for f in registers()[name].fields) < 2**31
    with pytest.raises(UnsupportedError, match="outside its fields"):
        to_text([Write(name, 1 << 31)])
