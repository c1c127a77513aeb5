"""Recognition of ONNX models without the package `onnx`, which is slow to import."""

from __future__ import annotations

from penstock.frontends.tflite import looks_like_tflite

ONNX_BEGIN = b"\x08"
"""The protobuf key of the first field, the format version."""


def looks_like_onnx(raw: bytes, name: str) -> bool:
    """Whether the bytes may be an ONNX model, by their first field or the file's name.

    A TFLite file may begin with the same byte."""
    begins = raw[:1] == ONNX_BEGIN or name.removesuffix(".gz").endswith(".onnx")
    return begins and not looks_like_tflite(raw)
