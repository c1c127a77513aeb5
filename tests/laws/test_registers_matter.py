"""Law: every register field that a stream sets matters to the functional model.

Streams of compiled networks run on copies of their memories, once as they are and once per register
field with its lowest bit turned over: the model refuses the stream, or a memory differs.  Fields
that state how the hardware works, and not what it computes, are listed with their reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from penstock import api
from penstock.backends.accelerator import Accelerator
from penstock.ladder import in_machine
from penstock.pipeline.emission import lower_point
from penstock.uma import PenstockError
from penstock_ethos_u import programs as ethos_u_programs
from penstock_ethos_u.interpreter.commands import KIND, TWO_WORDS, decode_commands
from penstock_nvdla import programs as nvdla_programs
from penstock_nvdla.bindings import registers
from penstock_nvdla.stream import Write, from_bytes, to_bytes

RESIDUAL = "zoo:resnet8:width=8,resolution=16"
DEPTHWISE = "zoo:mobilenet_v1:alpha=0.25,resolution=32,classes=10"

ETHOS_U_WITHOUT_EFFECT = {
    "NPU_SET_AB_START.value": "place of the accumulators in the internal memory",
    "NPU_SET_IFM_IB_END.value": "place of the input in the internal memory",
    "NPU_SET_IFM2_IB_START.value": "place of the second input in the internal memory",
    "NPU_SET_OFM_BLK_HEIGHT_M1.value": "traversal; the model checks that the block fits",
    "NPU_SET_OFM_BLK_WIDTH_M1.value": "traversal; the model checks that the block fits",
    "NPU_SET_KERNEL_STRIDE.decomposition": "traversal of kernels above 8 columns",
    "NPU_SET_ACTIVATION.clip_range": "only of activations by table",
    "NPU_SET_IFM_PRECISION.rounding": "only of sums that round their operands",
    **{
        f"NPU_SET_{map}_{name}.value": "of tiles other than the first; these maps have one"
        for map in ("IFM", "IFM2", "OFM")
        for name in ("BASE1", "BASE2", "BASE3", "HEIGHT1_M1")
    },
}
NVDLA_WITHOUT_EFFECT = {
    "CACC.D_DATAOUT_MAP.line_packed": "of accumulators in memory; here they go to SDP",
    "CACC.D_DATAOUT_MAP.surf_packed": "of accumulators in memory; here they go to SDP",
    "CACC.D_LINE_STRIDE.line_stride": "of accumulators in memory; here they go to SDP",
    "CACC.D_SURF_STRIDE.surf_stride": "of accumulators in memory; here they go to SDP",
    "CDMA.D_DAIN_MAP.line_packed": "order of fetches",
    "CDMA.D_DAIN_MAP.surf_packed": "order of fetches",
    "CDMA.D_FETCH_GRAIN.grains": "order of fetches",
    "CDMA.D_DATAIN_FORMAT.pixel_format": "only of images in pixel formats",
    "CDMA.D_DATAIN_FORMAT.pixel_mapping": "only of images in pixel formats",
    "CDMA.D_DATAIN_FORMAT.pixel_sign_override": "only of images in pixel formats",
    "PDP.D_DST_LINE_STRIDE.dst_line_stride": "only of several rows",
    "PDP.D_POOLING_KERNEL_CFG.kernel_stride_height": "only of several rows",
    "SDP.D_FEATURE_MODE_CFG.nan_to_zero": "only of floating point",
    **{
        f"PDP.D_POOLING_PADDING_VALUE_{k}_CFG.pad_value_{k}x": "only of averages with padding"
        for k in range(1, 8)
    },
    **{
        f"SDP.D_DP_{unit.upper()}_ALU_SRC_VALUE.{unit}_alu_operand": "addends are in memory"
        for unit in ("bs", "bn")
    },
    **{
        f"SDP_RDMA.D_{unit.upper()}_SURFACE_STRIDE.{unit}_surface_stride": "only of several packs"
        for unit in ("src", "bs", "bn", "ew")
    },
}


@dataclass(frozen=True)
class Submission:
    """A stream with the memories that it runs on.  `run` executes any stream on copies of them."""

    stream: bytes
    memories: Mapping[Any, Any]
    execute: Callable[[bytes, Mapping[Any, Any]], object]

    def run(self, stream: bytes) -> Mapping[Any, Any]:
        copies = {name: memory.copy() for name, memory in self.memories.items()}
        self.execute(stream, copies)
        return copies

    @cached_property
    def left(self) -> Mapping[Any, Any]:
        return self.run(self.stream)

    def notices(self, stream: bytes) -> bool:
        """Whether another stream than its own is refused or leaves other memories."""
        try:
            found = self.run(stream)
        except PenstockError:
            return True
        return any(not np.array_equal(self.left[name], found[name]) for name in found)


def apart(accelerator: Accelerator) -> Accelerator:
    """The accelerator with a stream for each call."""
    driver = accelerator.codegen.driver and replace(accelerator.codegen.driver, joined=None)
    return replace(accelerator, codegen=replace(accelerator.codegen, driver=driver))


def submissions(
    module: Any, networks: Sequence[str], accelerator: str, monkeypatch: pytest.MonkeyPatch
) -> list[Submission]:
    """Every submission of a run of each network."""
    found: list[Submission] = []
    plain = module.execute

    def noted(
        stream: bytes, memories: Mapping[Any, Any], hardware: Any, *rest: Any, **named: Any
    ) -> object:
        copies = {name: memory.copy() for name, memory in memories.items()}
        found.append(Submission(stream, copies, lambda s, m: plain(s, m, hardware)))
        return plain(stream, memories, hardware, *rest, **named)

    with monkeypatch.context() as patched:
        patched.setattr(module, "execute", noted)
        for network in networks:
            done = api.compile(network, "cortex-m4", accelerators=(accelerator,)).compilation
            program = lower_point(done.point, tuple(map(apart, done.request.accelerators)))
            in_machine(done, program, api.drawn_sets(done, 1)[0])
    assert found
    return found


def unnoticed(
    every: list[Submission], changes: Callable[[bytes], Iterator[tuple[str, bytes]]]
) -> set[str]:
    """The fields whose changes no submission notices.  `changes` yields names and streams."""
    noticed: set[str] = set()
    seen: set[str] = set()
    for submission in every:
        for name, changed in changes(submission.stream):
            seen.add(name)
            if name not in noticed and submission.notices(changed):
                noticed.add(name)
    return seen - noticed


def ethos_u_changes(stream: bytes) -> Iterator[tuple[str, bytes]]:
    """Streams in which a bit of a field is turned over, where a command sets its register first."""
    seen: set[str] = set()
    for command in decode_commands(stream):
        if command.format.name in seen or not command.format.name.startswith("NPU_SET_"):
            continue
        seen.add(command.format.name)
        for field in command.format.fields:
            for bit in range(field.low, field.low + field.span.bit_length() - 1):
                words = np.frombuffer(stream, "<u4").copy()
                if command.format.code & KIND == TWO_WORDS and bit < 32:
                    words[command.word + 1] ^= 1 << bit
                else:  # a parameter is the upper half of the first word
                    words[command.word] ^= 1 << bit % 32 + 16
                yield f"{command.format.name}.{field.name}", words.tobytes()


def nvdla_changes(stream: bytes) -> Iterator[tuple[str, bytes]]:
    """Streams in which a bit of a field is turned over, where its register is written first."""
    seen: set[str] = set()
    writes = from_bytes(stream)
    for k, write in enumerate(writes):
        if write.register in seen or write.starts is not None:
            continue
        seen.add(write.register)
        for field in registers()[write.register].fields:
            for bit in range(field.low, field.high + 1):
                changed = Write(write.register, write.word ^ 1 << bit)
                yield (
                    f"{write.register}.{field.name}",
                    to_bytes((*writes[:k], changed, *writes[k + 1 :])),
                )


def test_ethos_u(monkeypatch: pytest.MonkeyPatch) -> None:
    every = submissions(ethos_u_programs, (RESIDUAL,), "ethos_u65", monkeypatch)
    assert unnoticed(every, ethos_u_changes) == set(ETHOS_U_WITHOUT_EFFECT)


def test_nvdla(monkeypatch: pytest.MonkeyPatch) -> None:
    every = submissions(nvdla_programs, (RESIDUAL, DEPTHWISE), "nvdla:config=large", monkeypatch)
    assert unnoticed(every, nvdla_changes) == set(NVDLA_WITHOUT_EFFECT)
