"""The process that exports a PyTorch program, a .pt2 file, to ONNX, or evaluates it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from penstock.frontends.frameworks.child import Foreign, outputs_of, serve
from penstock.frozen import frozen
from penstock.ir.tensor import Array


@frozen
class PyTorchProgram:
    """A program that torch.export has made."""

    program: Foreign

    def inputs(self) -> list[tuple[str, str, list[int | None]]]:
        places = {
            node.name: node.meta["val"] for node in self.program.graph.nodes if "val" in node.meta
        }
        found = [(name, places[name]) for name in self.program.graph_signature.user_inputs]
        return [
            (name, str(x.dtype).removeprefix("torch."), [_extent(e) for e in x.shape])
            for name, x in found
        ]

    def converted(self, samples: Sequence[Array] | None) -> bytes:
        torch: Foreign = importlib.import_module("torch")
        program = torch.onnx.export(
            self.program, dynamo=True, output_names=output_names(self.program), verbose=False
        )
        return program.model_proto.SerializeToString()

    def outputs(self, samples: Sequence[Array]) -> list[Array]:
        torch: Foreign = importlib.import_module("torch")
        pytree: Foreign = importlib.import_module("torch.utils._pytree")
        module = self.program.module()

        def called(*arrays: Array) -> list[Foreign]:
            return pytree.tree_leaves(module(*map(torch.from_numpy, arrays)))

        is_open = all(shape[:1] == [None] for _, _, shape in self.inputs())
        with torch.no_grad():
            return outputs_of(called, samples, is_open=is_open)


def _extent(extent: Foreign) -> int | None:
    return extent if isinstance(extent, int) else None


def load(path: str) -> PyTorchProgram:
    return PyTorchProgram(importlib.import_module("torch").export.load(path))


def output_names(program: Foreign) -> list[str] | None:
    """The keys of a dictionary that the program returns; None for other results."""
    spec = program.call_spec.out_spec
    names = list(spec.context) if spec is not None and spec.type is dict else []
    is_flat = len(names) == len(program.graph_signature.user_outputs) > 0
    return [str(name) for name in names] if is_flat else None


if __name__ == "__main__":
    serve(load)
