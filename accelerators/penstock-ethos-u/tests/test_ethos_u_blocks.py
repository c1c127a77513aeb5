"""ethos_u: configurations, and the blocks in which operations are computed, beside Vela's own."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock_ethos_u.blocks import ComputeKind, Extent, NpuWork, fitting_blocks
from penstock_ethos_u.configurations import CONFIGURATIONS, MapShape, configuration
from penstock_ethos_u.performance import PORT_WEIGHT, best_block, cycles

api = pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")


@st.composite
def works(draw: st.DrawFn) -> NpuWork:
    """Operations of any kind, on small images."""
    chips = [chip for chip in CONFIGURATIONS.values() if chip.memories is None]
    chip = draw(st.sampled_from(chips))
    kind = draw(st.sampled_from(tuple(ComputeKind)))
    out = MapShape(*(draw(st.integers(1, most)) for most in (40, 40, 150)))
    window = stride = dilation = Extent(1, 1)
    if kind is not ComputeKind.ELEMENTWISE:
        window = Extent(*(draw(st.integers(1, 11)) for _ in range(2)))
        stride = Extent(*(draw(st.integers(1, 3)) for _ in range(2)))
    if kind in (ComputeKind.CONVOLUTION, ComputeKind.DEPTHWISE):
        dilation = Extent(*(draw(st.integers(1, 2)) for _ in range(2)))
    convolution = kind is ComputeKind.CONVOLUTION
    reach = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    image = [(o - 1) * s + r for o, s, r in zip(out, stride, reach, strict=False)]
    return NpuWork(
        chip, kind, MapShape(*image, draw(st.integers(1, 70)) if convolution else out.depth), out,
        0.5, window, stride, dilation,
        binary=kind is ComputeKind.ELEMENTWISE and draw(st.booleans()),
        lookup=kind is ComputeKind.POOLING and draw(st.booleans()),
        part_kernel=convolution and draw(st.booleans()),
        packed_input=draw(st.booleans()), packed_output=draw(st.booleans()),
    )  # fmt: skip


def vela_blocks(work: NpuWork) -> set[tuple[int, int, int]]:
    """What Vela's function for users of its interface finds."""
    made = {
        ComputeKind.CONVOLUTION: api.NpuConv2DOperation,
        ComputeKind.DEPTHWISE: api.NpuConvDepthWiseOperation,
        ComputeKind.POOLING: lambda: api.NpuPoolingOperation(api.NpuPoolingOp.MAX),
        ComputeKind.ELEMENTWISE: lambda: api.NpuElementWiseOperation(api.NpuElementWiseOp.ADD),
    }[work.kind]()
    if work.kind is ComputeKind.CONVOLUTION:
        orders = api.NpuBlockTraversal
        made.block_traversal = orders.PART_KERNEL_FIRST if work.part_kernel else orders.DEPTH_FIRST
    made.ifm, made.ofm = _map(work.input), _map(work.output)
    if work.kind is ComputeKind.ELEMENTWISE:
        made.ifm2 = _map(work.output)
        made.ifm2_scalar = None if work.binary else 1.0
    else:
        made.kernel = api.NpuKernel(
            work.window.width, work.window.height, work.stride.width, work.stride.height,
            work.dilation.width, work.dilation.height,
        )  # fmt: skip
    kinds = api.NpuActivationOp
    made.activation = api.NpuActivation(kinds.TABLE_LOOKUP if work.lookup else kinds.NONE_OR_RELU)
    name = work.chip.name.replace("ethos-u", "Ethos_U").replace("-", "_")
    with contextlib.redirect_stdout(io.StringIO()):
        found = api.npu_find_block_configs(made, api.NpuAccelerator[name])
    return {(height, width, depth) for height, width, depth in found}


def _map(shape: MapShape) -> Any:
    found = api.NpuFeatureMap()
    found.data_type = api.NpuDataType.INT8
    found.shape = api.NpuShape3D(*shape)
    found.quantization = api.NpuQuantization(1.0, 0)
    return found


@settings(max_examples=40, deadline=None)
@given(works())
def test_the_blocks_that_fit_are_those_that_vela_finds(work: NpuWork) -> None:
    """Vela's function tries even heights and widths only, also beyond the output."""
    found = {tuple(block) for block in fitting_blocks(work).tolist()}
    if not found:
        with pytest.raises(AssertionError):
            vela_blocks(work)
        return
    micro, most = work.chip.micro_block, MapShape(32, 64, 128)
    heights, widths = (
        range(0, min(work.output[k], most[k]) + micro[k], micro[k]) for k in range(2)
    )
    wanted = {b for b in vela_blocks(work) if b[0] in heights and b[1] in widths}
    assert {b for b in found if b[0] % 2 == b[1] % 2 == 0} == wanted


@settings(max_examples=40, deadline=None)
@given(works())
def test_no_other_block_is_better_than_the_best(work: NpuWork) -> None:
    best = best_block(work)
    if best is None:
        return
    least = one(work, best)
    assert all(least <= one(work, block) + 0.01 for block in fitting_blocks(work)[::7].tolist())


def one(work: NpuWork, block: Iterable[int]) -> float:
    """Cycles with a block size, and a little of those in which it keeps ports from copies."""
    found = cycles(work, np.array([list(block)]))
    return float((found.total + PORT_WEIGHT * (found.features + found.constants))[0])


@pytest.mark.parametrize(
    ("family", "macs", "mode", "code"),
    [
        ("ethos-u55", 512, "shared_sram", "usage-050"),
        ("ethos-u65", 128, "shared_sram", "usage-050"),
        ("ethos-u55", 128, "dedicated_sram", "usage-051"),
        ("ethos-u65", 256, "dram", "usage-051"),
    ],
)
def test_unknown_configurations_are_refused(family: str, macs: int, mode: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        configuration(family, macs, mode)
    assert caught.value.code == code


def test_in_sram_alone_constants_are_read_as_fast_as_features() -> None:
    chip = configuration("ethos-u65", 256, "sram_only")
    assert chip.constants is chip.features
