from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from minimal_tflite import ints, model_bytes, table
from penstock import api
from penstock.errors import ToolError
from penstock.simulators import tflite_micro
from penstock.simulators.goldens import array_crc32, read_goldens
from penstock.simulators.tflite_micro import run_tflite_micro, run_tflite_micro_sets
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

NOTHING = (np.zeros((1, 4), np.int8),)


def refusal(model_bytes: bytes = b"no model at all, but long enough") -> ToolError:
    with pytest.raises(ToolError) as caught:
        run_tflite_micro(model_bytes, NOTHING)
    return caught.value


def test_a_missing_runtime_is_an_error_that_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tflite_micro", None)
    assert str(refusal()) == (
        "error[tool-040]: TensorFlow Lite Micro is not installed\n"
        "  --> Python package tflite_micro\n"
        "  why: ground truth comes from the reference runtime, never from penstock itself\n"
        "  help: pip install 'penstock[reference]'"
    )


def test_bytes_that_are_no_model_are_refused_in_the_runtimes_words(runtime: None) -> None:
    error = refusal()
    assert error.code == "tool-041"
    assert "buffer" in error.why


def test_a_crash_ends_the_child_only_and_carries_what_it_printed(
    runtime: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child.py"
    child.write_text(
        "import os, sys\nprint('node 3 is odd', file=sys.stderr, flush=True)\nos.abort()\n"
    )
    monkeypatch.setattr(tflite_micro, "CHILD", child)
    error = refusal()
    assert error.code == "tool-042"
    assert error.what == "TensorFlow Lite Micro crashed on this model (SIGABRT)"
    assert error.why == "node 3 is odd"


def test_a_crash_names_the_operator(runtime: None) -> None:
    scales = (0.1, 0.1, 1e-30)
    tensors = [TensorSpec(f"t{k}", (1, 4), "int8", (s,), (0,)) for k, s in enumerate(scales)]
    nodes = (OperatorSpec("RELU", (0,), (1,)), OperatorSpec("ADD", (1, 0), (2,)))
    error = refusal(write_tflite(tensors, nodes, (0,), (2,)))
    assert (error.code, error.where) == ("tool-042", 'the model: node 1 ADD "t2"')


@pytest.mark.parametrize(
    "name",
    [
        "kws_ref_model",
        "pretrainedResnet_quant",
        "person_detect",
        "trained_lstm_int8",
        "mww_vad",
        "ops/rand_op_sum_hw",
        "ops/rand_op_split_v",
        "ops/seanet_conv0",
    ],
)
def test_the_answers_are_those_of_the_shared_goldens(
    runtime: None, shared_models: Path, name: str
) -> None:
    goldens = read_goldens(shared_models / "goldens" / f"{name}.npz")
    model_bytes = (shared_models / f"{name}.tflite").read_bytes()
    position = goldens.tensor_set or 0
    expected = (goldens.tflm_sets or goldens.sets)[position]
    inputs, outputs = expected.inputs, expected.outputs
    if goldens.stateful:  # the first axis is the step
        inputs, outputs = tuple(x[0] for x in inputs), tuple(y[0] for y in outputs)
    answer = run_tflite_micro(model_bytes, inputs)
    assert len(answer.outputs) == len(outputs)
    assert all(np.array_equal(*pair) for pair in zip(answer.outputs, outputs, strict=True))
    crcs = goldens.tflm_tensor_crc32 or goldens.tensor_crc32
    assert tuple((index, array_crc32(values)) for index, values in answer.tensors) == crcs


def test_no_state_passes_from_one_set_to_the_next(runtime: None, shared_models: Path) -> None:
    inputs = read_goldens(shared_models / "goldens" / "mww_vad.npz").sets[0].inputs[0][0]
    model_bytes = (shared_models / "mww_vad.tflite").read_bytes()
    first, second = run_tflite_micro_sets(model_bytes, ((inputs,), (inputs,)))
    for (_, values), (_, again) in zip(first.tensors, second.tensors, strict=True):
        assert np.array_equal(values, again)


def with_memory_plan() -> bytes:
    """A RELU whose file places both tensors at offset 0 of the arena."""
    q = table("QuantizationParameters", Scale=np.array([0.5], np.float32), ZeroPoint=np.array([0]))
    tensors = [table("Tensor", Shape=ints(1, 4), Type=9, Quantization=q) for _ in range(2)]
    relu = table("Operator", Inputs=ints(0), Outputs=ints(1))
    graph = table("SubGraph", Tensors=tensors, Inputs=ints(0), Outputs=ints(1), Operators=[relu])
    version, subgraph, count = 1, 0, 2
    plan = np.array((version, subgraph, count, 0, 0), np.int32).tobytes()
    return model_bytes(
        table(
            "Model",
            Version=3,
            OperatorCodes=[table("OperatorCode", BuiltinCode=19, DeprecatedBuiltinCode=19)],
            Subgraphs=[graph],
            Buffers=[table("Buffer"), table("Buffer", Data=plan)],
            Metadata=[table("Metadata", Name="OfflineMemoryAllocation", Buffer=1)],
        )
    )


def test_a_memory_plan_in_the_file_does_not_overlap_the_tensors(runtime: None) -> None:
    given = np.array([[-3, 2, -1, 5]], np.int8)
    found = run_tflite_micro(with_memory_plan(), (given,))
    assert [found.outputs[0].tolist(), dict(found.tensors)[0].tolist()] == [
        [[0, 2, 0, 5]],
        given.tolist(),
    ]


def test_a_reference_that_ignores_the_scales_of_channels_is_no_judge(tmp_path: Path) -> None:
    weights = np.array([[1, -2, 3], [4, 5, -6]], np.int8)
    tensors = (
        TensorSpec("x", (1, 3), "float32"),
        TensorSpec("w", (2, 3), "int8", (0.1, 0.2), (0, 3), 0, weights),
        TensorSpec("reals", (2, 3), "float32"),
        TensorSpec("y", (1, 2), "float32"),
    )
    nodes = (
        OperatorSpec("DEQUANTIZE", (1,), (2,)),
        OperatorSpec("FULLY_CONNECTED", (0, 2, -1), (3,)),
    )
    path = tmp_path / "m.tflite"
    path.write_bytes(write_tflite(tensors, nodes, (0,), (3,)))
    with pytest.raises(ToolError, match="all channels by the scale of the first one"):
        api.verify(path, "host", reference="tflite")
