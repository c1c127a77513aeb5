"""Every error of nvdla has a golden: the exact text on the terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock_nvdla
from errors.golden import Golden, raised_codes
from penstock_nvdla import cvsram_bytes
from penstock_nvdla.configurations import SMALL, configuration
from penstock_nvdla.layer import Accumulators, ConvolutionLayer, Demand, Surface, allocate
from penstock_nvdla.model import execute
from penstock_nvdla.packing import pack_features
from penstock_nvdla.pdp import PoolingLayer, PoolingMethod
from penstock_nvdla.registers import decode, encode
from penstock_nvdla.stream import Write, from_bytes, to_bytes

PACKED = Surface.packed(8, 4, 8)
LAYER = ConvolutionLayer(
    SMALL, 8, 4, 16, 8, 1, 1, PACKED, PACKED, Accumulators(64, 256),
    data_banks=1, weight_banks=1, release=4,
)  # fmt: skip

CALLS: dict[str, Callable[[], object]] = {
    "nvdla-003": lambda: encode(replace(LAYER, pad_value=40000)),
    "nvdla-004": lambda: decode({"CSC.D_MISC_CFG": 2}, SMALL),
    "nvdla-005": lambda: replace(LAYER, stride_x=2),
    "nvdla-006": lambda: allocate(Demand(SMALL, 8192, 8, 8, 8, 9, 3, 1)),
    "nvdla-007": lambda: replace(LAYER, weight_banks=32),
    "nvdla-008": lambda: decode({**encode(LAYER), "CSC.D_ATOMICS": 7}, SMALL),
    "nvdla-010": lambda: pack_features(
        np.zeros(1024, np.uint8), PACKED, np.zeros((4, 8, 48), np.int8), atom_bytes=8
    ),
    "nvdla-011": lambda: from_bytes(bytes(8)),
    "nvdla-012": lambda: execute(to_bytes([Write("CDMA.D_OP_ENABLE", 1)]), {}, SMALL),
    "nvdla-013": lambda: pack_features(
        np.zeros(1024, np.uint8), PACKED, np.zeros((4, 9, 8), np.int8), atom_bytes=8
    ),
    "nvdla-015": lambda: PoolingLayer(PoolingMethod.LARGEST, 8, 4, 8, 9, 2, PACKED, PACKED),
    "nvdla-016": lambda: PoolingLayer(PoolingMethod.LARGEST, 70, 4, 8, 3, 3, PACKED, PACKED),
    "usage-040": lambda: configuration("tiny"),
    "usage-245": lambda: cvsram_bytes({"config": "small", "cvsram": "64k"}),
}
"""By code, the call that meets it."""


@pytest.mark.parametrize("code", CALLS)
def test_the_message_of_a_call(golden: Golden, code: str) -> None:
    golden.check_call(code, CALLS[code])


def test_every_code_has_a_golden(golden: Golden) -> None:
    assert golden.codes() == set(raised_codes(Path(penstock_nvdla.__file__).parent))
