"""The tests of the package `onnx`."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import onnx


@cache
def one_node_tests() -> tuple[Any, ...]:
    """Those whose model has one node."""
    with warnings.catch_warnings(action="ignore"):  # some divide by zero when they are built
        from onnx.backend.test.loader import load_model_tests

        every: Any = load_model_tests(kind="node")
    return tuple(test for test in every if test.model and len(test.model.graph.node) == 1)


def exported_tests() -> list[Any]:
    """The models that PyTorch exported, with opsets up to 6."""
    from onnx.backend.test.loader import load_model_tests

    kinds = ("pytorch-converted", "pytorch-operator")
    return [_loaded(test) for kind in kinds for test in load_model_tests(kind=kind)]


def _loaded(test: Any) -> Any:
    folder = Path(test.model_dir)
    sets = [
        (_tensors(path, "input"), _tensors(path, "output"))
        for path in folder.glob("test_data_set_*")
    ]
    return replace(test, model=onnx.load(folder / "model.onnx"), data_sets=sets)


def _tensors(folder: Path, kind: str) -> list[onnx.TensorProto]:
    return [onnx.TensorProto.FromString(f.read_bytes()) for f in sorted(folder.glob(f"{kind}_*"))]
