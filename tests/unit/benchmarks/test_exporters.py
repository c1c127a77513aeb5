"""The page of what became of the networks of exporters."""

from __future__ import annotations

from benchmarks.exporters.making import FileName
from benchmarks.exporters.page import page
from benchmarks.torture.case import Outcome, Verdict

EXACT = Verdict(Outcome.EXACT)
REFUSED = Verdict(Outcome.REFUSED, "model-021", "int16", "error[model-021]: int16 | no --> m")


def test_the_name_of_a_file_says_what_made_it() -> None:
    name = FileName.of("torch.lenet.script17-qdq-s8s8.onnx")
    assert name == FileName("torch", "lenet", "script17-qdq-s8s8", ".onnx")
    assert str(name) == "torch.lenet.script17-qdq-s8s8.onnx"
    assert name.quantisation == "qdq-s8s8"
    assert FileName.of("keras.lenet.float-borders.tflite").quantisation == "float-borders"


def test_the_page_counts_verdicts_and_explains_refusals() -> None:
    text = page(
        {
            FileName.of("torch.lenet.script17-dynamic.onnx"): EXACT,
            FileName.of("torch.lenet.dynamo18-dynamic.onnx"): REFUSED,
            FileName.of("torch.lenet.dynamo18-float32.onnx"): Verdict(Outcome.WRONG, note="off"),
            FileName.of("keras.gru.int8.tflite"): Verdict(Outcome.NOT_JUDGED, note="no runtime"),
        }
    )
    lines = text.splitlines()
    assert "| torch | 3 | 1 (33.3%) | 0 | 1 | 1 |" in lines
    assert "| all | 4 | 1 (25.0%) | 1 | 1 | 1 |" in lines
    assert "| lenet | exact, model-021 | wrong |" in lines
    assert "| [model-021]: int16 / no | torch.lenet.dynamo18-dynamic.onnx |" in lines
    assert "| off | torch.lenet.dynamo18-float32.onnx |" in lines
