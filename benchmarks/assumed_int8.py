"""How far the figures of `--assume-int8` are from those of the quantised network.

    python -m benchmarks.assumed_int8

A small float network, drawn at random, is compiled with arbitrary scales and quantised by
onnxruntime with drawn inputs.  The difference depends on the network.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.entry import entry
from penstock import api
from tools.onnx_writer import Model

IMAGE, SAMPLES, TARGET = (3, 32, 32), 16, "cortex-m4"


def network() -> bytes:
    """An image classifier: convolutions, an inverted bottleneck with a sum, and a dense layer."""
    model = Model(quantised=False)
    x = _conv(model, model.input(1, *IMAGE, name="image"), 3, 16, 3, stride=2)
    y = _conv(model, x, 16, 64, 1)
    y = _conv(model, y, 64, 64, 3, groups=64)
    x = model.node("Add", x, _conv(model, y, 64, 16, 1, activation=False))
    x = _conv(model, x, 16, 32, 3, stride=2)
    x = model.node("Flatten", model.node("GlobalAveragePool", x))
    x = model.node("Gemm", x, _weights(model, 10, 32), model.reals(10), transB=1)
    return model.raw(model.node("Softmax", x))


def figures() -> Iterator[tuple[str, int, int]]:
    """Yield (figure, with arbitrary scales, of the quantised network)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, samples = folder / "net.onnx", folder / "samples.npz"
        model.write_bytes(network())
        drawn = np.random.default_rng(0).normal(size=(SAMPLES, *IMAGE))
        np.savez(samples, image=drawn.astype(np.float32))
        assumed = api.compile(model, TARGET, assume_int8=True).report
        quantised = api.compile(model, TARGET, quantise=samples).report
    yield "RAM", assumed.ram_bytes.total, quantised.ram_bytes.total
    yield "flash", assumed.flash_bytes.total, quantised.flash_bytes.total
    yield "MACs", assumed.macs.model, quantised.macs.model
    yield "cycles", assumed.cycles.estimated, quantised.cycles.estimated


def _conv(
    model: Model,
    x: str,
    channels: int,
    outputs: int,
    size: int,
    *,
    stride: int = 1,
    groups: int = 1,
    activation: bool = True,
) -> str:
    weights = _weights(model, outputs, channels // groups, size, size)
    strides, pads, bias = [stride] * 2, [size // 2] * 4, model.reals(outputs)
    y = model.node("Conv", x, weights, bias, strides=strides, pads=pads, group=groups)
    return model.node("Relu", y) if activation else y


def _weights(model: Model, *shape: int) -> str:
    elements = np.random.default_rng([*shape]).normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape)
    return model.constant(elements.astype(np.float32))


def main(argv: Sequence[str]) -> int:
    argparse.ArgumentParser("benchmarks.assumed_int8", description=__doc__).parse_args(argv)
    print(f"{'':8} {'--assume-int8':>14} {'--quantise':>12} {'more':>8}")
    for name, assumed, quantised in figures():
        print(f"{name:8} {assumed:14,} {quantised:12,} {quantised / assumed - 1:8.1%}")
    return 0


if __name__ == "__main__":
    entry(main)
