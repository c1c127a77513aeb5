"""Law: portable kernels with certified forms compute what the operators' arithmetic says, and so
does the convolution of cores with DSP extension where channels are outside its form."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample, bias, int8, integers, sample, weights
from c_kernels import Library
from core_kernels import CoreLibrary
from dsp_layers import layers
from found import SAMPLES
from kernel_cases import Case
from penstock.backends.cores.common import layer as layer_module
from penstock.backends.cores.common.layer import (
    Requantised,
    certificate,
    reference_channels,
    with_forms,
)
from penstock.backends.cores.dsp.kernels import dsp_kernel
from penstock.ir.op import Kernel, Op, Site
from penstock.ir.tensor import Data
from penstock.opkit.layers import WIDE
from penstock.opkit.requantise import Multipliers, SumRequantisation
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D
from penstock.ops.running import RequantiseLast
from penstock.requantisation.certify import Certificate, ChannelCertificate, certify_each
from penstock.requantisation.form import Class
from strategies import seeds

NAMES = (
    *("conv2d_s8", "depthwise_conv2d_s8", "fully_connected_s8", "transpose_conv_s8"),
    *("requantise_s32", "conv2d_s8_dsp"),
)
MOST = 2**20
"""Beyond all totals that tests draw."""
LAST = sample(
    RequantiseLast(Multipliers.of([2.0**-14, 0.0004, 0.3]), reach=((-MOST, MOST),) * 3),
    integers(1, 4, 2, 3),
)
REQUANTISED = [
    LAST,
    *(
        s
        for _, s in SAMPLES
        if isinstance(s.op, Requantised)
        and not isinstance(s.op, SumRequantisation)
        and all(x.dtype is not WIDE for x in s.site.inputs)
    ),
]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> CoreLibrary:
    for name in ("ziglang", "unicorn"):
        pytest.importorskip(name, reason="the extra 'simulate' is not installed")
    return CoreLibrary(NAMES, tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="module")
def host(host_compilers: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(set(NAMES), host_compilers[0], tmp_path_factory.mktemp("host"))


def certified(found: Sample) -> Kernel:
    """The portable kernel of a layer with certified forms, which it must have."""
    kernel = with_forms(found.op, found.site, found.op.kernel(found.site))
    assert "forms" in dict(kernel.tables)
    assert not {"multiplier", "shift"} & dict(kernel.tables).keys()
    return kernel


@given(found=st.one_of(st.sampled_from(REQUANTISED), layers()), data=st.data(), seed=seeds)
def test_certified_forms_on_this_machine(
    host: Library, found: Sample, data: st.DataObject, seed: int
) -> None:
    assume(isinstance(found.op, Requantised))
    case = Case(found, certified(found), data, seed)
    host.run(case.sample, case.inputs, case.output, case.rows, case.kernel)
    case.check()


@pytest.mark.parametrize("found", REQUANTISED, ids=lambda s: type(s.op).__name__)
@given(data=st.data(), seed=seeds)
def test_certified_forms_on_the_core(
    core: CoreLibrary, found: Sample, data: st.DataObject, seed: int
) -> None:
    case = Case(found, certified(found), data, seed)
    core.run(case.kernel, case.inputs, case.output, case.rows, found.site)
    case.check()


@given(found=layers(), data=st.data(), seed=seeds)
def test_channels_without_a_form_keep_the_reference_beside_others(
    host: Library, found: Sample, data: st.DataObject, seed: int
) -> None:
    assume(isinstance(found.op, Requantised))
    assert isinstance(found.op, Requantised)
    channels = reference_channels(found.op, found.site)
    every = certify_each(channels)
    some = np.random.default_rng(seed).random(len(every)) < 0.5
    lone = [
        ChannelCertificate(Class.D, None) if d else one for d, one in zip(some, every, strict=True)
    ]
    with patch.object(layer_module, "certify_each", return_value=tuple(lone)):
        numbers = layer_module.channel_forms(channels)
    with patch.object(layer_module, "certified_forms", return_value=numbers):
        kernel = with_forms(found.op, found.site, found.op.kernel(found.site))
    assert kernel.classes.count("D") >= some.sum()
    case = Case(found, kernel, data, seed)
    host.run(case.sample, case.inputs, case.output, case.rows, case.kernel)
    case.check()


def test_totals_that_can_be_anything_keep_the_reference() -> None:
    op = RequantiseLast(Multipliers.of([0.0004] * 3))
    kernel = with_forms(op, LAST.site, op.kernel(LAST.site))
    assert kernel.classes == "DDD"
    assert kernel.tables == op.kernel(LAST.site).tables


class Outside:
    """Certificates with some channels more outside."""

    def __init__(self, seed: int, part: float) -> None:
        self._seed, self._part = seed, part

    def __call__(self, op: Op, site: Site, bits: int, order: tuple[int, ...]) -> Certificate:
        assert isinstance(op, layer_module.LayerOp)
        found = certificate(op, site, bits, order)
        drawn = np.random.default_rng(self._seed).random(max(order) + 1) < self._part
        return replace(found, outside=found.outside | drawn[list(order)])


@given(found=layers(), part=st.floats(0, 1), data=st.data(), seed=seeds)
def test_channels_outside(
    core: CoreLibrary, host: Library, found: Sample, part: float, data: st.DataObject, seed: int
) -> None:
    with patch.object(layer_module, "certificate", Outside(seed, part)):
        kernel = dsp_kernel(found.op, found.site)
    assume(kernel is not None and kernel.name == "conv2d_s8_dsp")
    assert kernel is not None
    case = Case(found, kernel, data, seed)
    if data.draw(st.booleans()):
        core.run(case.kernel, case.inputs, case.output, case.rows)
    else:
        host.run(case.sample, case.inputs, case.output, case.rows, case.kernel)
    case.check()


def test_one_channel_whose_sums_leave_24_bits_stays_with_the_others() -> None:
    """All others are as fast as they were; its sums need 25 bits, so it has a form of its own."""
    type, data = weights(8, 3, 3, 64, axis=0)
    grown = data.array(type) // 4
    grown[5] = 127
    x = int8(1, 6, 6, 64, zero=-128)
    found = sample(Conv2D(Window(3), Window(3)), x, (type, Data.of(grown)), bias(8))
    kernel = dsp_kernel(found.op, found.site)
    assert kernel is not None
    assert kernel.name == "conv2d_s8_dsp"
    assert dict(kernel.params)["outsiders"] == 1
    assert dict(kernel.tables)["outside"].array.tolist() == [5]
    assert "D" not in kernel.classes
