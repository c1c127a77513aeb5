"""`--evaluate`: accuracy of the generated code beside that of the model in real numbers."""

from __future__ import annotations

import importlib.util
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from available import DIGITS
from command_line import CommandLine
from penstock import api
from penstock.errors import ModelError, UsageError
from penstock.frontends.frameworks.child import Array, outputs_of
from penstock.reports.accuracy import Accuracy, Evaluation
from penstock.reports.page.data import report_data
from penstock.reports.summary import summary
from tools.onnx_writer import Model

need_onnxruntime = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None,
    reason="the package of penstock[quantise] is not installed",
)


def test_a_quantised_file_has_labels_only(tmp_path: Path) -> None:
    network = api.load(DIGITS)
    images = np.random.default_rng(0).uniform(0, 1, (50, *network.inputs[0].shape[1:]))
    scores = network.predict(images)
    assert isinstance(scores, np.ndarray)
    labels = scores.argmax(-1)
    labels[:10] = (labels[:10] + 1) % scores.shape[-1]
    name = network.inputs[0].name
    np.savez(tmp_path / "l.npz", **{name: images.astype(np.float32)}, labels=labels)  # type: ignore[arg-type]
    report = api.compile(DIGITS, "host", evaluate=tmp_path / "l.npz").report
    output = network.outputs[0].name
    assert report.evaluations == (Evaluation(output, Accuracy(50, 0.8, None)),)
    console = Console(width=200, record=True, file=StringIO())
    console.print(summary(report))
    assert f'accuracy    80.00  % top-1 ("{output}", 50 samples)' in console.export_text()
    assert report_data(report)["figures"][-1] == {
        "label": "Accuracy",
        "value": "80.00",
        "unit": "% top-1",
        "notes": (f'"{output}", 50 samples',),
    }


def images_and_scores(path: Path) -> None:
    """A float network with an image as input, and two outputs, of which one is an image."""
    model = Model(quantised=False)
    x = model.input(1, 3, 8, 6, name="image")
    y = model.node("Conv", x, model.weights(4, 3, 3, 3), pads=[1, 1, 1, 1])
    model.node("Flatten", model.node("GlobalAveragePool", y))
    model.nodes[-1].output[0] = "scores"
    model.nodes[0].output[0] = model.nodes[1].input[0] = "planes"
    path.write_bytes(model.raw("planes", "scores"))


@need_onnxruntime
@pytest.mark.parametrize("last", [(), ("image",)])
def test_a_quantised_model_is_compared_with_the_float_model(
    tmp_path: Path, last: tuple[str, ...]
) -> None:
    import onnxruntime

    path = tmp_path / "net.onnx"
    images_and_scores(path)
    rng = np.random.default_rng(0)
    images = rng.normal(size=(30, 3, 8, 6)).astype(np.float32)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = [session.run(["planes", "scores"], {"image": image[None]}) for image in images]
    planes, scores = (np.concatenate(x) for x in zip(*found, strict=True))
    labels = scores.argmax(-1)
    labels[:3] = 3 - labels[:3]
    np.savez(tmp_path / "samples.npz", images)
    np.savez(tmp_path / "labelled.npz", image=images, scores=labels, planes=planes + 1)
    done = api.compile(
        path, "host", quantise=tmp_path / "samples.npz", channels_last=last,
        evaluate=tmp_path / "labelled.npz",
    )  # fmt: skip
    x = images.transpose(0, 2, 3, 1) if last else images
    mine = api.load(done).predict(x)
    assert isinstance(mine, dict)
    of_planes, of_scores = done.report.evaluations
    assert [one.output for one in done.report.evaluations] == list(mine)
    assert of_scores.compiled == Accuracy(30, np.mean(mine["scores"].argmax(-1) == labels), None)
    assert of_scores.real == Accuracy(30, 0.9, None)
    assert of_scores.agreement == np.mean(mine["scores"].argmax(-1) == scores.argmax(-1))
    assert of_scores.difference == pytest.approx(np.abs(mine["scores"] - scores).mean(), rel=1e-4)
    assert of_planes.difference == pytest.approx(np.abs(mine["planes"] - planes).mean(), rel=1e-4)
    assert 0 < of_planes.difference < 0.1 < np.abs(planes).mean()
    assert of_planes.real is not None
    assert of_planes.real.mean_error == pytest.approx(1, rel=1e-6)
    assert of_planes.compiled.mean_error == pytest.approx(1, abs=0.01)


def test_archives_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    (x,) = api.load(DIGITS).inputs
    images = np.zeros((4, *x.shape[1:]), np.float32)
    for arrays, kind, what in (
        ({"labels": np.zeros(4, int)}, ModelError, f'no array for input "{x.name}"'),
        ({x.name: images, "lables": np.zeros(4, int)}, ModelError, 'no input "lables"'),
        ({x.name: images[..., 1:], "labels": np.zeros(4, int)}, ModelError, "must be float32"),
        ({x.name: images}, ModelError, "nothing to compare"),
        ({x.name: images, "labels": np.full(4, 99)}, UsageError, "label 99 is not within"),
        ({x.name: images, "labels": np.zeros(3, int)}, UsageError, "does not fit"),
    ):
        np.savez(tmp_path / "l.npz", **arrays)  # type: ignore[arg-type]
        with pytest.raises(kind, match=what) as caught:
            api.compile(DIGITS, "host", evaluate=tmp_path / "l.npz")
        assert caught.value.where == str(tmp_path / "l.npz")
        assert caught.value.help


def test_nothing_is_written_if_the_evaluation_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    penstock = CommandLine(monkeypatch, capsys)
    said = penstock("compile", DIGITS, "--evaluate", tmp_path / "l.npz", "-o", tmp_path / "out")
    assert said.err.startswith("error[calibration-001]: the samples cannot be read")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", [1, 2, 64, 65, 129])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_framework_evaluates_in_batches(count: int, is_open: bool) -> None:
    batches: list[int] = []

    def call(x: Array, y: Array) -> list[Array]:
        assert x.shape[1:] == (3,)
        batches.append(len(x))
        return [x + y, (x * y).sum(-1)]

    x, y = np.random.default_rng(0).normal(size=(2, count, 1, 3))
    total, product = outputs_of(call, [x, y], is_open=is_open)
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(product, (x * y).sum(-1))
    assert {min(batches), max(batches)} == {1} if not is_open else 2 <= max(batches) <= 64
    assert not is_open or min(batches) > 1


def test_an_output_without_a_batch_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="batch axis"):
        outputs_of(lambda x: [x.sum(0)], [np.zeros((9, 1, 3))], is_open=True)
