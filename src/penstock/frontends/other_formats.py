"""Recognition of files and folders of other formats that are given as a model, for error messages.

The contents count before the suffix, since some formats share a container.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePath

from penstock.errors import UnsupportedError
from penstock.frontends.tflite import looks_like_tflite
from penstock.frozen import frozen
from penstock.guides import guide

# Recognition of ONNX models without the package `onnx`, which is slow to import.


ONNX_BEGIN = b"\x08"  # The protobuf key of the first field, the format version.


def looks_like_onnx(raw: bytes, name: str) -> bool:
    """Whether the bytes may be an ONNX model, by their first field or the file's name.

    A TFLite file may begin with the same byte."""
    begins = raw[:1] == ONNX_BEGIN or name.removesuffix(".gz").endswith(".onnx")
    return begins and not looks_like_tflite(raw)


READ = "penstock reads .tflite and .onnx files, also as .gz, and .keras and .pt2 files"
KERAS = f"save the model as a .keras file, or convert it to .tflite ({guide('from-keras')})"
PYTORCH = f"export the module to a .pt2 or an .onnx file ({guide('from-pytorch')})"
ORIGINAL = "convert or export the model that it was made from to an int8 .tflite or an .onnx file"


@frozen
class OtherFormat:
    """A format that is not read.  `kind`: what such a file is; `help`: what to do with it."""

    kind: str
    help: str


# Version 1 of the schema; ONNX files begin with the version of theirs, which is larger.
_SAVED_MODEL_BEGIN = b"\x08\x01"
_SAVED_MODEL = OtherFormat("a TensorFlow SavedModel", KERAS)
_CHECKPOINT = OtherFormat("a PyTorch checkpoint", PYTORCH)
_CORE_ML = OtherFormat("a Core ML model", ORIGINAL)
# Formats by their contents.
_CONTENTS: tuple[tuple[Callable[[bytes], bool], OtherFormat], ...] = (
    (
        lambda raw: raw.startswith(b"\x89HDF\r\n\x1a\n"),
        OtherFormat("an HDF5 file, such as of Keras", KERAS),
    ),
    (
        lambda raw: raw.startswith(b"version https://git-lfs"),
        OtherFormat("a pointer of Git LFS, which stands for the model", "run `git lfs pull`"),
    ),
    (
        lambda raw: raw.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")),
        OtherFormat(
            "a web page", "download the file itself, such as by the link to its raw contents"
        ),
    ),
    (lambda raw: raw.startswith(b"\x80\x02") and b"torch" in raw[:4096], _CHECKPOINT),
    (
        lambda raw: raw[8:10] == b'{"' and int.from_bytes(raw[:8], "little") < len(raw),
        OtherFormat("a file of weights (safetensors), without a network", PYTORCH),
    ),
    (
        lambda raw: raw.startswith(b"GGUF"),
        OtherFormat("a GGUF file, of a large language model", ORIGINAL),
    ),
    (lambda raw: raw[4:6] == b"ET", OtherFormat("an ExecuTorch program", PYTORCH)),
    (
        lambda raw: raw[257:262] == b"ustar",
        OtherFormat("a tar archive", "unpack it, and give the model file in it"),
    ),
)
# Formats by suffix.
_SUFFIXES = {
    ".keras": OtherFormat(
        "a Keras model", f"give it as a file whose name ends with .keras ({guide('from-keras')})"
    ),
    ".h5": OtherFormat("a Keras model", KERAS),
    ".hdf5": OtherFormat("a Keras model", KERAS),
    ".pb": OtherFormat("a TensorFlow graph (a SavedModel or a frozen graph)", KERAS),
    ".pbtxt": OtherFormat("a TensorFlow graph (a SavedModel or a frozen graph)", KERAS),
    ".ckpt": OtherFormat("a checkpoint of weights, without a network", ORIGINAL),
    ".pt": _CHECKPOINT,
    ".pth": _CHECKPOINT,
    ".pt2": OtherFormat(
        "a program exported by PyTorch",
        f"give it as a file whose name ends with .pt2 ({guide('from-pytorch')})",
    ),
    ".ptl": OtherFormat("a TorchScript program", PYTORCH),
    ".safetensors": OtherFormat("a file of weights (safetensors), without a network", PYTORCH),
    ".mlmodel": _CORE_ML,
    ".mlpackage": _CORE_ML,
    ".pte": OtherFormat("an ExecuTorch program", PYTORCH),
    ".caffemodel": OtherFormat("a Caffe model", ORIGINAL),
    ".prototxt": OtherFormat("a Caffe model", ORIGINAL),
    ".joblib": OtherFormat("a model of scikit-learn", ORIGINAL),
    ".pkl": OtherFormat("a Python object (pickle)", ORIGINAL),
    ".npz": OtherFormat("an archive of NumPy arrays, without a network", ORIGINAL),
    ".npy": OtherFormat("a NumPy array", ORIGINAL),
    ".tar": OtherFormat("a tar archive", "unpack it, and give the model file in it"),
    ".zip": OtherFormat("a zip archive", "unpack it, and give the model file in it"),
    **dict.fromkeys(
        (".c", ".cc", ".cpp", ".h"),
        OtherFormat("C source", "give the .tflite file that the array was written from"),
    ),
}
# Formats of zip archives: ends of the names of members, of which one suffices.
_ZIP_MEMBERS = (
    (("model.weights.h5", "config.json"), _SUFFIXES[".keras"]),
    (("data.pkl", "constants.pkl"), _CHECKPOINT),
    (("archive_format",), _SUFFIXES[".pt2"]),
    (("saved_model.pb",), _SAVED_MODEL),
    ((".npy",), _SUFFIXES[".npz"]),
)


def refused_folder(path: Path) -> UnsupportedError | None:
    """The error for a folder of a known format; None if it is of no known format."""
    if (path / "saved_model.pb").is_file() or (path / "saved_model.pbtxt").is_file():
        return _refused(_SAVED_MODEL, str(path))
    found = _SUFFIXES.get(path.suffix.lower())
    return None if found is None else _refused(found, str(path))


def refused_file(raw: bytes, name: str) -> UnsupportedError | None:
    """The error for a file that is neither TFLite nor ONNX; None if its format is not known."""
    found = other_format(raw, name)
    return None if found is None else _refused(found, name)


def other_format(raw: bytes, name: str) -> OtherFormat | None:
    """The format of a file's bytes and name, if it is known and not ONNX."""
    if raw[:1] == ONNX_BEGIN and raw[:2] != _SAVED_MODEL_BEGIN:
        return None
    for matches, found in _CONTENTS:
        if matches(raw):
            return found
    by_suffix = _SUFFIXES.get(PurePath(name.lower().removesuffix(".gz")).suffix)
    if raw.startswith(b"PK\x03\x04"):
        return _zip_format(raw) or by_suffix or _SUFFIXES[".zip"]
    return by_suffix


def _zip_format(raw: bytes) -> OtherFormat | None:
    try:
        names = zipfile.ZipFile(io.BytesIO(raw)).namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return None
    return next(
        (kind for ends, kind in _ZIP_MEMBERS if any(name.endswith(ends) for name in names)), None
    )


def _refused(found: OtherFormat, where: str) -> UnsupportedError:
    return UnsupportedError(
        "model-005",
        f"the model is {found.kind}, must be a TFLite or an ONNX file",
        where=where,
        why=READ,
        help=found.help,
        cause=f"format: {found.kind}",
    )
