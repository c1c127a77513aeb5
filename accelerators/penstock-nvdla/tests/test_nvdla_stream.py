"""Streams of NVDLA's registers: bytes and text are equivalent; malformed ones are refused."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvdla_layers import layers
from penstock.errors import BackendError, UnsupportedError
from penstock_nvdla.bindings import registers
from penstock_nvdla.configurations import SMALL
from penstock_nvdla.extension import (
    POST,
    WINDOW,
    ElementwiseMode,
    Post,
    Range,
    Scale,
    WindowKind,
    WindowLayer,
)
from penstock_nvdla.layer import Accumulators, ConvolutionLayer, NvdlaMemory, Padding, Surface
from penstock_nvdla.registers import decode
from penstock_nvdla.stream import (
    Write,
    convolution_writes,
    from_bytes,
    from_text,
    to_bytes,
    to_text,
    window_writes,
)

PACKED = Surface.packed(8, 4, 8)
LAYER = ConvolutionLayer(
    SMALL, 8, 4, 16, 8, 1, 1, PACKED, PACKED, Accumulators(64, 256),
    data_banks=1, weight_banks=1, release=4,
)  # fmt: skip

words32 = st.integers(-(2**31), 2**31 - 1)
strides = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 2**16)
memories = st.sampled_from(NvdlaMemory)
surfaces = st.builds(Surface, strides, strides, st.integers(0, 2**64 - 1), memories)
ranges = st.builds(Range, st.integers(-128, 127), st.integers(-128, 127))
scales = st.builds(Scale, words32, words32, words32)
posts = st.builds(
    Post, st.booleans(), st.integers(0, 2**64 - 1), words32, ranges,
    st.sampled_from(ElementwiseMode), surfaces, scales, scales, scales, ranges,
)  # fmt: skip


@st.composite
def window_layers(draw: st.DrawFn) -> WindowLayer:
    """Any layer of unit WINDOW."""
    window = [draw(st.integers(1, 9)) for _ in range(2)]
    kind = draw(st.sampled_from(WindowKind))
    dilation = [draw(st.integers(1, 3)) if kind is WindowKind.DEPTHWISE else 1 for _ in "xy"]
    size = [(k - 1) * d + draw(st.integers(1, 500)) for k, d in zip(window, dilation, strict=True)]
    multiplier = draw(st.integers(1, 4))
    reach = [(k - 1) * d for k, d in zip(window, dilation, strict=True)]
    return WindowLayer(
        kind, size[0], size[1], draw(st.integers(1, 2000)),
        window[0], window[1], draw(surfaces), draw(surfaces),
        draw(st.integers(1, 9)), draw(st.integers(1, 9)), dilation[0], dilation[1],
        Padding(*(draw(st.integers(0, reach[k])) for k in (0, 0, 1, 1))),
        draw(st.integers(-128, 127)), multiplier, draw(st.integers(0, 2**64 - 1)),
    )  # fmt: skip


@given(layer=layers(), post=st.none() | posts)
def test_a_stream_is_the_same_as_bytes_and_as_text(
    layer: ConvolutionLayer, post: Post | None
) -> None:
    writes = convolution_writes(layer, post)
    stream = to_bytes(writes)
    text = to_text(from_bytes(stream))
    assert from_bytes(stream) == writes
    assert to_bytes(from_text(text)) == stream
    assert to_text(from_text(text)) == text


@given(layer=layers(), post=posts)
def test_a_layer_round_trips_through_a_stream(layer: ConvolutionLayer, post: Post) -> None:
    words = {w.register: w.word for w in from_bytes(to_bytes(convolution_writes(layer, post)))}
    assert decode(words, layer.hardware) == layer
    assert POST.decode(words) == post


@given(layer=window_layers(), post=posts)
def test_layers_of_the_extension_come_back(layer: WindowLayer, post: Post) -> None:
    assert WINDOW.decode(WINDOW.encode(layer)) == layer
    assert POST.decode(POST.encode(post)) == post
    words = {w.register: w.word for w in from_bytes(to_bytes(window_writes(layer, post)))}
    assert (WINDOW.decode(words), POST.decode(words)) == (layer, post)


def test_units_are_started_against_the_direction_of_data() -> None:
    started = [w.starts for w in convolution_writes(LAYER, Post()) if w.starts]
    assert started == ["SDP", "POST", "CACC", "CMAC_B", "CMAC_A", "CSC", "CDMA"]
    layer = WindowLayer(WindowKind.MEAN, 4, 4, 8, 2, 2, PACKED, PACKED)
    assert [w.starts for w in window_writes(layer) if w.starts] == ["SDP", "WINDOW"]


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


@pytest.mark.parametrize("unit", ["POST", "WINDOW"])
def test_every_register_of_the_extension_is_documented(unit: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "nvdla.md").read_text("utf-8")
    section = page.partition(f"**{unit}** (")[2].partition("\n\n**")[0]
    base = int(section.partition(")")[0], 0)
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| 0x")]
    said = {name.strip("`"): (int(offset[2:], 0), fields) for offset, name, fields in rows}
    expected = [r for r in registers().values() if r.name.startswith(f"{unit}.")]
    assert [f"{unit}.{name}" for name in said] == [r.name for r in expected]
    for register, (offset, fields) in zip(expected, said.values(), strict=True):
        assert register.address == base + offset
        assert fields.partition(":")[0].strip(" |").split(", ") == [f.name for f in register.fields]


WINDOWS = (
    {"window_width": 5},
    {"window_height": 3, "dilation_y": 2, "kind": WindowKind.DEPTHWISE},
    {"padding": Padding(left=1)},
    {"window_height": 2, "padding": Padding(bottom=2)},
)


@pytest.mark.parametrize("change", WINDOWS)
def test_a_window_must_fit_and_reach_beyond_the_padding(change: dict[str, Any]) -> None:
    size: Any = {"kind": WindowKind.MEAN, "window_width": 1, "window_height": 1, **change}
    with pytest.raises(UnsupportedError, match="does not fit") as caught:
        WindowLayer(width=4, height=4, channels=8, source=PACKED, output=PACKED, **size)
    assert caught.value.code == "nvdla-009"
