"""Ethos-U streams: networks compiled by Vela, run on the functional model of Ethos-U.

    python -m benchmarks.ethos_u_streams FOLDER [MODEL ...] [--accelerator NAME] [--sets COUNT]

FOLDER holds models and their goldens. Vela compiles every network for every accelerator with its
defaults, for the least memory, and with little memory, which leads to cascades. Prints block
operations and copies, bytes of working memory, output elements that differ from TensorFlow Lite's,
and the number of intermediate tensors that occur in memory as a whole at some time; fused tensors
and rolling buffers never do. Exits with 1 if an output differs.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.shared import Shared, find_shared
from benchmarks.vela import VelaStream, vela_stream
from penstock.ir.tensor import Array
from penstock_ethos_u.interpreter import Execution, execute

MODELS = ("kws_ref_model", "vww_96_int8", "pretrainedResnet_quant", "person_detect")
ACCELERATORS = ("ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512", "ethos-u85-256",
                "ethos-u85-2048")  # fmt: skip
SCHEDULES: dict[str, tuple[str, ...]] = {
    "default": (),
    "size": ("--optimise", "Size"),
    "8 KiB": ("--arena-cache-size", "8192"),
}
"""Options of Vela by the name of the schedule."""
HEADER = ("network", "accelerator", "schedule", "blocks", "copies", "memory", "differ", "of",
          "tensors", "seconds")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of some input sets: the last execution, differing elements, all elements."""

    execution: Execution
    mismatches: int
    elements: int


def main(arguments: Sequence[str]) -> int:
    """Prints a table with a row for each network, accelerator and schedule."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ethos_u_streams",
                                     description=__doc__)  # fmt: skip
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="models and their goldens")
    parser.add_argument("models", nargs="*", metavar="MODEL", default=MODELS)
    parser.add_argument("--accelerator", action="append", help="one of " + ", ".join(ACCELERATORS))
    parser.add_argument("--sets", type=int, default=3, help="of inputs, of each golden archive")
    wanted = parser.parse_args(arguments)
    shared = find_shared(wanted.folder)
    table = Table(*HEADER, title="streams of Vela on the functional model of Ethos-U")
    wrong = 0
    for model in shared.named(list(wanted.models)):
        for accelerator in wanted.accelerator or ACCELERATORS:
            for schedule, options in SCHEDULES.items():
                stream = vela_stream(model, accelerator, options)
                begun = time.perf_counter()
                outcome = run(stream, accelerator, shared, model, wanted.sets)
                found, all_ = tensors(stream, accelerator, shared, model)
                wrong += outcome.mismatches
                copies = outcome.execution.operations.get("dma", 0)
                blocks = sum(outcome.execution.operations.values()) - copies
                table.add_row(
                    model.stem, accelerator, schedule, f"{blocks}", f"{copies}",
                    f"{sum(stream.sizes_bytes.values()):,}", f"{outcome.mismatches}",
                    f"{outcome.elements}", f"{found} of {all_}" if all_ else "-",
                    f"{time.perf_counter() - begun:.1f}",
                )  # fmt: skip
    console().print(table)
    return 1 if wrong else 0


def run(stream: VelaStream, accelerator: str, shared: Shared, model: Path, sets: int) -> Outcome:
    """Runs a stream on sets of golden inputs."""
    execution, mismatches, elements = None, 0, 0
    with np.load(shared.goldens(model)[0]) as goldens:
        for number in range(sets):
            regions = stream.regions(_arrays(goldens, "in", number))
            execution = execute(stream.words, regions, accelerator)
            for position, expected in enumerate(_arrays(goldens, "out", number)):
                got = stream.output(regions, position, expected)
                mismatches += int(np.count_nonzero(got != expected))
                elements += expected.size
    assert execution is not None
    return Outcome(execution, mismatches, elements)


def _arrays(goldens: Any, end: str, number: int) -> list[Array]:
    """Inputs or outputs of a set, in order."""
    names = [name for name in goldens.files if re.fullmatch(rf"{end}\d+_set{number}", name)]
    return [goldens[name] for name in sorted(names)]


@dataclass(slots=True)
class Search:
    """Searches for tensors at every address to which an operation wrote, after every operation.

    `begins`: start addresses of feature maps, by their other properties.
    """

    regions: dict[int, Array]
    left: list[Array]
    begins: dict[Any, set[int]] = field(default_factory=dict[Any, set[int]])

    def look(self, operation: Any) -> None:
        """Removes the tensors that are in memory after an operation from `left`."""
        if operation.kind == "dma":
            return
        first = operation.ofm.bases[0]
        like = replace(
            operation.ofm, shape=(1, 1, 1), bases=(0, 0, 0, 0), height_0=1 << 16, width_0=1 << 16
        )
        begins = self.begins.setdefault(like, set())
        begins.add(first)
        self.left = [tensor for tensor in self.left if not self._lies(tensor, like, begins)]

    def _lies(self, tensor: Array, like: Any, begins: set[int]) -> bool:
        """Whether a tensor is stored contiguously at the start of a feature map."""
        height, width, depth = tensor.shape
        deep = -(-depth // 16) * 16 if like.nhcwb16 else depth
        strides = (deep * width, 16 if like.nhcwb16 else depth)
        if (like.stride_y, like.stride_x) != strides and (height, width) != (1, 1):
            return False
        region, offsets = self.regions[like.region], replace(like, shape=tensor.shape).addresses()
        return any(
            offsets[-1, -1, -1] + begin < len(region)
            and (region[offsets + begin].view(tensor.dtype) == tensor).all()
            for begin in begins
        )


def tensors(stream: VelaStream, accelerator: str, shared: Shared, model: Path) -> tuple[int, int]:
    """Number of 8-bit tensors that occur in memory, and number of those with goldens."""
    archives = [path for path in shared.goldens(model) if path.name.endswith("all_tensors.npz")]
    if not archives:
        return 0, 0
    with np.load(archives[0]) as goldens, np.load(shared.goldens(model)[0]) as outputs:
        number = json.loads(str(goldens["meta"]))["input_set"]
        inputs = _arrays(outputs, "in", number)
        every = [goldens[name] for name in goldens.files if name != "meta"]
    wanted = [_image(tensor) for tensor in every if not _is_input(tensor, inputs)]
    search = Search(stream.regions(inputs), [t for t in wanted if t.itemsize == 1])
    count = len(search.left)
    execute(stream.words, search.regions, accelerator, search.look)
    return count - len(search.left), count


def _is_input(tensor: Array, inputs: Sequence[Array]) -> bool:
    return any(tensor.shape == one.shape and (tensor == one).all() for one in inputs)


def _image(tensor: Array) -> Array:
    """A tensor with three axes."""
    shape = (1, 1, 1, *tensor.shape)[-3:]
    return tensor.reshape(-1, *shape[-2:])


if __name__ == "__main__":
    entry(main)
