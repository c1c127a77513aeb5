"""Finds the model files of a folder and counts their operators."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from penstock.allowance import allowed
from penstock.errors import ModelError
from penstock.frontends import tflite
from penstock.frontends.onnx.recognition import looks_like_onnx
from penstock.frontends.open import SUFFIXES, unpacked

_ENDINGS = tuple(f"{suffix}{packed}" for suffix in SUFFIXES for packed in ("", ".gz"))


def model_files(folder: Path) -> Iterator[Path]:
    """The files of a folder and its subfolders that are named as models, sorted within each folder.

    Links to folders are not followed, since they may form a cycle."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        yield from (Path(place, name) for name in sorted(files) if is_model_file(name))


def is_model_file(name: str) -> bool:
    """Whether a file is named as a model.

    >>> is_model_file("kws.TFLITE"), is_model_file("net.onnx.gz"), is_model_file("notes.txt")
    (True, True, False)
    """
    return name.lower().endswith(_ENDINGS)


def operator_count(raw: bytes, name: str, limit_bytes: int) -> int | None:
    """The number of operators in a model file; None if it cannot be read within the limit."""
    try:
        with allowed(limit_bytes):
            return _operator_count(unpacked(raw, name, limit_bytes), name)
    except ModelError:
        return None


def _operator_count(raw: bytes, name: str) -> int | None:
    """The number of operators in unpacked bytes; None if they are damaged."""
    if tflite.looks_like_tflite(raw):
        return tflite.operator_count(raw)
    if not looks_like_onnx(raw, name):
        return None
    from penstock.frontends.onnx import file  # takes long to import

    return file.operator_count(raw)
