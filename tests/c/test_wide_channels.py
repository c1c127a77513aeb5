"""uint8 networks in C: a kernel of the core family, and one for channels with wide weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock import api
from penstock.ir.op import Kernel
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

ZERO = 120
WIDE = (1, 6)
"""Channels with a weight of 255, 135 above the zero point."""
STRIDE = {"stride_h": 1, "stride_w": 1, "padding": "SAME"}


def tensor(name: str, shape: tuple[int, ...], scale: float, zero: int) -> TensorSpec:
    return TensorSpec(name, shape, "uint8", (scale,), (zero,))


def weights(name: str, shape: tuple[int, ...], axis: int) -> TensorSpec:
    """Weights that int8 holds less their zero point, except in the channels `WIDE`."""
    rng = np.random.default_rng(shape)
    data = rng.integers(0, 240, shape).astype(np.uint8)
    np.moveaxis(data, axis, 0)[list(WIDE), ..., -1] = 255
    return TensorSpec(name, shape, "uint8", (0.01,), (ZERO,), data=data)


def network() -> bytes:
    """An image, a depthwise convolution and a classifier."""
    tensors = (
        tensor("image", (1, 9, 8, 3), 0.05, 128),
        weights("w0", (16, 3, 3, 3), 0),
        tensor("a", (1, 9, 8, 16), 0.2, 10),
        weights("w1", (1, 3, 3, 16), 3),
        tensor("b", (1, 9, 8, 16), 0.3, 120),
        weights("w2", (16, 1, 1, 16), 0),
        tensor("c", (1, 9, 8, 16), 0.5, 100),
        tensor("mean", (1, 1, 1, 16), 0.5, 100),
        weights("w3", (20, 16), 0),
        tensor("scores", (1, 20), 0.2, 128),
    )
    whole = {"filter_height": 9, "filter_width": 8, "stride_h": 1, "stride_w": 1}
    operators = (
        OperatorSpec("CONV_2D", (0, 1), (2,), {**STRIDE, "fused_activation_function": "RELU6"}),
        OperatorSpec("DEPTHWISE_CONV_2D", (2, 3), (4,), {**STRIDE, "depth_multiplier": 1}),
        OperatorSpec("CONV_2D", (4, 5), (6,), STRIDE),
        OperatorSpec("AVERAGE_POOL_2D", (6,), (7,), {**whole, "padding": "VALID"}),
        OperatorSpec("FULLY_CONNECTED", (7, 8), (9,)),
    )
    return write_tflite(tensors, operators, (0,), (9,))


@pytest.mark.parametrize("target", ["host", "cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_every_rung_is_exact(tmp_path: Path, target: str) -> None:
    path = tmp_path / "unsigned.tflite"
    path.write_bytes(network())
    done = api.verify(path, target, every_point=True)
    assert done.passed
    program = done.compiled.compilation.program
    views = (*program.inputs, *program.outputs)
    assert {view.type.dtype.value for view in views} == {"uint8"}
    kernels = [part.kernel for part in done.compiled.compilation.schedule.steps]
    assert sum(kernel.then is not None for kernel in kernels) == 4
    assert {places(kernel) for kernel in kernels if kernel.then is not None} == {WIDE}


def places(kernel: Kernel) -> tuple[int, ...]:
    """The channels of the second kernel."""
    assert kernel.then is not None
    found = dict(kernel.then.tables)["wide_places"].array
    return tuple(found.reshape(len(WIDE), -1)[:, 0].tolist())
