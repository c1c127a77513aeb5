"""Law: the kernels of cores without long multiplications compute what operators' arithmetic says.

Random layers, any rows of them, through views of every layout and at odd addresses: on the
simulated Cortex-M0+, and as the same C is spelled out for other machines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.small_tensors import Sample, bias, int8, sample, weights
from c_header import header
from c_kernels import Library
from core_kernels import CoreLibrary
from dsp_layers import layers
from kernel_cases import Case
from penstock.backends.cores.thumb.kernels import thumb_kernel
from penstock.backends.cores.thumb.tables import MOST_WORDS, block_sizes
from penstock.ir.op import Kernel
from penstock.ir.tensor import Data
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from strategies import seeds

NAMES = (
    "conv2d_s8_thumb",
    "depthwise_conv2d_s8_thumb",
    "fully_connected_s8_thumb",
    "fully_connected_forms_s8_thumb",
    "average_pool2d_s8",
    "add_s8_thumb",
)
THREE = Window(3, 1, 1, 1, 1)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> CoreLibrary:
    for name in ("ziglang", "unicorn"):
        pytest.importorskip(name, reason="the extra 'simulate' is not installed")
    return CoreLibrary(NAMES, tmp_path_factory.mktemp("core"), "cortex-m0plus")


@pytest.fixture(scope="module")
def host(host_compilers: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(set(NAMES), host_compilers[0], tmp_path_factory.mktemp("host"))


def special(found: Sample) -> Kernel:
    """The special kernel of a layer that has one."""
    kernel = thumb_kernel(found.op, found.site)
    assume(kernel is not None)
    assert kernel is not None
    return kernel


@given(found=layers(), data=st.data(), seed=seeds)
def test_a_kernel_on_the_core_equals_the_operator(
    core: CoreLibrary, found: Sample, data: st.DataObject, seed: int
) -> None:
    case = Case(found, special(found), data, seed)
    core.run(case.kernel, case.inputs, case.output, case.rows)
    case.check()


@given(found=layers(), data=st.data(), seed=seeds)
def test_the_same_c_computes_it_on_this_machine(
    host: Library, found: Sample, data: st.DataObject, seed: int
) -> None:
    case = Case(found, special(found), data, seed)
    host.run(case.sample, case.inputs, case.output, case.rows, case.kernel)
    case.check()


@given(found=layers())
def test_parameters_are_those_of_the_header(found: Sample) -> None:
    kernel = special(found)
    members = {name for _, name in header(kernel.name).members}
    assert members == {name for name, _ in (*kernel.params, *kernel.tables)}
    assert all(-(2**31) <= number < 2**31 for _, number in kernel.params)
    assert (kernel.work_cycles or 0) > 0


@given(seed=seeds, taps=st.integers(1, 40), largest=st.sampled_from((3, 40, 127, 128)))
def test_no_sum_of_a_block_leaves_16_bits_and_no_block_could_be_longer(
    seed: int, taps: int, largest: int
) -> None:
    """The worst inputs, block by block."""
    rng = np.random.default_rng(seed)
    pair = rng.integers(-largest, min(largest, 127) + 1, (2, 2 * taps))

    def fits(part: np.ndarray) -> bool:
        worst = np.where(part > 0, 127, -128), np.where(part > 0, -128, 127)
        sums = [
            int((row * x).sum()) for inputs in worst for row, x in zip(part, inputs, strict=True)
        ]
        return all(-(2**15) <= total < 2**15 for total in sums)

    sizes = block_sizes(pair)
    if sizes is None:
        assert not all(fits(pair[:, 2 * k : 2 * k + 2]) for k in range(taps))
        return
    assert sum(sizes) == taps
    begin = 0
    for size in sizes:
        end = begin + 2 * size
        assert fits(pair[:, begin:end])
        assert size == MOST_WORDS or end == 2 * taps or not fits(pair[:, begin : end + 2])
        begin = end


def full(*shape: int) -> Data:
    return Data.of(np.full(shape, -128, np.int8))


SERVED = {
    "pointwise": sample(
        Conv2D(Window(1), Window(1)), int8(1, 5, 4, 8), weights(6, 1, 1, 8, axis=0), bias(6)
    ),
    "depthwise of three channels": sample(
        DepthwiseConv2D(THREE, THREE), int8(1, 6, 6, 3), weights(1, 3, 3, 3, axis=3), bias(3)
    ),
    "fully connected, of any depth": sample(FullyConnected(), int8(1, 13), weights(5, 13), bias(5)),
}
REFUSED = {
    "groups": sample(Conv2D(THREE, THREE), int8(1, 6, 6, 8), weights(4, 3, 3, 4, axis=0), bias(4)),
    "products that do not fit a block": sample(
        Conv2D(Window(1), Window(1)),
        int8(1, 5, 4, 8),
        (weights(6, 1, 1, 8, axis=0)[0], full(6, 1, 1, 8)),
        bias(6),
    ),
    "a depthwise window of too many taps": sample(
        DepthwiseConv2D(Window(6), Window(6)),
        int8(1, 8, 8, 3),
        weights(1, 6, 6, 3, axis=3),
        bias(3),
    ),
}


@pytest.mark.parametrize("name", SERVED)
def test_the_layers_that_the_family_supports(name: str) -> None:
    assert thumb_kernel(SERVED[name].op, SERVED[name].site) is not None


@pytest.mark.parametrize("name", REFUSED)
def test_the_layers_that_run_on_the_portable_kernel(name: str) -> None:
    assert thumb_kernel(REFUSED[name].op, REFUSED[name].site) is None
