"""SDP and PDP of NVDLA: registers, and results worked out on paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BackendError, UnsupportedError
from penstock.ir.tensor import Array
from penstock_nvdla.configurations import LARGE, SMALL, NvdlaConfiguration
from penstock_nvdla.layer import Conversion, NvdlaMemory, Padding, Surface
from penstock_nvdla.model import execute
from penstock_nvdla.pdp import POOLING, PoolingLayer, PoolingMethod
from penstock_nvdla.registers import CONVOLUTION
from penstock_nvdla.sdp import (
    LAYER as SDP,
)
from penstock_nvdla.sdp import (
    Algorithm,
    SdpLayer,
    SdpOperations,
    SdpUnit,
    SdpUnitY,
    Use,
    added_elements,
    decode_operations,
    decode_sdp,
    encode_operations,
    per_channel,
)
from penstock_nvdla.stream import pooling_writes, sdp_writes, to_bytes, to_text

ROW = Surface.packed(2, 1, 8)
"""Two pixels of a pack of eight channels."""
OUT = replace(ROW, address=64)
LAYER = SdpLayer(2, 1, 8, ROW, OUT)


def run(
    image: list[int], operations: SdpOperations, conversion: Conversion, **more: bytes
) -> list[int]:
    """The elements that a layer of SDP writes; `operands` are at address 128."""
    memory = np.zeros(512, np.uint8)
    memory[: len(image)] = np.array(image, np.int8).view(np.uint8)
    for content in more.values():
        memory[128 : 128 + len(content)] = list(content)
    layer = replace(LAYER, conversion=conversion)
    execute(to_bytes(sdp_writes(layer, operations)), {NvdlaMemory.MAIN: memory}, SMALL)
    return memory[64 : 64 + len(image)].astype(np.int8).tolist()


def test_a_unit_adds_multiplies_and_rounds_ties_away_from_zero() -> None:
    """(x + (3 << 2)) * -7 / 8: 17 * -7 / 8 = -14.875; 4 * -7 / 8 = -3.5; -4 * -7 / 8 = 3.5."""
    operands = np.array([[3, -7]] * 8, "<i2").tobytes()
    unit = per_channel(2, 3, 128, one_sided=False)
    image = [5, -8, -16] + [0] * 13
    found = run(image, SdpOperations(unit), Conversion(), operands=operands)
    assert found[:3] == [-15, -4, 4]
    one_sided = SdpOperations(replace(unit, skip_clamp=False))
    assert run(image, one_sided, Conversion(), operands=operands)[:3] == [0, 0, 4]


def test_the_converter_subtracts_its_offset_and_saturates() -> None:
    image = [100, -100, 0, 1] + [0] * 12
    assert run(image, SdpOperations(), Conversion(-90, 1))[:4] == [127, -10, 90, 91]
    assert run(image, SdpOperations(), Conversion(3, -1))[:4] == [-97, 103, 3, 2]


def test_elements_of_a_second_tensor_are_added() -> None:
    second = bytes(range(16))
    unit = added_elements(Surface(16, 16, 128))
    found = run([10] * 16, SdpOperations(unit), Conversion(4), second=second)
    assert found == [10 + k - 4 for k in range(16)]


def test_maximum_and_minimum_with_an_operand_of_a_register() -> None:
    unit = SdpUnit(False, skip_multiplication=True, skip_clamp=True, addend=3, left_shift=1)
    image = [5, 6, 7, -8] + [0] * 12
    assert run(image, SdpOperations(unit), Conversion())[:4] == [6, 6, 7, 6]
    least = replace(unit, algorithm=Algorithm.SMALLEST)
    assert run(image, SdpOperations(least), Conversion())[:4] == [5, 6, 6, -8]


def test_operands_of_two_bytes_per_element_are_refused() -> None:
    unit = replace(added_elements(Surface(16, 16, 128)), two_bytes=True)
    with pytest.raises(BackendError, match="several bytes per element"):
        run([0] * 16, SdpOperations(unit), Conversion())


def weighted(image: list[int], second: list[int], y: SdpUnitY, chip: NvdlaConfiguration) -> Array:
    """The elements that a layer with unit Y writes: a pixel, of which the second one is at 128."""
    pixel = Surface.packed(1, 1, 32)
    memory = np.zeros(512, np.uint8)
    memory[: len(image)] = np.array(image, np.int8).view(np.uint8)
    memory[128 : 128 + len(second)] = np.array(second, np.int8).view(np.uint8)
    layer = SdpLayer(1, 1, 32, pixel, replace(pixel, address=64))
    writes = sdp_writes(layer, SdpOperations(y=y))
    execute(to_bytes(writes), {NvdlaMemory.MAIN: memory}, chip)
    return memory[64 : 64 + len(image)].astype(np.int8)


def test_unit_y_weights_a_second_tensor_and_adds_it() -> None:
    """5 * 7 / 2 = 17.5 and (3 - 1) * 5 / 4 = 2.5; -8 * 7 / 2 = -28; 100 * 7 / 2 = 350 and (-1 - 1)
    * 5 / 4 = -2.5; all ties are rounded away from zero."""
    y = SdpUnitY(7, 5, 128, 32, 32, right_shift=1, offset=1, shift=2)
    assert weighted([5, -8, 100], [3, 3, -1], y, LARGE).tolist() == [18 + 3, -28 + 3, 127]
    long = replace(y, factor=-(1 << 24), right_shift=24)
    assert weighted([5, -8], [1, 1], long, LARGE).tolist() == [-5, 8]
    with pytest.raises(BackendError, match="small has no unit Y"):
        weighted([5], [3], y, SMALL)


def test_unit_y_scales_and_adds_operands_of_each_channel() -> None:
    """round(5 * 3 / 2) + 1 = 9, round(-5 * 1 / 2) - 2 = -5, and 4 * 0 + 7 = 7."""
    operands = np.array([1, 3, -2, 1, 7, 0], "<i2").view(np.int8).tolist()
    y = SdpUnitY(0, 1, 128, right_shift=1, by_channel=True)
    assert weighted([5, -5, 4], operands, y, LARGE).tolist() == [9, -5, 7]
    assert decode_operations(encode_operations(SdpOperations(y=y))).y == y


def test_other_modes_of_unit_y_are_refused() -> None:
    words = encode_operations(SdpOperations(y=SdpUnitY(7, 5)))
    words["SDP.D_DP_EW_CFG"] &= ~(1 << 6)  # its lookup table
    with pytest.raises(UnsupportedError, match=r"D_DP_EW_CFG is 0x8, must be 0x48"):
        decode_operations(words)


def test_a_code_that_the_hardware_does_not_define_is_refused() -> None:
    words = encode_operations(SdpOperations())
    words["SDP.D_DP_BS_CFG"] |= 3 << 2
    with pytest.raises(UnsupportedError, match=r"the code of algorithm is 3, must be one of") as e:
        decode_operations(words)
    assert e.value.code == "nvdla-008"


def pooled(image: list[list[int]], layer: PoolingLayer) -> list[list[int]]:
    """The first channel of what a layer of PDP writes."""
    memory = np.zeros(4096, np.uint8)
    height, width = len(image), len(image[0])
    memory[: height * width * 8 : 8] = np.array(image, np.int8).view(np.uint8).ravel()
    execute(to_bytes(pooling_writes(layer)), {NvdlaMemory.MAIN: memory}, SMALL)
    count = layer.out_height * layer.out_width
    found = memory[2048 : 2048 + count * 8 : 8].astype(np.int8)
    return found.reshape(layer.out_height, layer.out_width).tolist()


def pooling(method: PoolingMethod, **more: object) -> PoolingLayer:
    """A layer with windows of 2x2 and stride 2 over 4x2 elements."""
    source, output = Surface.packed(4, 2, 8), Surface.packed(2, 1, 8, 2048)
    layer = PoolingLayer(method, 4, 2, 8, 2, 2, source, output, 2, 2)
    return replace(layer, **more)  # pyright: ignore[reportArgumentType]


def test_pdp_pools_and_rounds_ties_away_from_zero() -> None:
    """1 + 2 + 3 + 4 = 10, a quarter of it 2.5; -1 - 2 - 3 - 4 = -10."""
    image = [[1, 2, -1, -2], [3, 4, -3, -4]]
    assert pooled(image, pooling(PoolingMethod.LARGEST)) == [[4, -1]]
    assert pooled(image, pooling(PoolingMethod.SMALLEST)) == [[1, -4]]
    average = pooling(PoolingMethod.AVERAGE, factor_x=1 << 16, factor_y=1 << 14)
    assert pooled(image, average) == [[3, -3]]


def test_an_average_adds_constants_for_padding() -> None:
    """A column of padding on the left: windows of columns {padding, 0} and {1, 2}."""
    image = [[1, 2, 4, 9], [3, 4, 8, 9]]
    layer = pooling(
        PoolingMethod.AVERAGE,
        width=3,
        padding=Padding(left=1),
        source=Surface(32, 64),
        factor_x=1 << 16,
        factor_y=1 << 16,
        sums=(10, *(0,) * 6),
    )
    assert pooled(image, layer) == [[1 + 3 + 20, 2 + 4 + 4 + 8]]


units = st.builds(
    SdpUnit,
    *(st.booleans(), st.booleans(), st.sampled_from(Algorithm), st.booleans(), st.booleans()),
    *(st.booleans(), st.booleans(), st.integers(0, 63), st.integers(-(1 << 15), (1 << 15) - 1)),
    *(st.booleans(), st.integers(0, 255), st.integers(-(1 << 15), (1 << 15) - 1)),
    *(st.booleans(), st.sampled_from(Use), st.booleans(), st.booleans()),
    *(st.sampled_from(NvdlaMemory), st.integers(0, 1 << 40), st.integers(0, 1 << 20)),
    st.integers(0, 1 << 20),
)


third = st.builds(
    SdpUnitY,
    *(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 15), (1 << 15) - 1)),
    *(st.integers(0, 1 << 40), st.integers(0, 1 << 20), st.integers(0, 1 << 20)),
    *(st.sampled_from(NvdlaMemory), st.integers(0, 63), st.integers(-(1 << 31), (1 << 31) - 1)),
    st.integers(0, 63),
)


@settings(max_examples=20)
@given(first=units, second=units, y=st.none() | third)
def test_units_decode_as_they_were_encoded(
    first: SdpUnit, second: SdpUnit, y: SdpUnitY | None
) -> None:
    operations = SdpOperations(first, second, y)
    assert decode_operations(encode_operations(operations)) == operations
    assert decode_sdp(SDP.encode(LAYER)) == LAYER


def test_pooling_decodes_as_it_was_encoded_and_text_separates_layers() -> None:
    layer = pooling(PoolingMethod.AVERAGE, factor_x=7, factor_y=9, sums=(1, 2, 3, 0, 0, 0, 0))
    assert POOLING.decode(POOLING.encode(layer)) == layer
    text = to_text((*pooling_writes(layer), *sdp_writes(LAYER, SdpOperations())))
    assert [part.splitlines()[-1].split()[0] for part in text.split("\n\n") if part] == [
        *("PDP_RDMA.D_OP_ENABLE", "SDP_RDMA.D_OP_ENABLE"),
    ]


def test_convolutions_set_no_operands_of_units() -> None:
    """Operands matter only if units are used; in streams, each register takes eight bytes."""
    names = set(CONVOLUTION.names)
    assert {name for name in names if name.startswith("SDP.D_DP_")} == {
        *("SDP.D_DP_BS_CFG", "SDP.D_DP_BN_CFG", "SDP.D_DP_EW_CFG"),
    }
