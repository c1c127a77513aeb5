"""Random layers that NVDLA supports."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from penstock_nvdla.configurations import CONFIGURATIONS, NvdlaConfiguration
from penstock_nvdla.layer import (
    Accumulators,
    Conversion,
    ConvolutionLayer,
    Demand,
    NvdlaMemory,
    Padding,
    Pixels,
    ResidentWeights,
    Reuse,
    Surface,
)

Draw = st.DrawFn


@st.composite
def configurations(draw: Draw) -> NvdlaConfiguration:
    """Configurations of NVDLA."""
    return draw(st.sampled_from(tuple(CONFIGURATIONS.values())))


@st.composite
def layers(draw: Draw) -> ConvolutionLayer:
    """Layers of every size that registers can hold and the buffer's banks can store."""
    hardware = draw(configurations())
    atom = hardware.memory_atom_bytes
    kernel = [draw(st.integers(1, 8)) for _ in range(2)]
    dilation = [draw(st.integers(1, 4)) for _ in range(2)]
    stride = [draw(st.integers(1, 8)) for _ in range(2)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    before = [draw(st.integers(0, r - 1)) for r in reach]
    out = [draw(st.integers(1, 40)) for _ in range(2)]
    behind, size = [0, 0], [0, 0]
    for axis in range(2):
        needed = (out[axis] - 1) * stride[axis] + reach[axis] - before[axis]
        behind[axis] = draw(st.integers(0, max(0, min(reach[axis] - 1, needed - 1))))
        size[axis] = needed - behind[axis]
    assume(all(1 <= n <= 8192 for n in size))
    assume(all(b < 32 for b in before))
    channels, kernels = draw(st.integers(1, 300)), draw(st.integers(1, 300))
    demand = Demand(
        hardware, size[1], size[0], channels, kernels, kernel[0] * kernel[1], reach[0], stride[0]
    )
    least = (
        demand.data_banks(min(size[0], reach[0])),
        demand.weight_banks(ResidentWeights.ONE_GROUP),
    )
    assume(sum(least) <= hardware.banks)
    data_banks = draw(st.integers(least[0], hardware.banks - least[1]))
    weight_banks = draw(st.integers(least[1], hardware.banks - data_banks))
    flags = st.booleans()
    reuse = Reuse(*(draw(flags) for _ in range(4)))
    return ConvolutionLayer(
        hardware, size[1], size[0], channels, kernels, kernel[1], kernel[0],
        source=draw(surfaces(hardware, size[1])),
        output=draw(surfaces(hardware, out[1])),
        accumulators=Accumulators(
            draw(st.integers(0, 1000)) * atom, draw(st.integers(0, 1000)) * atom,
            draw(flags), draw(flags), draw(st.integers(0, 31)),
        ),
        data_banks=data_banks,
        weight_banks=weight_banks,
        release=draw(st.integers(1, min(size[0], 4096))),
        stride_x=stride[1], stride_y=stride[0],
        dilation_x=dilation[1], dilation_y=dilation[0],
        padding=Padding(before[1], behind[1], before[0], behind[0]),
        pad_value=draw(st.integers(-(2**15), 2**15 - 1)),
        source_line_packed=draw(flags), source_surface_packed=draw(flags),
        weight_address=draw(st.integers(0, 2**20)) * 256,
        kept_rows=0 if reuse.data else draw(st.integers(0, size[0] - 1)),
        fetch_grain=draw(st.integers(1, 4096)),
        reuse=reuse,
        conversion=Conversion(
            draw(st.integers(-(2**31), 2**31 - 1)), draw(st.integers(-(2**15), 2**15 - 1)),
            draw(st.integers(0, 63)), draw(flags),
        ),
        pixels=Pixels(draw(st.integers(0, 63)), draw(st.integers(0, 1)), draw(st.integers(0, 1))),
    )  # fmt: skip


@st.composite
def surfaces(draw: Draw, hardware: NvdlaConfiguration, width: int) -> Surface:
    """Memory for surfaces of a number of columns, with gaps."""
    atom = hardware.memory_atom_bytes
    memories = [NvdlaMemory.MAIN, *[NvdlaMemory.CVSRAM] * (hardware.sram is not None)]
    return Surface(
        (width + draw(st.integers(0, 5))) * atom,
        draw(st.integers(0, 10**6)) * atom,
        draw(st.integers(0, 2**26)) * atom,
        draw(st.sampled_from(memories)),
    )
