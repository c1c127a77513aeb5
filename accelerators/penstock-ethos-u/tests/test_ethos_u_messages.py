"""Every error of Ethos-U has a golden: the exact text on the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import penstock_ethos_u
from available import DIGITS
from command_line import CommandLine
from errors.golden import Golden, raised_codes
from ethos_u_text import ran, text
from penstock_ethos_u.arm_runner import RUNNER_VARIABLE, require_runner
from penstock_ethos_u.functional import FAIL, FunctionalNpu
from penstock_ethos_u.interpreter import assemble, driver_payload, execute
from penstock_ethos_u.vela import vela

CONVOLUTION = {
    "WEIGHT_REGION": "0", "WEIGHT_BASE": "512", "WEIGHT_LENGTH": "16", "SCALE_REGION": "0",
    "SCALE_BASE": "768", "SCALE_LENGTH": "160",
}  # fmt: skip
END_OF_WEIGHTS = bytes([7] + [255] * 15)
"""A stream of weights that ends before the first."""
TABLE = {"ACTIVATION": "function=16", "ACTIVATION_MIN": "-128"}


def convolved(**changes: str) -> object:
    """A convolution whose stream of weights holds none."""
    memory = np.zeros(1024, np.uint8)
    memory[512:528] = list(END_OF_WEIGHTS)
    words = assemble(text("NPU_OP_CONV", **{**CONVOLUTION, **changes}))
    return execute(words, {0: memory}, "ethos-u55-128")


def copied_over() -> str:
    """A copy to the input of an operation that does not wait for it."""
    copy = ("DMA0_SRC_REGION", "DMA0_SRC 512", "DMA0_DST_REGION", "DMA0_DST 0", "DMA0_LEN 64")
    lines = [f"NPU_SET_{register}" for register in copy]
    return "\n".join([*lines, "NPU_OP_DMA_START", text()])


CALLS: dict[str, Callable[[], object]] = {
    "ethosu-101": lambda: execute(bytes([0xFF, 0x03, 0, 0]), {}, "ethos-u55-128"),
    "ethosu-102": lambda: driver_payload(b"COP1" + bytes(4)),
    "ethosu-103": lambda: ran(text(OFM_BASE0="896")),
    "ethosu-104": lambda: ran(
        text(IFM_PRECISION="signed=1 precision=1", IFM_BASE0="1", OFM_BASE0="512")
    ),
    "ethosu-105": lambda: ran(text(IFM_STRIDE_Y=None)),
    "ethosu-106": lambda: ran(text(ACTIVATION="function=3")),
    "ethosu-107": convolved,
    "ethosu-108": lambda: convolved(SCALE_LENGTH="16"),
    "ethosu-110": lambda: ran(copied_over()),
    "ethosu-111": lambda: ran(text(**TABLE)),
    "ethosu-112": lambda: assemble("NPU_OP_POOL mode=9"),
    "ethosu-113": lambda: ran(text(IFM_PRECISION="signed=1 format=1", IFM_BASE0="8")),
    "ethosu-114": lambda: convolved(WEIGHT_LENGTH="32"),
    "ethosu-115": lambda: execute(b"", {}, "ethos-u85-64"),
    "ethosu-116": lambda: execute(b"", {0: np.zeros(4, np.int8)}, "ethos-u55-128"),
}
"""By code, the call that meets it."""
COMMANDS = {
    "usage-050": "compile zoo:lenet5 --accelerator ethos_u55:macs=512",
    "usage-051": "compile zoo:lenet5 --accelerator ethos_u55:memory_mode=dedicated_sram",
    "usage-052": "compile zoo:lenet5 --accelerator ethos_u55:cache_line=48",
    "tflite-001": f"compile {DIGITS} --format vela-tflite",
    "tflite-002": "compile zoo:lenet5 --format vela-tflite",
}
"""By code, the command that meets it."""
OTHERWISE_TESTED = {"ethosu-109", "ethosu-120"}
"""Only weights that were encoded raise the first: test_ethos_u_interpreter.py; the words of the
second are those of Arm's runner: test_ethos_u_arm_runner.py."""


@pytest.fixture
def penstock(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.mark.parametrize("code", CALLS)
def test_the_message_of_a_call(golden: Golden, code: str) -> None:
    golden.check_call(code, CALLS[code])


@pytest.mark.parametrize("code", COMMANDS)
def test_the_message_of_a_command(penstock: CommandLine, golden: Golden, code: str) -> None:
    said = penstock(*COMMANDS[code].split())
    assert (said.code, said.out) == (2 if code.startswith("usage") else 1, "")
    golden.check(code, said.err)


def test_the_message_of_a_missing_package(
    penstock: CommandLine, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ethosu.vela.api", None)
    vela.cache_clear()
    said = penstock("compile", "zoo:lenet5", "--accelerator", "ethos_u55")
    vela.cache_clear()
    golden.check("ethosu-001", re.sub(r"why: .*", "why: IMPORT", said.err))


def test_the_message_of_a_submission_that_is_to_fail(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAIL, "1")
    golden.check_call("ethosu-117", lambda: FunctionalNpu().run(b"", {}))


def test_the_messages_of_missing_tools(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUNNER_VARIABLE, "missing.axf")
    golden.check_call("ethosu-118", require_runner)
    monkeypatch.setenv(RUNNER_VARIABLE, __file__)
    monkeypatch.setenv("PATH", "")
    golden.check_call("ethosu-119", require_runner)


def test_every_code_has_a_golden(golden: Golden) -> None:
    """Those of the core aside."""
    raised = raised_codes(Path(penstock_ethos_u.__file__).parent)
    assert golden.codes() == set(raised) - OTHERWISE_TESTED - {"usage-023"}
