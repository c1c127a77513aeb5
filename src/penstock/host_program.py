"""HostProgram: the generated C of a network as a shared library of this machine, for batches."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping

import numpy as np

from penstock.codegen.c_program import render
from penstock.codegen.interface import Interface, interface
from penstock.codegen.names import Names
from penstock.errors import InternalError
from penstock.execution import library_sources, unpacked
from penstock.frozen import frozen
from penstock.ir.tensor import Array
from penstock.pipeline.compilation import Compilation
from penstock.program.program import View
from penstock.program.steps import streams
from penstock.toolchains.compiler import compile_objects
from penstock.toolchains.host import host_compiler, link_shared, shared_suffix

_SOURCE = "batch.c"
# Products are never fused (decision 35), and the shared library is not debugged.
_FLAGS = ("-O3", "-ffp-contract=off")


@frozen
class HostProgram:
    """A network whose C runs in this process.  Calls are independent of each other, so threads may
    make them at the same time."""

    _compilation: Compilation
    _interface: Interface
    _library: ctypes.CDLL

    @staticmethod
    def built(compilation: Compilation) -> HostProgram:
        """Compile and load the C of a compilation.  Raises ToolError without a C compiler."""
        model = interface(compilation.program, Names.of(compilation.program, compilation.prefix))
        source = render(_SOURCE, {"model": model, "prefix": compilation.prefix})
        bundle = compilation.bundle.with_files((_SOURCE, source))
        compiler = host_compiler()
        with unpacked(bundle) as folder:
            sources = [folder / file for file in (*library_sources(compilation), _SOURCE)]
            objects = compile_objects(
                compiler, sources, folder / "objects", include=(folder,), flags=_FLAGS
            )
            path = link_shared(compiler, objects, folder / f"network{shared_suffix()}")
            library = ctypes.CDLL(str(path))
        if compilation.request.accelerators:  # Functional models may be written in Python.
            os.environ.setdefault("PENSTOCK_PYTHON", sys.executable)
        return HostProgram(compilation, model, library)

    def run(self, inputs: Mapping[str, Array], count: int, steps: int) -> Mapping[str, Array]:
        """The outputs of `count` runs by name; the first axis of each array is the run.

        inputs: by name of the tensor, in the shapes and element types of the generated code.
        steps: the state is reset before every `steps` runs."""
        program = self._compilation.program
        given = [
            np.ascontiguousarray(inputs[view.tensor], view.type.dtype.value)
            for view in (*program.inputs, *streams(program))
        ]
        outputs = {v.tensor: _empty(v, count) for v in program.outputs}
        made = [outputs[view.tensor] for view in program.outputs]
        memories = list(self._memories())
        status = self._library.penstock_batch(
            _pointers(memories), _pointers(given), _pointers(made),
            ctypes.c_size_t(count), ctypes.c_size_t(steps),
        )  # fmt: skip
        if status != 0:
            raise InternalError("execution-001", f"{self._interface.prefix}_run returned {status}")
        return outputs

    def _memories(self) -> Iterator[Array]:
        alignment = self._interface.alignment_bytes
        for ram in self._interface.rams:
            raw = np.zeros(ram.size_bytes + alignment, np.uint8)
            first = -raw.ctypes.data % alignment
            yield raw[first : first + ram.size_bytes]


def _empty(view: View, count: int) -> Array:
    return np.empty((count, *view.type.shape), view.type.dtype.value)


def _pointers(arrays: list[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
