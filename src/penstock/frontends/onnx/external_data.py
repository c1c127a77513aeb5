"""External data: elements of constants in files beside the model.

A model names these files, and may come from a stranger, so that they are read only inside the
model's folder, links included.  Source: ONNX, docs/ExternalData.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from penstock.allowance import take
from penstock.errors import ModelError
from penstock.frontends.printable import printable

_DRIVE = re.compile(r"[A-Za-z]:")


def with_elements(tensor: Any, model: str, folder: Path | None) -> Any:
    """A TensorProto with the elements that are stored in a file of the model's folder.

    model: the name of the model, for messages.

    Raises ModelError if the file is missing, outside the folder, or too short; SizeLimitError."""
    said = {entry.key: entry.value for entry in tensor.external_data}
    location = said.get("location", "")
    try:
        raw = _content(_inside(location, folder), said, _size_bytes(tensor), model)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ModelError(
            "onnx-003",
            f'the data of "{printable(tensor.name)}" is missing',
            where=model,
            why=f"it is stored in {printable(location)!r}: {why}",
            help="put the file with the external data beside the model; a link must lead to a file "
            "in the folder of the model",
        ) from error
    found = onnx.TensorProto()
    found.CopyFrom(tensor)
    del found.external_data[:]
    found.data_location = onnx.TensorProto.DEFAULT
    found.raw_data = raw
    return found


def load_all(model: onnx.ModelProto, name: str, folder: Path | None) -> None:
    """Replace each constant of a model that is stored in a file, see `with_elements`."""
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.CopyFrom(with_elements(tensor, name, folder))


def _tensors(graph: Any) -> Iterator[Any]:
    """Every constant of a graph and of its subgraphs."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)


def _inside(location: str, folder: Path | None) -> Path:
    """The path of a file in the folder of the model.  Raises OSError for any other location."""
    parts = re.split(r"[/\\]", location)
    is_relative = bool(location) and parts[0] != "" and not _DRIVE.match(location)
    if folder is None or not is_relative or ".." in parts or "\0" in location:
        raise OSError("it must be a file in the model's folder")
    path = folder.joinpath(location).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise OSError("it is a link that leads out of the model's folder")
    if path.exists() and not path.is_file():
        raise OSError("it is no file")
    return path


def _content(path: Path, said: dict[str, str], size_bytes: int, model: str) -> bytes:
    """The bytes of a constant.  Raises OSError or ValueError if they are not there."""
    offset, length = int(said.get("offset", 0)), int(said.get("length", size_bytes))
    if length != size_bytes or offset < 0:
        raise ValueError(f"offset {offset} and length {length}, must have {size_bytes} bytes")
    with path.open("rb") as file:
        end = file.seek(0, 2)
        if offset + length > end:
            raise ValueError(f"the file ends at byte {end}, the data at {offset + length}")
        take(length, f"external data of {length} bytes", model)
        file.seek(offset)
        return file.read(length)


def _size_bytes(tensor: Any) -> int:
    """The bytes that the elements of a constant take.  Raises ValueError for odd types."""
    try:
        item_bytes = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except KeyError:
        raise ValueError(f"element type {tensor.data_type} does not exist") from None
    if any(extent < 0 for extent in tensor.dims):
        raise ValueError(f"shape {list(tensor.dims)} has a negative extent")
    elements = math.prod(tensor.dims)
    bits = 4 if "INT4" in onnx.TensorProto.DataType.Name(tensor.data_type) else 8 * item_bytes
    return -(-elements * bits // 8)
