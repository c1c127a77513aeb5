"""The node tests of the package `onnx`."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any


@cache
def one_node_tests() -> tuple[Any, ...]:
    """Those whose model has one node."""
    with warnings.catch_warnings(action="ignore"):  # some divide by zero when they are built
        from onnx.backend.test.loader import load_model_tests

        every: Any = load_model_tests(kind="node")
    return tuple(test for test in every if test.model and len(test.model.graph.node) == 1)
