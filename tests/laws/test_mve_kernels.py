"""Law: the kernels of cores with MVE compute what the operators' arithmetic says.

Random layers, any rows of them, through views of every layout and at odd addresses: on the
Cortex-M55 in QEMU, one process for all, and as the same C is spelled out for other machines.
"""

from __future__ import annotations

import shutil

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample, bias, int8, sample, weights
from c_header import header
from c_kernels import Library
from core_kernels import CoreLibrary
from kernel_cases import Case
from mve_layers import mve_layers
from penstock.backends.cores.mve.kernels import mve_kernel
from penstock.ir.op import Kernel
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.simulators.cortex_m55 import PROGRAM
from strategies import seeds

NAMES = (
    *("conv2d_s8_mve", "depthwise_conv2d_s8_mve", "fully_connected_s8_mve", "add_s8_mve"),
    "average_pool2d_s8_mve",
    "fully_connected_forms_s8_mve",
)
THREE = Window(3, 1, 1, 1, 1)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> CoreLibrary:
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed: apt install qemu-system-arm")
    return CoreLibrary(NAMES, tmp_path_factory.mktemp("core"), "cortex-m55")


@pytest.fixture(scope="module")
def host(host_compilers: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(set(NAMES), host_compilers[0], tmp_path_factory.mktemp("host"))


def special(found: Sample) -> Kernel:
    """The kernel with vectors of a layer that has one."""
    kernel = mve_kernel(found.op, found.site)
    assume(kernel is not None and kernel.name in NAMES)
    assert kernel is not None
    return kernel


@given(found=mve_layers, data=st.data(), seed=seeds)
def test_a_kernel_in_qemu_equals_the_operator(
    core: CoreLibrary, found: Sample, data: st.DataObject, seed: int
) -> None:
    case = Case(found, special(found), data, seed)
    core.run(case.kernel, case.inputs, case.output, case.rows)
    case.check()


@given(found=mve_layers, data=st.data(), seed=seeds)
def test_the_same_c_computes_it_on_this_machine(
    host: Library, found: Sample, data: st.DataObject, seed: int
) -> None:
    case = Case(found, special(found), data, seed)
    host.run(case.sample, case.inputs, case.output, case.rows, case.kernel)
    case.check()


@given(found=mve_layers)
def test_parameters_are_those_of_the_header(found: Sample) -> None:
    kernel = special(found)
    check_members(kernel)
    assert all(-(2**31) <= number < 2**31 for _, number in kernel.params)
    assert (kernel.work_cycles or 0) > 0


def check_members(kernel: Kernel) -> None:
    members = {name for _, name in header(kernel.name).members}
    assert members == {name for name, _ in (*kernel.params, *kernel.tables)}


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
    "depthwise of eight channels": sample(
        DepthwiseConv2D(THREE, THREE), int8(1, 6, 6, 8), weights(1, 3, 3, 8, axis=3), bias(8)
    ),
    "depthwise of no multiple of sixteen": sample(
        DepthwiseConv2D(THREE, THREE), int8(1, 6, 6, 37), weights(1, 3, 3, 37, axis=3), bias(37)
    ),
    "depthwise of one channel": sample(
        DepthwiseConv2D(THREE, THREE, 4), int8(1, 6, 6, 1), weights(1, 3, 3, 4, axis=3), bias(4)
    ),
    "fully connected": sample(FullyConnected(), int8(1, 11), weights(5, 11), bias(5)),
    "sums that do not fit 24 bits": sample(
        FullyConnected(), int8(1, 4096), weights(5, 4096), bias(5)
    ),
    "sum": sample(Add(), int8(1, 3, 4, 5, scale=0.05), int8(1, 3, 4, 5, scale=0.05)),
}
OTHERS = {
    "groups": (
        sample(Conv2D(THREE, THREE), int8(1, 6, 6, 32), weights(32, 3, 3, 4, axis=0), bias(32)),
        "conv2d_groups_s8_dsp",
    ),
    "depthwise of twelve channels": (
        sample(
            DepthwiseConv2D(THREE, THREE), int8(1, 6, 6, 12), weights(1, 3, 3, 12, axis=3), bias(12)
        ),
        "depthwise_conv2d_s8_dsp",
    ),
}


@pytest.mark.parametrize("name", SERVED)
def test_the_layers_that_mve_kernels_support(name: str) -> None:
    kernel = mve_kernel(SERVED[name].op, SERVED[name].site)
    assert kernel is not None
    assert kernel.name in NAMES
    check_members(kernel)


@pytest.mark.parametrize("name", OTHERS)
def test_the_layers_that_other_kernels_support(name: str) -> None:
    found, expected = OTHERS[name]
    kernel = mve_kernel(found.op, found.site)
    assert (kernel and kernel.name) == expected
