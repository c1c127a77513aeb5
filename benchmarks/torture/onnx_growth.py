"""OnnxGrowth: a random ONNX model that grows node by node, evaluated by onnxruntime as it grows.

onnxruntime decides whether a node is legal, and what its results are: shapes and types are theirs,
and scales fit the numbers that occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.torture.onnx_judge import session
from penstock.ir.tensor import Array

T = TypeVar("T")
MOST_ELEMENTS = 2048
DOMAIN = "com.microsoft"
IR_VERSION = 10


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of the model with its elements for the drawn inputs.

    grid: scale and zero point, of integers and of their dequantised values."""

    name: str
    elements: Array
    grid: tuple[float, int] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape

    @property
    def rank(self) -> int:
        return self.elements.ndim

    @property
    def is_real(self) -> bool:
        return self.elements.dtype == np.float32

    @property
    def is_integer(self) -> bool:
        return self.elements.dtype in (np.int8, np.uint8)


@dataclass
class OnnxGrowth:
    """A model under construction; `known` are the tensors that later nodes may read."""

    random: Random
    opset: int
    known: list[Tensor] = field(default_factory=list[Tensor])
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    inputs: list[Tensor] = field(default_factory=list[Tensor])
    count: int = 0

    @property
    def numbers(self) -> np.random.Generator:
        """A generator of arrays, seeded by the model's own."""
        return np.random.default_rng(self.random.getrandbits(64))

    def one_of(self, *values: T) -> T:
        return self.random.choice(values)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def integer(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def input(self, elements: Array) -> Tensor:
        found = Tensor(self.name("x"), elements)
        self.inputs.append(found)
        self.known.append(found)
        return found

    def constant(self, elements: Any, kind: str = "float32") -> Tensor:
        found = Tensor(self.name("c"), np.asarray(elements, kind))
        self.constants[found.name] = found.elements
        return found

    def node(
        self,
        operator: str,
        *inputs: Tensor | None,
        count: int = 1,
        domain: str = "",
        grid: tuple[float, int] | None = None,
        keep: bool = True,
        **attributes: Any,
    ) -> list[Tensor]:
        """Adds a node if onnxruntime computes it, to sound results; returns them, or nothing."""
        names = [self.name(operator.lower()[:6]) for _ in range(count)]
        given = ["" if x is None else x.name for x in inputs]
        made = helper.make_node(operator, given, names, domain=domain, **attributes)
        found = self._evaluated(made, [x for x in inputs if x is not None])
        if found is None or not all(map(_is_sound, found)):
            return []
        self.nodes.append(made)
        results = [Tensor(n, array, grid) for n, array in zip(names, found, strict=True)]
        if keep:
            self.known += results
        return results

    def _evaluated(self, node: onnx.NodeProto, inputs: Sequence[Tensor]) -> list[Array] | None:
        fed = {x.name: x.elements for x in inputs}
        constants = [
            numpy_helper.from_array(self.constants[n], n) for n in fed if n in self.constants
        ]
        borders = [_info(n, array) for n, array in fed.items() if n not in self.constants]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
        graph = helper.make_graph([node], "n", borders, outputs, constants)
        try:
            running = session(self._model(graph))
            given = {n: a for n, a in fed.items() if n not in self.constants}
            return [np.asarray(a) for a in running.run(list(node.output), given)]
        except Exception:  # onnxruntime's exceptions have no common class: an illegal node
            return None

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)

    def grid(self, elements: Array, kind: str) -> tuple[float, int]:
        """A scale and zero point for real numbers, mostly so that they just fit."""
        finite = elements[np.isfinite(elements)]
        low, high = float(min(finite.min(initial=0), 0)), float(max(finite.max(initial=0), 0))
        limits = np.iinfo(kind)
        if self.chance(0.3):
            low, high = -max(-low, high), max(-low, high)
        scale = max((high - low) / 255, 2.0**-20) * self.one_of(1.0, 1.0, 1.0, 0.6, 1.7)
        if self.chance(0.2):
            scale = 2.0 ** round(float(np.log2(scale)))
        scale = float(np.float32(scale))
        zero = int(np.clip(round(limits.min - low / scale), limits.min, limits.max))
        return scale, self.one_of(zero, zero, zero, zero, limits.min, limits.max)

    def parameters(self, grid: tuple[float, int], kind: str) -> tuple[Tensor, Tensor]:
        """Constants of a scale and a zero point."""
        return self.constant(grid[0]), self.constant(grid[1], kind)

    def quantised(self, x: Tensor, kind: str = "", grid: tuple[float, int] | None = None) -> Tensor:
        """QuantizeLinear of a real tensor."""
        kind = kind or self.one_of("int8", "int8", "uint8")
        grid = grid or self.grid(x.elements, kind)
        found = self.node("QuantizeLinear", x, *self.parameters(grid, kind), grid=grid)
        return found[0] if found else x

    def real(self, x: Tensor, grid: tuple[float, int] | None = None) -> Tensor:
        """DequantizeLinear of integers; with their own grid unless another is given."""
        grid = grid or x.grid or (0.05, 0)
        kind = x.elements.dtype.name
        found = self.node("DequantizeLinear", x, *self.parameters(grid, kind), grid=grid)
        return found[0] if found else x

    def raw(self, outputs: Sequence[Tensor]) -> bytes:
        """The file of the model with these outputs; nodes without a reader vanish."""
        needed, kept = {x.name for x in outputs}, list[onnx.NodeProto]()
        for node in reversed(self.nodes):
            if any(name in needed for name in node.output):
                kept.append(node)
                needed |= set(node.input)
        constants = [
            numpy_helper.from_array(a, n) for n, a in self.constants.items() if n in needed
        ]
        inputs = [_info(x.name, x.elements) for x in self.inputs if x.name in needed]
        results = [_info(x.name, x.elements) for x in outputs]
        graph = helper.make_graph(kept[::-1], "torture", inputs, results, constants)
        return self._model(graph).SerializeToString()

    def ends(self) -> list[Tensor]:
        """Tensors that no node reads and that are no inputs."""
        read = {name for node in self.nodes for name in node.input}
        given = {x.name for x in self.inputs}
        return [x for x in self.known if x.name not in read and x.name not in given]


def _info(name: str, elements: Array) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(elements.dtype)
    return helper.make_tensor_value_info(name, kind, elements.shape)


def _is_sound(elements: Array) -> bool:
    """Whether results are neither empty, nor large, nor all out of range."""
    if not 0 < elements.size <= MOST_ELEMENTS:
        return False
    return elements.dtype.kind != "f" or bool(np.isfinite(elements).all())
