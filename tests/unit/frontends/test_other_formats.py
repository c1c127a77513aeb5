"""Files and folders of other formats are named, with the guide that converts them."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import pytest

from penstock.errors import PenstockError, UnsupportedError
from penstock.frontends.open import parse, read_bytes
from tools.onnx_writer import Model


def zipped(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"contents")
    return file.getvalue()


def refusal(name: str, raw: bytes) -> UnsupportedError:
    with pytest.raises(UnsupportedError) as caught:
        parse(raw, name)
    assert caught.value.code == "model-005"
    return caught.value


KERAS, PYTORCH = "from-keras.md", "from-pytorch.md"


@pytest.mark.parametrize(
    ("name", "raw", "kind", "help"),
    [
        ("net.keras", zipped("metadata.json", "config.json", "model.weights.h5"), "Keras", KERAS),
        ("net.h5", b"\x89HDF\r\n\x1a\n and more", "HDF5", KERAS),
        ("net", b"\x89HDF\r\n\x1a\n and more", "HDF5", KERAS),
        ("net.pt", zipped("net/data.pkl", "net/version"), "PyTorch checkpoint", PYTORCH),
        ("renamed.bin", zipped("net/data.pkl", "net/version"), "PyTorch checkpoint", PYTORCH),
        ("old.pth", b"\x80\x02}q\x00(X\x05torch", "PyTorch checkpoint", PYTORCH),
        ("net.pt2", zipped("net/archive_format"), "exported by PyTorch", PYTORCH),
        ("w.safetensors", b"\x20" + bytes(7) + b'{"a":{}}' + bytes(40), "safetensors", PYTORCH),
        ("saved_model.pb", b"\x08\x01\x12\x04abcd", "TensorFlow graph", KERAS),
        ("frozen.pb", b"\x0a\x04abcd", "TensorFlow graph", KERAS),
        ("net.mlmodel", b"\x0a\x04abcd", "Core ML", "an int8 .tflite"),
        ("net.tar", bytes(257) + b"ustar" + bytes(50), "tar archive", "unpack"),
        ("net.tar.gz", gzip.compress(bytes(257) + b"ustar" + bytes(50)), "tar archive", "unpack"),
        ("net.zip", zipped("a.txt"), "zip archive", "unpack"),
        ("samples.npz", zipped("x.npy"), "NumPy", "converted"),
        ("net.tflite", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS", "git lfs pull"),
        ("net.onnx", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS", "git lfs pull"),
        ("net.tflite", b"\n<!DOCTYPE html>\n<html>", "a web page", "raw contents"),
        ("model_data.cc", b"const unsigned char model[] = {", "C source", ".tflite"),
    ],
    # The bytes of archives contain the time.
    ids=lambda value: value if isinstance(value, str) else "raw",
)
def test_a_file_of_another_format_is_named(name: str, raw: bytes, kind: str, help: str) -> None:
    error = refusal(name, raw)
    assert kind in error.what
    assert help.removesuffix("converted") in error.help


def test_a_zip_archive_that_is_damaged_is_named_by_its_suffix() -> None:
    assert "PyTorch" in refusal("net.pt", b"PK\x03\x04 damaged").what


def test_a_folder_of_tensorflow_is_named(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(UnsupportedError, match="TensorFlow SavedModel") as caught:
        read_bytes(tmp_path)
    assert KERAS in caught.value.help


def test_another_folder_is_for_scan(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="cannot be read") as caught:
        read_bytes(tmp_path)
    assert "penstock scan" in caught.value.help


@pytest.mark.parametrize("name", ["net.onnx", "net.pb", "net.bin", "net.pt"])
def test_an_onnx_model_is_read_under_any_name(name: str) -> None:
    model = Model()
    raw = model.raw(model.node("Relu", model.input(1, 4)))
    assert len(parse(raw, name).nodes) == 1
