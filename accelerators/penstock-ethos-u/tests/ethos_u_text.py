"""Handwritten Ethos-U streams as text: one operation on maps of 4 x 4 x 16 bytes."""

from __future__ import annotations

import numpy as np

from penstock_ethos_u.interpreter import Execution, assemble, execute

MAP = {
    "REGION": "0", "BASE0": "0", "BASE1": "0", "BASE2": "0", "BASE3": "0", "HEIGHT0_M1": "3",
    "HEIGHT1_M1": "3", "WIDTH0_M1": "3", "DEPTH_M1": "15", "STRIDE_Y": "64", "STRIDE_X": "16",
    "STRIDE_C": "1", "ZERO_POINT": "0",
}  # fmt: skip
SIDES = ("TOP", "LEFT", "BOTTOM", "RIGHT")
REST = {
    "IFM_PRECISION": "signed=1", "IFM_UPSCALE": "0", "OFM_PRECISION": "signed=1",
    "OFM_WIDTH_M1": "3", "OFM_HEIGHT_M1": "3", "OFM_BLK_WIDTH_M1": "3", "OFM_BLK_HEIGHT_M1": "1",
    "OFM_BLK_DEPTH_M1": "15", "KERNEL_WIDTH_M1": "0", "KERNEL_HEIGHT_M1": "0",
    "KERNEL_STRIDE": "", "ACTIVATION": "function=0", "ACTIVATION_MIN": "0x8000",
    "ACTIVATION_MAX": "127", "ACC_FORMAT": "0", "BLOCKDEP": "0",
}  # fmt: skip
MAX_POOL = "NPU_OP_POOL mode=0"
STOP = "NPU_OP_STOP mask=65535"


def text(operation: str = MAX_POOL, **changes: str | None) -> str:
    """A stream that sets registers and starts an operation; None omits a register."""
    found: dict[str, str | None] = {f"IFM_{name}": value for name, value in MAP.items()}
    found |= {f"OFM_{name}": value for name, value in MAP.items()} | {"OFM_BASE0": "256"}
    found |= {f"IFM_PAD_{side}": "0" for side in SIDES} | REST | changes
    lines = [f"NPU_SET_{name} {value}" for name, value in found.items() if value is not None]
    return "\n".join([*lines, operation, STOP])


def ran(text: str, size_bytes: int = 1024, accelerator: str = "ethos-u55-128") -> Execution:
    """Runs a text with one region."""
    return execute(assemble(text), {0: np.zeros(size_bytes, np.uint8)}, accelerator)
