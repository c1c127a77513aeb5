"""ethos_u: optimised TFLite files, read by a player of our own: custom operators run in the
interpreter, as TensorFlow Lite Micro's kernel would call the driver; all other tensors are those of
the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from flatbuffers import flexbuffers

from available import DIGITS, MODELS, path_of
from penstock import api
from penstock.api.compiled import Compiled
from penstock.errors import UnsupportedError, UsageError
from penstock.ir.tensor import Array
from penstock.simulators.graph import run_graph
from penstock_ethos_u.interpreter import driver_payload, execute
from penstock_ethos_u.vela import payload_configuration

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

ETHOS_U = b"ethos-u"
READ_ONLY, SCRATCH, FAST = 1, 2, 3
"""Inputs of the custom operator, after the payload."""


class Played:
    """A file, and the bytes of its arena."""

    def __init__(self, raw: bytes) -> None:
        self._model: Any = tflite.Model.GetRootAsModel(raw, 0)
        self._graph: Any = self._model.Subgraphs(0)
        self.offsets = self._offsets()
        scratch = next(i for i, t in enumerate(self._tensors()) if t.Name() == b"scratch")
        self._scratch_bytes = int(self._graph.Tensors(scratch).Shape(0))
        self.arena: Array = np.full(self._scratch_bytes, 0xA5, np.uint8)

    def _tensors(self) -> list[Any]:
        return [self._graph.Tensors(i) for i in range(self._graph.TensorsLength())]

    def _offsets(self) -> list[int]:
        (metadata,) = (self._model.Metadata(i) for i in range(self._model.MetadataLength()))
        assert metadata.Name() == b"OfflineMemoryAllocation"
        raw = self._model.Buffers(metadata.Buffer()).DataAsNumpy().tobytes()
        version, graphs, count, *offsets = np.frombuffer(raw, "<i4").tolist()
        assert (version, graphs, count) == (0, 1, len(offsets))
        assert count == self._graph.TensorsLength()
        return offsets

    def _data(self, index: int) -> bytes:
        return self._model.Buffers(self._graph.Tensors(index).Buffer()).DataAsNumpy().tobytes()

    def kinds(self) -> list[str]:
        """The operators in order: "ethos-u", or the number of a builtin operator."""
        codes = (
            self._graph.Operators(k).OpcodeIndex() for k in range(self._graph.OperatorsLength())
        )
        found = [self._model.OperatorCodes(code) for code in codes]
        return [(c.CustomCode() or str(c.BuiltinCode()).encode()).decode() for c in found]

    def run(self, expected: dict[str, Array]) -> int:
        """Run each custom operator on the arena, with the reference's tensors as its inputs; return
        the number of outputs that were compared."""
        compared = 0
        for k, kind in enumerate(self.kinds()):
            operator = self._graph.Operators(k)
            if kind != ETHOS_U.decode():
                continue
            assert flexbuffers.GetRoot(operator.CustomOptionsAsNumpy().tobytes()).AsInt == 1
            inputs = operator.InputsAsNumpy().tolist()
            outputs = operator.OutputsAsNumpy().tolist()
            assert inputs[SCRATCH] == inputs[FAST]
            assert self.offsets[inputs[SCRATCH]] == 0
            for index in inputs[FAST + 1 :]:
                self._view(index)[:] = self._elements(expected, index)
            payload = self._data(inputs[0])
            constants = np.frombuffer(self._data(inputs[READ_ONLY]), np.uint8)
            regions: dict[int, Array] = {0: constants, 1: self.arena, 2: self.arena}
            execute(driver_payload(payload), regions, payload_configuration(payload), waited=True)
            for index in outputs:
                assert (self._view(index) == self._elements(expected, index)).all()
                compared += 1
        return compared

    def _view(self, index: int) -> Array:
        tensor, lower = self._graph.Tensors(index), self.offsets[index]
        assert lower % 16 == 0
        return self.arena[lower : lower + int(np.prod(tensor.ShapeAsNumpy()))]

    def _elements(self, expected: dict[str, Array], index: int) -> Array:
        return expected[self._graph.Tensors(index).Name().decode()].view(np.uint8).ravel()


def optimised(done: Compiled) -> bytes:
    name, contents = done.file("vela-tflite")
    assert name == f"{done.compilation.prefix}_vela.tflite"
    return contents


def played(path: Path, accelerator: str = "ethos_u55", **settings: Any) -> Played:
    done = api.compile(str(path), "cortex-m55", accelerators=(accelerator,), **settings)
    found = Played(optimised(done))
    model = done.compilation.model
    for inputs in api.drawn_sets(done.compilation, 2):
        assert found.run(run_graph(model, inputs)) >= found.kinds().count("ethos-u")
    return found


@pytest.mark.parametrize("accelerator", ["ethos_u55:macs=64", "ethos_u65_256"])
def test_a_network_is_one_operator_of_the_npu(accelerator: str) -> None:
    assert played(DIGITS, accelerator).kinds() == ["ethos-u"]


def test_operators_of_the_processor_are_those_of_the_file() -> None:
    found = played(MODELS / "real_tails.tflite")
    assert found.kinds() == ["6", "6", "50", "25", "128", "ethos-u"]


def test_a_network_on_the_npu_alone_has_several_outputs() -> None:
    assert played(MODELS / "two_heads.tflite").kinds() == ["ethos-u"]


def test_the_file_has_no_weights_twice() -> None:
    done = api.compile(str(DIGITS), "cortex-m55", accelerators=("ethos_u55",))
    weights = done.report.flash_bytes.weights
    assert len(optimised(done)) < weights + 4096


@pytest.mark.parametrize("name", ["kws_ref_model", "person_detect", "ssd_slim_120x160x1"])
def test_shared_networks(name: str) -> None:
    found = played(Path(path_of(name)))
    assert "ethos-u" in found.kinds()


def test_what_the_format_cannot_state_is_refused() -> None:
    done: Compiled = api.compile(str(DIGITS), "cortex-m55")
    with pytest.raises(UnsupportedError, match="without operators of the NPU"):
        optimised(done)
    with pytest.raises(UsageError, match="there is no format 'vela'"):
        done.bundle(format="vela")


def test_a_folder_has_the_file_and_the_report(tmp_path: Path) -> None:
    done = api.compile(str(DIGITS), "cortex-m55", accelerators=("ethos_u55",))
    done.write(tmp_path / "out", format="vela-tflite")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names >= {"digits_vela.tflite", "report.json"}
    assert not any(name.endswith(".c") for name in names)
