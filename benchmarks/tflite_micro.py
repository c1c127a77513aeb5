"""TensorFlow Lite Micro: modelled cycles of float32 networks of one operator beside its kernels'.

    python -m benchmarks.tflite_micro ELF [--network NAME ...] [--target NAME] [--compiler zig|gcc]

ELF is a program for the core of the target: `benchmarks/tflite_micro.cc`, linked with a library of
TensorFlow Lite Micro, as its Makefile builds it (kernels at -O2, BUILD_TYPE=release_with_logs).
Theirs are the cycles of the kernel alone, without the interpreter; ours are those of the whole
inference, with the same linker and C library by default. Exits with 1 if one of ours takes longer.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from benchmarks.entry import console, entry
from penstock import api, execution
from penstock.errors import ToolError
from penstock.hardware.load import load_target
from penstock.pipeline.compilation import compile_request
from penstock.simulators.cores import core_name
from penstock.simulators.cortex_m import Simulator
from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec, write_tflite

IMAGE, PIXELS, SMALL = (1, 8, 8, 16), (1, 16, 16, 3), (1, 8, 8, 1)
SAME = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
Operand = tuple[int, ...] | NDArray[np.int32] | NDArray[np.float32]
"""A shape of float32, or a constant."""


@dataclass(frozen=True, slots=True)
class Network:
    """A network of one operator; `results`: shapes of its outputs, of a type."""

    operator: str
    operands: tuple[Operand, ...]
    results: tuple[tuple[int, ...], ...] = (IMAGE,)
    options: Mapping[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    dtype: str = "float32"

    @property
    def name(self) -> str:
        """The operator and the shapes of its inputs."""
        return f"{self.operator} {' '.join(str(list(x.shape)) for x in self.inputs())}"

    def inputs(self) -> list[NDArray[np.float32]]:
        """Normally distributed numbers."""
        rng, shapes = np.random.default_rng(0), (x for x in self.operands if isinstance(x, tuple))
        return [rng.normal(0, 2, shape).astype(np.float32) for shape in shapes]

    def tflite(self) -> bytes:
        """The file."""
        given = [
            TensorSpec(f"x{k}", x, "float32")
            if isinstance(x, tuple)
            else TensorSpec(f"x{k}", x.shape, x.dtype.name, data=x)
            for k, x in enumerate(self.operands)
        ]
        made = [TensorSpec(f"y{k}", shape, self.dtype) for k, shape in enumerate(self.results)]
        outputs = tuple(range(len(given), len(given) + len(made)))
        operator = OperatorSpec(self.operator, tuple(range(len(given))), outputs, self.options)
        read = [k for k, spec in enumerate(given) if spec.data is None]
        return write_tflite([*given, *made], [operator], read, outputs)


def _filter(side: int) -> dict[str, OptionValue]:
    return {"filter_height": side, "filter_width": side}


def _integers(*numbers: int) -> NDArray[np.int32]:
    return np.array(numbers, np.int32)


def _weights(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)


NETWORKS = (
    *(Network(name, (IMAGE,), options={"beta": 1.0} if name == "SOFTMAX" else {}) for name in (
        "ABS", "CEIL", "ELU", "EXP", "FLOOR", "HARD_SWISH", "L2_NORMALIZATION", "LOG", "LOGISTIC",
        "LOG_SOFTMAX", "NEG", "RELU", "RELU6", "ROUND", "RSQRT", "SOFTMAX", "SQRT", "SQUARE",
        "TANH",
    )),
    *(Network(name, (IMAGE, IMAGE)) for name in (
        "ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB",
    )),
    *(Network(name, (IMAGE, IMAGE), dtype="bool") for name in (
        "EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL",
    )),
    Network("ADD", (IMAGE, _weights(16))),
    Network("MUL", (IMAGE, (1, 1, 1, 16))),
    Network("PRELU", (IMAGE, _weights(1, 1, 16))),
    Network("LEAKY_RELU", (IMAGE,), options={"alpha": 0.1}),
    Network("ARG_MAX", (IMAGE, _integers(3)), ((1, 8, 8),), {"output_type": "INT32"}, "int32"),
    Network("ARG_MIN", (IMAGE, _integers(1)), ((1, 8, 16),), {"output_type": "INT32"}, "int32"),
    Network("AVERAGE_POOL_2D", (IMAGE,), ((1, 4, 4, 16),),
            {"padding": "VALID", "stride_h": 2, "stride_w": 2, **_filter(2)}),
    Network("MAX_POOL_2D", (IMAGE,), options={**SAME, **_filter(3)}),
    Network("BATCH_MATMUL", ((1, 16, 16), (1, 16, 16)), ((1, 16, 16),)),
    Network("CONCATENATION", (IMAGE, IMAGE), ((1, 8, 8, 32),), {"axis": 3}),
    Network("CONCATENATION", (PIXELS, PIXELS), ((1, 32, 16, 3),), {"axis": 1}),
    Network("CONCATENATION", (SMALL, SMALL, SMALL), ((1, 8, 8, 3),), {"axis": 3}),
    Network("CONV_2D", (IMAGE, _weights(8, 3, 3, 16), _weights(8)), ((1, 8, 8, 8),), SAME),
    Network("CONV_2D", (PIXELS, _weights(8, 1, 1, 3), _weights(8)), ((1, 16, 16, 8),), SAME),
    Network("DEPTHWISE_CONV_2D", (IMAGE, _weights(1, 3, 3, 16), _weights(16)),
            options={**SAME, "depth_multiplier": 1}),
    Network("FULLY_CONNECTED", ((1, 256), _weights(32, 256), _weights(32)), ((1, 32),)),
    Network("DEPTH_TO_SPACE", (IMAGE,), ((1, 16, 16, 4),), {"block_size": 2}),
    Network("SPACE_TO_DEPTH", (PIXELS,), ((1, 8, 8, 12),), {"block_size": 2}),
    Network("GATHER", (IMAGE, _integers(6, 0, 3)), ((1, 3, 8, 16),), {"axis": 1}),
    Network("GATHER", (IMAGE, _integers(6, 0, 3, 9)), ((1, 8, 8, 4),), {"axis": 3}),
    Network("GATHER", ((32, 20), _integers(6, 0, 3, 9)), ((4, 20),)),
    Network("MEAN", (IMAGE, _integers(1, 2)), ((1, 16),)),
    Network("SUM", (IMAGE, _integers(3)), ((1, 8, 8),)),
    Network("REDUCE_MAX", (IMAGE, _integers(3)), ((1, 8, 8),)),
    Network("MIRROR_PAD", (IMAGE, _integers(0, 0, 1, 1, 1, 1, 0, 0).reshape(4, 2)),
            ((1, 10, 10, 16),), {"mode": "REFLECT"}),
    Network("PAD", (PIXELS, _integers(0, 0, 1, 1, 1, 1, 0, 0).reshape(4, 2)), ((1, 18, 18, 3),)),
    Network("PACK", ((8, 16), (8, 16)), ((8, 2, 16),), {"axis": 1, "values_count": 2}),
    Network("RESIZE_BILINEAR", (IMAGE, _integers(16, 16)), ((1, 16, 16, 16),),
            {"half_pixel_centers": True}),
    Network("RESIZE_NEAREST_NEIGHBOR", (IMAGE, _integers(16, 16)), ((1, 16, 16, 16),)),
    Network("RESIZE_NEAREST_NEIGHBOR", (PIXELS, _integers(32, 32)), ((1, 32, 32, 3),)),
    Network("REVERSE_V2", (IMAGE, _integers(2))),
    Network("SLICE", (IMAGE, _integers(0, 1, 1, 0), _integers(1, 6, 6, 16)), ((1, 6, 6, 16),)),
    Network("SLICE", (IMAGE, _integers(0, 0, 0, 4), _integers(1, 8, 8, 5)), ((1, 8, 8, 5),)),
    Network("STRIDED_SLICE", (IMAGE, _integers(0, 0, 0, 0), _integers(1, 8, 8, 16),
                              _integers(1, 2, 2, 1)), ((1, 4, 4, 16),)),
    Network("SPLIT", (_integers(3).reshape(()), IMAGE), ((1, 8, 8, 8),) * 2, {"num_splits": 2}),
    Network("UNPACK", ((2, 8, 16),), ((8, 16),) * 2, {"axis": 0, "num": 2}),
    Network("TRANSPOSE", (IMAGE, _integers(0, 3, 1, 2)), ((1, 16, 8, 8),)),
    Network("TRANSPOSE", (IMAGE, _integers(0, 2, 1, 3)), ((1, 8, 8, 16),)),
    Network("TRANSPOSE_CONV", (_integers(1, 16, 16, 8), _weights(8, 2, 2, 16), IMAGE),
            ((1, 16, 16, 8),), {"padding": "VALID", "stride_h": 2, "stride_w": 2}),
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Prints a row for each network."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tflite_micro", description=__doc__)
    parser.add_argument("elf", type=Path, metavar="ELF", help="TensorFlow Lite Micro's program")
    parser.add_argument("--network", action="append", metavar="NAME", help="only this operator")
    parser.add_argument("--target", default="cortex-m4")
    parser.add_argument("--compiler", choices=("zig", "gcc"), default="gcc")
    wanted = parser.parse_args(arguments)
    table = Table("network", "TFLM", "penstock", "ratio", title=f"Cycles on {wanted.target}")
    networks = [x for x in NETWORKS if not wanted.network or x.operator in wanted.network]
    slower = 0
    for network in networks:
        theirs = theirs_of(network, wanted.elf, wanted.target)
        ours = ours_of(network, wanted.target, wanted.compiler)
        slower += ours > theirs
        table.add_row(network.name, f"{theirs:,}", f"{ours:,}", f"{ours / theirs:.2f}")
    console().print(table)
    print(f"{slower} of {len(networks)} networks take longer than in TensorFlow Lite Micro")
    return int(slower > 0)


def theirs_of(network: Network, elf: Path, target: str) -> int:
    """Cycles of TensorFlow Lite Micro's kernel.  Raises ToolError if it refuses the network."""
    simulator = Simulator(elf, core_name(load_target(target)))
    simulator.write(simulator.symbol("model"), network.tflite())
    status = simulator.call("load").return_value
    for k, x in enumerate(network.inputs()):
        simulator.write(simulator.call("input", k).return_value, x.tobytes())
    outcome = simulator.call("run", phases=("kernel_begins", "kernel_ends"))
    if status or outcome.return_value:
        raise ToolError("bench-007", f"TFLite Micro refuses {network.name}", where=str(elf))
    return outcome.phases[0].cycles


def ours_of(network: Network, target: str, compiler: str) -> int:
    """Cycles of an inference by the generated C.."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        path = Path(folder) / "network.tflite"
        path.write_bytes(network.tflite())
        done = compile_request(api.request(str(path), target))
    names = [value.name for value in done.model.inputs]
    with execution.firmware(done, compiler) as chip:
        return chip.run(dict(zip(names, network.inputs(), strict=True))).counts.cycles


if __name__ == "__main__":
    entry(main)
