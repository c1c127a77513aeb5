"""ethos_u: cycles by our formulas beside the figures that Vela reports, layer by layer."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from available import path_of
from penstock_ethos_u.blocks import ComputeKind, Extent, NpuWork, input_blocks, micro_block
from penstock_ethos_u.configurations import (
    CONFIGURATIONS,
    EthosUConfiguration,
    MapShape,
)
from penstock_ethos_u.performance import cycles

pytest.importorskip("ethosu.regor", reason="the package ethos-u-vela is not installed")

SYSTEMS = {
    "u55": "Ethos_U55_High_End_Embedded",
    "u65": "Ethos_U65_Mid_End",
    "u85": "Ethos_U85_SYS_DRAM_Low",
}
KINDS = {
    "Conv2D": ComputeKind.CONVOLUTION,
    "FullyConnected": ComputeKind.CONVOLUTION,
    "DepthwiseConv2D": ComputeKind.DEPTHWISE,
    "AvgPool": ComputeKind.POOLING,
    "MaxPool": ComputeKind.POOLING,
    "Add": ComputeKind.ELEMENTWISE,
    "Mul": ComputeKind.ELEMENTWISE,
    "Sub": ComputeKind.ELEMENTWISE,
}
Row = Mapping[str, str]


def vela(model: Path, name: str, folder: Path) -> dict[str, list[Row]]:
    """The tables of Vela's debug database."""
    system = SYSTEMS[name.split("-")[1]]
    command = [
        *(sys.executable, "-m", "ethosu.vela", str(model), "--accelerator-config", name),
        *("--config", "Arm/vela.ini", "--system-config", system, "--memory-mode", "Shared_Sram"),
        *("--output-dir", str(folder), "--enable-debug-db"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("*_debug.xml")
    tables = re.findall(
        r'<table name="([^"]+)">\s*<!\[CDATA\[(.*?)\]\]>', path.read_text(), re.DOTALL
    )
    return {table: list(csv.DictReader(io.StringIO(body.strip()))) for table, body in tables}


def shape(row: Row, name: str) -> MapShape:
    return MapShape(*(int(row[f"{name}_{axis}"]) for axis in "hwc"))


def extent(row: Row, name: str) -> Extent:
    return Extent(int(row[f"{name}_y"]), int(row[f"{name}_x"]))


def rates(operator: str, chip: EthosUConfiguration) -> list[float]:
    """What an operator may take behind the multipliers, without and with a clamp: the database
    does not say which activation is fused."""
    own = {
        "Mul": chip.rates.multiply,
        "Add": chip.rates.add,
        "Sub": chip.rates.add,
        "MaxPool": chip.rates.maximum,
    }.get(operator, chip.rates.other)
    return [own, max(own, chip.rates.clamp)]


def judged(model: Path, name: str, folder: Path) -> tuple[int, int]:
    """How many layers were compared; and of how many all, since Vela copies no weights for them:
    that would add to cycles and bytes."""
    tables, chip = vela(model, name, folder), CONFIGURATIONS[name]
    shapes = {row["id"]: row for row in tables["perf_debug"]}
    inside = {row["id"]: row for row in tables["perf_debug_main"]}
    operators = {row["id"]: row["operator"] for row in tables["perf"]}
    chained = {row["group_id"] for row in tables["group"] if operators[row["id"]] in KINDS}
    layers = unbuffered = 0
    for row in tables["perf"]:
        about, main = shapes.get(row["id"]), inside.get(row["id"])
        if row["operator"] not in KINDS or about is None or main is None:
            continue
        if (
            row["id"] in chained or "Sparse" in about["weight_format"]
        ):  # which penstock does not use
            continue
        if (about["ifm_dtype"], about["ofm_dtype"]) != ("Int8", "Int8"):
            continue
        buffered = bool(about["weight_buffering"])  # then weights and biases come from SRAM
        own = replace(chip, constants=chip.features) if buffered else chip
        second = about["ifm2_dtype"] and shape(about, "ifm2_shape").elements > 1
        block = np.array([shape(main, "ofm_block")])
        works = [
            NpuWork(
                own, KINDS[row["operator"]], shape(about, "ifm_shape"), shape(about, "ofm_shape"),
                rate, extent(about, "kernel_size"), extent(about, "kernel_stride"),
                extent(about, "kernel_dilation"),
                binary=bool(second), part_kernel=main["traversal"] == "PartKernel",
                packed_input=about["ifm_format"] == "NHCWB16",
                packed_output=about["ofm_format"] == "NHCWB16",
                constant_bytes=read_bytes(about, block[0]),
            )
            for rate in rates(row["operator"], chip)
        ]  # fmt: skip
        if chip.memories is not None and works[0].kind is not ComputeKind.ELEMENTWISE:
            micro, ours = shape(main, "ofm_ublock"), micro_block(works[0])
            if micro.depth != ours.depth:  # Vela selects it by the whole output, not by channels
                continue
            assert micro == ours
        found = [cycles(work, block) for work in works]
        assert input_blocks(works[0], block).tolist() == [list(shape(main, "ifm_block"))]
        if works[0].kind is not ComputeKind.ELEMENTWISE:
            assert int(main["mac_cycles"]) in [int(f.multipliers[0]) for f in found]
        assert int(main["ao_cycles"]) in [int(f.output[0]) for f in found]
        layers += 1
        if not buffered:
            assert int(row["npu_cycles"]) in [int(f.npu[0]) for f in found]
            assert int(row["Sram_ac"]) == int(found[0].features[0])
            if chip.memories is not None:  # Vela divides in single precision
                assert abs(int(row["Dram_ac"]) - int(found[0].constants[0])) <= 1
            unbuffered += 1
    return layers, unbuffered


def read_bytes(row: Row, block: Sequence[int]) -> int:
    """The bytes of the weights and biases of a layer, which it reads for each block of rows and
    columns."""
    height, width, _ = shape(row, "ofm_shape")
    count = -(-height // block[0]) * -(-width // block[1])
    sizes = (row[f"Dram{kind}_read"] for kind in ("Weights", "Scales") if f"Dram{kind}_read" in row)
    return sum(int(size or 0) for size in sizes) // int(count)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_whole_layers_take_the_cycles_of_vela(name: str, tmp_path: Path) -> None:
    layers, unbuffered = judged(Path(path_of("digits")), name, tmp_path)
    assert layers >= 4
    assert unbuffered >= 1


@pytest.mark.long
@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("model", ["pretrainedResnet_quant", "mobilenetv2_160_035", "vww_96_int8"])
def test_layers_of_real_networks_do_too(model: str, name: str, tmp_path: Path) -> None:
    layers, unbuffered = judged(Path(path_of(model)), name, tmp_path)
    assert layers >= (14 if CONFIGURATIONS[name].memories is None else 8)
    assert unbuffered >= 3


def test_stripes_take_longer_than_the_whole() -> None:
    chip = CONFIGURATIONS["ethos-u55-128"]

    def taken(rows: int) -> float:
        work = NpuWork(
            chip,
            ComputeKind.CONVOLUTION,
            MapShape(rows + 2, 32, 16),
            MapShape(rows, 32, 16),
            0.5,
            Extent(3, 3),
        )
        (found,) = cycles(work, np.array([(min(rows, 4), 16, 16)])).total
        return float(found)

    assert 16 * taken(2) > 8 * taken(4) > 4 * taken(8) > taken(32)
