"""Law: the kernels of cores with the DSP extension equal the operators' arithmetic.

Random layers, any rows of them, through views of every layout and at odd addresses: on the
simulated Cortex-M4, and as the same C is spelled out for other machines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample, bias, int8, sample, weights
from c_header import header
from c_kernels import Library
from core_kernels import CoreLibrary
from dsp_layers import layers
from kernel_cases import Case
from penstock.backends.cores.dsp.counts import DSP_CYCLES
from penstock.backends.cores.dsp.kernels import direct_kernel, dsp_kernel
from penstock.ir.op import Kernel
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add, Mul
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from strategies import seeds

NAMES = (
    "conv2d_s8_dsp",
    "conv2d_direct_s8_dsp",
    "conv2d_groups_s8_dsp",
    "depthwise_conv2d_s8_dsp",
    "fully_connected_s8_dsp",
    "fully_connected_forms_s8_dsp",
    "add_s8_dsp",
    "mul_s8_dsp",
    "lookup_s8",
    "pool2d_s8_dsp",
    "average_pool2d_s8",
    "max_pool2d_s8",
    "partial_product_s8_dsp",
)
THREE = Window(3, 1, 1, 1, 1)
TIES = int8(1, 6, 6, 16, scale=0.104779415, zero=1), 0.055882353
"""An input, and the scale of a sum, which is 15 / 8 of the input's: some elements are ties."""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> CoreLibrary:
    for name in ("ziglang", "unicorn"):
        pytest.importorskip(name, reason="the extra 'simulate' is not installed")
    return CoreLibrary(NAMES, tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="module")
def host(host_compilers: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(set(NAMES), host_compilers[0], tmp_path_factory.mktemp("host"))


def special(found: Sample) -> list[Kernel]:
    """The special kernels of a layer that has any.

    For a small grouped convolution, `dsp_kernel` may choose the portable kernel, which
    `test_kernel_c.py` covers."""
    every = (make(found.op, found.site) for make in (direct_kernel, dsp_kernel))
    kernels = [kernel for kernel in every if kernel is not None and kernel.name in NAMES]
    assume(kernels)
    return kernels


@given(found=layers(), data=st.data(), seed=seeds)
def test_a_kernel_on_the_core_equals_the_operator(
    core: CoreLibrary, found: Sample, data: st.DataObject, seed: int
) -> None:
    case = Case(found, data.draw(st.sampled_from(special(found))), data, seed)
    core.run(case.kernel, case.inputs, case.output, case.rows, found.site)
    case.check()


@given(found=layers(), data=st.data(), seed=seeds)
def test_the_same_c_computes_it_on_this_machine(
    host: Library, found: Sample, data: st.DataObject, seed: int
) -> None:
    case = Case(found, data.draw(st.sampled_from(special(found))), data, seed)
    host.run(case.sample, case.inputs, case.output, case.rows, case.kernel)
    case.check()


@given(found=layers())
def test_parameters_are_those_of_the_header(found: Sample) -> None:
    for kernel in special(found):
        if kernel.name == found.op.kernel(found.site).name:
            continue  # the fastest kernel of some grouped convolutions is portable
        members = {name for _, name in header(kernel.name).members}
        optional = {name for name in members if name.startswith("outside_") or name == "outside"}
        given = {name for name, _ in (*kernel.params, *kernel.tables)}
        given |= {member for _, member in kernel.constants}
        assert members - optional <= given <= members
        assert all(-(2**31) <= number < 2**31 for _, number in kernel.params)
        assert 0 < DSP_CYCLES.cycles(found.op, found.site, kernel) < float("inf")


SERVED = {
    "pointwise": sample(
        Conv2D(Window(1), Window(1), Activation.RELU),
        int8(1, 5, 4, 8),
        weights(6, 1, 1, 8, axis=0),
        bias(6),
    ),
    "3 x 3 of three channels": sample(
        Conv2D(THREE, THREE), int8(1, 7, 6, 3), weights(5, 3, 3, 3, axis=0), bias(5)
    ),
    "depthwise": sample(
        DepthwiseConv2D(THREE, THREE), int8(1, 6, 6, 7), weights(1, 3, 3, 7, axis=3), bias(7)
    ),
    "depthwise of one channel": sample(
        DepthwiseConv2D(THREE, THREE, 4), int8(1, 6, 6, 1), weights(1, 3, 3, 4, axis=3), bias(4)
    ),
    "groups": sample(Conv2D(THREE, THREE), int8(1, 6, 6, 8), weights(4, 3, 3, 4, axis=0), bias(4)),
    "groups that overlap": sample(
        Conv2D(THREE, THREE), int8(1, 6, 6, 10), weights(10, 3, 3, 2, axis=0), bias(10)
    ),
    "two groups of three channels": sample(
        Conv2D(THREE, THREE), int8(1, 9, 9, 6), weights(6, 3, 3, 3, axis=0), bias(6)
    ),
    "depthwise, two outputs of a channel": sample(
        DepthwiseConv2D(THREE, THREE, 2), int8(1, 6, 6, 8), weights(1, 3, 3, 16, axis=3), bias(16)
    ),
    "depthwise of three channels": sample(
        DepthwiseConv2D(THREE, THREE, 8), int8(1, 9, 9, 3), weights(1, 3, 3, 24, axis=3), bias(24)
    ),
    "groups of which none fill fours": sample(
        Conv2D(THREE, THREE), int8(1, 9, 9, 15), weights(10, 3, 3, 3, axis=0), bias(10)
    ),
    "a factor of each channel": sample(Mul(), int8(1, 6, 6, 16), int8(1, 1, 1, 16)),
    "a sum that is exact for the constant": sample(
        Add(), TIES[0], weights(1, 1, 1, 16, scale=0.0625), scale=TIES[1], zero=-128
    ),
    "fully connected": sample(FullyConnected(), int8(1, 12), weights(5, 12), bias(5)),
    "sums that do not fit 24 bits": sample(
        FullyConnected(), int8(1, 4096), weights(5, 4096), bias(5)
    ),
}
REFUSED = {
    "a sum that is not exact for all elements": sample(
        Add(), TIES[0], int8(1, 1, 1, 16, scale=0.0625, zero=0), scale=TIES[1], zero=-128
    ),
    "pixels of three channels, each with a factor": sample(
        Mul(), int8(1, 6, 6, 3), int8(1, 1, 1, 3)
    ),
    "a depth that is no multiple of four": sample(
        FullyConnected(), int8(1, 10), weights(5, 10), bias(5)
    ),
}


@pytest.mark.parametrize("name", SERVED)
def test_the_layers_that_the_family_supports(name: str) -> None:
    assert dsp_kernel(SERVED[name].op, SERVED[name].site) is not None


@pytest.mark.parametrize("name", REFUSED)
def test_the_layers_that_run_on_the_portable_kernel(name: str) -> None:
    assert dsp_kernel(REFUSED[name].op, REFUSED[name].site) is None


def two_least_weights() -> Sample:
    """A layer whose weights can be packed only without channel 0, which is constant.

    In channels 2 and 3, all weights are -128.  With channel 0, the two share 16-bit numbers, which
    would overflow."""
    scales = (1e-9, 0.002, 0.003, 0.004)
    type = TensorType((4, 3, 3, 8), DType.INT8, Quantisation(scales, (0,) * 4, 0))
    values = np.empty(type.shape, np.int8)
    values[:] = np.array([1, 50, -128, -128]).reshape(4, 1, 1, 1)
    return sample(Conv2D(THREE, THREE), int8(1, 6, 6, 8), (type, Data.of(values)), bias(4))


@settings(max_examples=5)
@given(data=st.data(), seed=seeds)
def test_weights_that_can_be_packed_only_without_the_constant_channels(
    host: Library, data: st.DataObject, seed: int
) -> None:
    found = two_least_weights()
    op, site = found.op, found.site
    kernel = dsp_kernel(op, site)
    assert kernel is not None
    assert kernel.skips_constant
    assert len(kernel.classes) == 4
    assert DSP_CYCLES.cycles(op, site, kernel) < DSP_CYCLES.cycles(op, site, op.kernel(site))
    case = Case(found, kernel, data, seed)
    host.run(case.sample, case.inputs, case.output, case.rows, kernel)
    case.check()
