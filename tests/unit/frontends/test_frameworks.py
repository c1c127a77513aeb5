"""Files of frameworks: converted in a process of their own, which these tests partly imitate."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine
from penstock import api
from penstock.errors import ModelError, PenstockError, ToolError, UnsupportedError
from penstock.frontends.frameworks import conversion
from penstock.frontends.open import parse, read_file
from penstock.frontends.reading import Reading
from penstock.reports.accuracy import Accuracy
from tools.onnx_writer import Model

FAKE_TORCH = '''"""Imitates torch: a program is the ONNX model in its archive."""
import sys, types, zipfile

class Tensor:
    dtype, shape = "torch.float32", (1, 4)

def load(path):
    program = types.SimpleNamespace(path=path)
    program.graph = types.SimpleNamespace(
        nodes=[types.SimpleNamespace(name="x", meta={"val": Tensor()})]
    )
    program.graph_signature = types.SimpleNamespace(user_inputs=["x"], user_outputs=["y"])
    program.call_spec = types.SimpleNamespace(out_spec=None)
    exec(member(path, "on_load"), {})
    return program

def member(path, name):
    with zipfile.ZipFile(path) as archive:
        return archive.read(name) if name in archive.namelist() else b""

def exported(program, **options):
    print("noise on stdout")
    print("noise on stderr", file=sys.stderr)
    exec(member(program.path, "on_export"), {})
    raw = member(program.path, "onnx")
    return types.SimpleNamespace(
        model_proto=types.SimpleNamespace(SerializeToString=lambda: raw)
    )

export = types.SimpleNamespace(load=load)
onnx = types.SimpleNamespace(export=exported)
'''
Program = Callable[..., Path]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Writes a .pt2 file of one ReLU for a torch that is imitated.  All temporary files are in the
    folder `temporary`."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "torch.py").write_text(FAKE_TORCH)
    (tmp_path / "packages" / "onnxscript.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    model = Model(quantised=False)
    raw = model.raw(model.node("Relu", model.input(1, 4)))

    def written(**members: str) -> Path:
        path = tmp_path / "net.pt2"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("net/archive_format", "pt2")
            archive.writestr("onnx", raw)
            for name, code in members.items():
                archive.writestr(name, code)
        return path

    return written


def test_a_program_is_exported_in_a_process_without_a_word(
    program: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    graph = read_file(program())
    assert [node.kind for node in graph.nodes] == ["PlainRelu"]
    assert capfd.readouterr() == ("", "")
    assert not list((tmp_path / "temporary").iterdir())


def test_what_the_framework_writes_beside_is_removed(program: Program, tmp_path: Path) -> None:
    read_file(program(on_export="import tempfile; tempfile.mkstemp()"))
    assert not list((tmp_path / "temporary").iterdir())


def test_equal_files_are_converted_once_per_process(program: Program, tmp_path: Path) -> None:
    count = f"open({str(tmp_path / 'count')!r}, 'a').write('.')"
    path = program(on_export=count)
    read_file(path)
    read_file(path)
    assert (tmp_path / "count").read_text() == "."
    read_file(program(on_export=f"{count} # another file"))
    assert (tmp_path / "count").read_text() == ".."


@pytest.mark.parametrize(
    ("when", "code", "kind"),
    [("on_load", "framework-003", ModelError), ("on_export", "framework-004", ToolError)],
)
@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("raise ValueError('no such\\n operator')", "no such operator"),
        ("raise ValueError", "ValueError"),
        ("print('the reason'); import os; os.abort()", "signal 6 ended it; its last message: "),
        ("print('the reason'); import sys; sys.exit(7)", "it ended with exit code 7"),
    ],
)
def test_a_failure_has_the_framework_s_reason(
    program: Program, tmp_path: Path, when: str, code: str, kind: type[PenstockError], does: str,
    why: str,
) -> None:  # fmt: skip
    with pytest.raises(kind) as caught:
        read_file(program(**{when: does}))
    error = caught.value
    assert (error.code, error.where) == (code, "net.pt2")
    assert why in error.why
    assert error.help
    assert not list((tmp_path / "temporary").iterdir())


def test_verbose_prints_what_the_framework_prints(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "penstock.frameworks"):
        read_file(program())
    assert caplog.messages == ["noise on stdout\nnoise on stderr"]


def test_no_output_is_written_if_the_conversion_fails(
    program: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = program(on_export="raise ValueError")
    said = CommandLine(monkeypatch, capsys)("compile", str(path), "-o", str(tmp_path / "out"))
    assert said.err.startswith("error[framework-004]: torch's ONNX exporter cannot convert")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("suffix", [".keras", ".pt2"])
@pytest.mark.parametrize(
    ("raw", "why"),
    [(b"PK\x03\x04 cut off", "is not a zip file"), (b"something else", "is not a zip file")],
)
def test_a_damaged_archive_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, raw: bytes, why: str
) -> None:
    monkeypatch.setattr(conversion, "converted", pytest.fail)
    path = tmp_path / f"net{suffix}"
    path.write_bytes(raw)
    with pytest.raises(ModelError) as caught:
        read_file(path)
    assert caught.value.code == "framework-001"
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("suffix", "member"), [(".keras", "config.json"), (".pt2", "archive_format")]
)
def test_an_archive_without_its_member_is_refused(tmp_path: Path, suffix: str, member: str) -> None:
    path = tmp_path / f"net{suffix}"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other", b"")
    with pytest.raises(ModelError, match="archive") as caught:
        read_file(path)
    assert member in caught.value.why


def test_other_formats_are_recognised_under_a_framework_s_suffix(tmp_path: Path) -> None:
    model = Model()
    path = tmp_path / "net.keras"
    path.write_bytes(model.raw(model.node("Relu", model.input(1, 4))))
    assert len(read_file(path).nodes) == 1
    path.write_bytes(b"\x89HDF\r\n\x1a\n and more")
    with pytest.raises(UnsupportedError, match="HDF5"):
        read_file(path)
    path.write_bytes(b"")
    with pytest.raises(ModelError, match="empty"):
        read_file(path)


def test_a_framework_s_file_under_another_suffix_runs_no_framework(
    program: Program, tmp_path: Path
) -> None:
    path = program().rename(tmp_path / "net.bin")
    with pytest.raises(UnsupportedError, match="exported by PyTorch") as caught:
        read_file(path)
    assert ".pt2" in caught.value.help
    with pytest.raises(UnsupportedError, match="exported by PyTorch"):
        parse(path.read_bytes(), "net.bin")


@pytest.mark.parametrize(
    ("suffix", "member", "package", "extra"),
    [
        (".keras", "config.json", "tensorflow", "penstock[keras]"),
        (".pt2", "net/archive_format", "torch", "penstock[torch]"),
        (".pt2", "net/archive_format", "onnxscript", "penstock[torch]"),
    ],
)
def test_a_missing_framework_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    suffix: str, member: str, package: str, extra: str,
) -> None:  # fmt: skip
    path = tmp_path / f"net{suffix}"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, b"{}")

    def without_package(name: str) -> object:
        return None if name == package else object()

    monkeypatch.setattr(importlib.util, "find_spec", without_package)
    with pytest.raises(ToolError, match=f"{package} is not installed") as caught:
        read_file(path)
    assert extra in caught.value.help


# With the frameworks themselves.

need_keras = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("tensorflow", "keras")),
    reason="the package of penstock[keras] is not installed",
)


def keras_file(folder: Path, code: str) -> Path:
    """Runs code that saves a Keras model `m`, in a process of its own: TensorFlow and other
    packages of tests do not share one."""
    path = folder / "net.keras"
    text = f"import keras\nL = keras.layers\nkeras.utils.set_random_seed(0)\n{code}\n"
    text += f"m.save({str(path)!r})\n"
    subprocess.run([sys.executable, "-c", text], check=True, capture_output=True)
    return path


@need_keras
def test_a_keras_model_computes_what_keras_does(tmp_path: Path) -> None:
    path = keras_file(
        tmp_path,
        "x = keras.Input((8, 8, 3), name='image')\n"
        "y = L.Conv2D(4, 3, padding='same', activation='relu')(x)\n"
        "y = L.Flatten()(L.BatchNormalization()(y))\n"
        "m = keras.Model(x, {'scores': L.Dense(5, name='d')(y), 'half': L.Dense(2)(y)})\n"
        "import numpy as np; z = np.random.default_rng(0).normal(size=(40, 8, 8, 3))\n"
        "z = z.astype('float32'); r = m.predict(z, verbose=0)\n"
        f"np.savez({str(tmp_path / 'samples.npz')!r}, image=z)\n"
        f"np.savez({str(tmp_path / 'results.npz')!r}, **r)",
    )
    images = np.load(tmp_path / "samples.npz")["image"]
    expected = np.load(tmp_path / "results.npz")
    real = api.load(path).predict(images)
    assert isinstance(real, dict)
    assert {name: x.shape for name, x in real.items()} == {"half": (40, 2), "scores": (40, 5)}
    for name, found in real.items():
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-5)
    network = api.load(path, quantise=tmp_path / "samples.npz")
    assert [(x.name, x.element_type) for x in network.inputs] == [("image", "int8")]
    assert [y.element_type for y in network.outputs] == ["int8", "int8"]
    quantised = network.predict(images)
    assert isinstance(quantised, dict)
    for name, found in quantised.items():
        assert 0 < np.abs(found - expected[name]).max() < 0.1
        assert np.abs(expected[name]).max() > 0.5, "the outputs are not near 0"
    half, scores = api.compile(
        path, "host", quantise=tmp_path / "samples.npz", evaluate=tmp_path / "samples.npz"
    ).report.evaluations
    assert half.real == Accuracy(40, None, None)
    for one in (half, scores):
        error = np.abs(quantised[one.output] - expected[one.output]).mean()
        assert one.difference == pytest.approx(error, rel=1e-3)


@need_keras
def test_recurrent_layers_and_tokens_are_quantised(tmp_path: Path) -> None:
    path = keras_file(
        tmp_path,
        "t = keras.Input((6,), dtype='int32', name='tokens')\n"
        "m = keras.Model(t, L.Dense(3)(L.LSTM(8)(L.Embedding(20, 8, 'normal')(t)*20)))",
    )
    tokens = np.random.default_rng(0).integers(0, 20, (30, 6)).astype(np.int32)
    np.savez(tmp_path / "samples.npz", tokens)
    real = api.load(path).predict(tokens)
    quantised = api.load(path, quantise=tmp_path / "samples.npz").predict(tokens)
    assert isinstance(real, np.ndarray)
    assert isinstance(quantised, np.ndarray)
    assert 0 < np.abs(real - quantised).mean() < 0.1 * np.abs(real).max()


@need_keras
def test_code_in_a_keras_file_does_not_run(tmp_path: Path) -> None:
    path = keras_file(
        tmp_path, "m = keras.Sequential([keras.Input((4,)), L.Lambda(lambda x: x * 2)])"
    )
    with pytest.raises(ModelError, match="Keras cannot load the model") as caught:
        read_file(path)
    assert caught.value.code == "framework-003"
    assert "Lambda" in caught.value.why


@need_keras
def test_an_open_extent_is_refused(tmp_path: Path) -> None:
    path = keras_file(
        tmp_path,
        "x = keras.Input((None, 4), name='x'); m = keras.Model(x, L.Dense(2)(x))",
    )
    with pytest.raises(UnsupportedError, match=r'input "x" has an open extent: \[1, \?, 4\]'):
        read_file(path)


@need_keras
def test_samples_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = keras_file(
        tmp_path, "x = keras.Input((4,), name='x'); m = keras.Model(x, L.Dense(2)(x))"
    )
    np.savez(tmp_path / "samples.npz", x=np.zeros((9, 3), np.float32))
    with pytest.raises(ModelError, match=r"must be float32\[samples,1,4\]") as caught:
        read_file(path, Reading(calibration=tmp_path / "samples.npz"))
    assert caught.value.code == "calibration-003"
    with pytest.raises(ModelError) as caught:
        read_file(path, Reading(calibration=tmp_path / "missing.npz"))
    assert caught.value.code == "calibration-001"


need_torch = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch", "onnxscript", "onnxruntime")),
    reason="the packages of penstock[torch] are not installed",
)


def torch_file(folder: Path, code: str) -> Path:
    """Runs code that makes a module `m` and example inputs `x`, in a process of its own."""
    path = folder / "net.pt2"
    text = f"import torch\nn = torch.nn\ntorch.manual_seed(0)\nshapes = None\n{code}\n"
    text += "p = torch.export.export(m.eval(), x, dynamic_shapes=shapes)\n"
    text += f"torch.export.save(p, {str(path)!r})\n"
    subprocess.run([sys.executable, "-c", text], check=True, capture_output=True)
    return path


@need_torch
@pytest.mark.parametrize("batch", ["shapes = None", "shapes = ({0: torch.export.Dim('batch')},)"])
def test_a_program_computes_what_torch_does(tmp_path: Path, batch: str) -> None:
    path = torch_file(
        tmp_path,
        "m = n.Sequential(n.Conv2d(3, 6, 3, padding=1), n.BatchNorm2d(6), n.ReLU(),\n"
        "                 n.Conv2d(6, 4, 3, padding=1, groups=2))\n"
        f"x = (torch.zeros(2, 3, 8, 8),)\n{batch}\n"
        "x = x if shapes else (torch.zeros(1, 3, 8, 8),)\n"
        "import numpy as np; z = torch.randn(40, 3, 8, 8)\n"
        f"np.savez({str(tmp_path / 'samples.npz')!r}, z)\n"
        f"np.savez({str(tmp_path / 'results.npz')!r}, m.eval()(z).detach())",
    )
    (images,) = np.load(tmp_path / "samples.npz").values()
    (expected,) = np.load(tmp_path / "results.npz").values()
    images, expected = (x.transpose(0, 2, 3, 1) for x in (images, expected))
    network = api.load(path)
    assert [x.shape for x in (*network.inputs, *network.outputs)] == [(1, 8, 8, 3), (1, 8, 8, 4)]
    assert not any("Transpose" in layer.kind for layer in api.compile(path, "host").layers)
    np.testing.assert_allclose(network.predict(images), expected, rtol=1e-4, atol=1e-5)
    quantised = api.load(path, quantise=tmp_path / "samples.npz")
    assert [x.element_type for x in (*quantised.inputs, *quantised.outputs)] == ["int8", "int8"]
    found = quantised.predict(images)
    assert isinstance(found, np.ndarray)
    assert 0 < np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
    np.savez(tmp_path / "l.npz", images.transpose(0, 3, 1, 2), labels=expected.argmax(-1))
    (one,) = api.compile(
        path, "host", quantise=tmp_path / "samples.npz", evaluate=tmp_path / "l.npz"
    ).report.evaluations
    assert one.real == Accuracy(40, 1, None)
    assert one.difference == pytest.approx(np.abs(found - expected).mean(), rel=1e-3)
    assert one.compiled.top_1 == one.agreement == np.mean(found.argmax(-1) == expected.argmax(-1))


@need_torch
def test_a_dictionary_of_outputs_names_them(tmp_path: Path) -> None:
    path = torch_file(
        tmp_path,
        "class M(n.Module):\n"
        "    def forward(self, a, b): return {'sum': a + b, 'product': a * b}\n"
        "m = M(); x = (torch.zeros(1, 4), torch.zeros(1, 4))",
    )
    network = api.load(path)
    found = network.predict({"a": np.arange(4.0), "b": np.full(4, 3.0)})
    assert isinstance(found, dict)
    assert {name: x.tolist() for name, x in found.items()} == {
        "sum": [3, 4, 5, 6], "product": [0, 3, 6, 9]
    }  # fmt: skip


@need_torch
def test_a_program_that_the_exporter_refuses_has_its_reason(tmp_path: Path) -> None:
    path = torch_file(
        tmp_path,
        "class M(n.Module):\n"
        "    def forward(self, a): return torch.linalg.eigvals(a).real\n"
        "m = M(); x = (torch.zeros(4, 4),)",
    )
    with pytest.raises(ToolError, match="torch's ONNX exporter cannot convert") as caught:
        read_file(path)
    assert "linalg_eig" in caught.value.why
