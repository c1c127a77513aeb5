"""Vela: networks compiled by Arm's Vela, as command streams with their memory contents.

Vela runs as a separate process (`python -m ethosu.vela`, package ethos-u-vela).
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from penstock.errors import ToolError
from penstock.ir.tensor import Array
from penstock_ethos_u.interpreter import driver_payload

SYSTEMS = {
    "u55": "Ethos_U55_High_End_Embedded",
    "u65": "Ethos_U65_Mid_End",
    "u85": "Ethos_U85_SYS_DRAM_Low",
}
"""Vela's system configuration of each family."""


@dataclass(frozen=True, slots=True)
class Place:
    """Region and address of an input or output."""

    region: int
    address: int


@dataclass(frozen=True, slots=True)
class VelaStream:
    """A command stream with its constants, sizes of regions, inputs and outputs in the network's
    order."""

    words: bytes
    constants: tuple[int, bytes]
    sizes_bytes: dict[int, int]
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]

    def regions(self, inputs: Sequence[Array]) -> dict[int, Array]:
        """New regions with inputs in place; other bytes are 0xA5."""
        made = {n: np.full(size, 0xA5, np.uint8) for n, size in self.sizes_bytes.items()}
        number, content = self.constants
        made[number] = np.frombuffer(content, np.uint8)
        for place, elements in zip(self.inputs, inputs, strict=True):
            raw = np.ascontiguousarray(elements).view(np.uint8).ravel()
            made[place.region][place.address : place.address + raw.size] = raw
        return made

    def output(self, regions: dict[int, Array], position: int, like: Array) -> Array:
        """An output in the regions, with the type and shape of another array."""
        place = self.outputs[position]
        raw = regions[place.region][place.address : place.address + like.nbytes]
        return raw.view(like.dtype).reshape(like.shape)


@dataclass(frozen=True, slots=True)
class VelaReport:
    """A compiled network with Vela's figures: bytes of SRAM, cycles."""

    stream: VelaStream
    sram_bytes: int
    cycles: int


def has_vela() -> bool:
    """Whether Vela is installed."""
    return find_spec("ethosu") is not None and find_spec("ethosu.vela") is not None


def vela_stream(model: Path, accelerator: str, options: Sequence[str] = ()) -> VelaStream:
    """Vela's stream for a model.  Raises ToolError if Vela is missing or refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(model, accelerator, options, Path(folder))


def vela_report(model: Path, accelerator: str, options: Sequence[str] = ()) -> VelaReport:
    """Vela's stream and figures, with constants in flash or DRAM.  Raises ToolError."""
    system = SYSTEMS[accelerator.split("-")[1]]
    memories = ("--config", "Arm/vela.ini", "--system-config", system)
    memories += ("--memory-mode", "Shared_Sram")
    with tempfile.TemporaryDirectory() as folder:
        stream = _run(model, accelerator, (*memories, *options), Path(folder))
        (path,) = Path(folder).glob("*_summary_*.csv")
        with path.open(encoding="utf-8") as file:
            (said,) = csv.DictReader(file)
    sram_bytes = round(float(said["sram_memory_used"]) * 1024)
    return VelaReport(stream, sram_bytes, int(said["cycles_total"]))


def _run(model: Path, accelerator: str, options: Sequence[str], folder: Path) -> VelaStream:
    """Runs Vela, which writes its files into the folder.  Raises ToolError."""
    command = [sys.executable, "-m", "ethosu.vela", "--accelerator-config", accelerator]
    command += ["--output-format", "raw", "--output-dir", str(folder), *options, str(model)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(folder.glob("*.npz"))
    if not found:
        last = (run.stderr.strip() or run.stdout.strip()).splitlines()[-1:]
        raise ToolError(
            "bench-030",
            f"Vela makes no command stream of {model.name}",
            where=" ".join(command[2:]),
            why=last[0] if last else f"it ends with {run.returncode}",
            help="pip install 'penstock[ethos-u]'; the NPU must run the network whole",
        )
    with np.load(found[0]) as archive:
        return _stream_of(archive)


def _stream_of(archive: np.lib.npyio.NpzFile) -> VelaStream:
    """The stream in Vela's `raw` output."""
    sizes: dict[int, int] = {}
    for name in ("scratch_fast", "scratch"):
        size = int(archive[f"{name}_shape"].sum())
        if size:
            sizes[int(archive[f"{name}_region"])] = size
    inputs, outputs = (
        tuple(
            Place(int(region), int(address))
            for region, address in zip(
                archive[f"{end}_region"], archive[f"{end}_offset"], strict=True
            )
        )
        for end in ("input", "output")
    )
    return VelaStream(
        driver_payload(archive["cmd_data"].tobytes()),
        (int(archive["weight_region"]), archive["weight_data"].tobytes()),
        sizes,
        inputs,
        outputs,
    )
