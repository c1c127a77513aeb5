"""The child process that runs TensorFlow Lite Micro, so that a crash does not affect penstock.

Started by path, not as a module, and imports nothing of penstock: it needs only NumPy and the
package `tflite_micro`. Both pipes carry an npz archive.

    stdin   model (n,) uint8   arena_bytes, set_count () int64   in<k>_set<s> of any type
            removed (n,) int64: operators of subgraph 0 to leave out; the request's inputs end with
            their outputs; operators () int64: how many of subgraph 0 to run, if not all
            feedbacks (n, 2) int64: position of an input, and of the output that it receives in the
            next invocation; initial<position>: that input in the first one
    stdout  out<k>_set<s>      t<tensor index>_set<s> for every tensor without constant data
    stderr  messages of TensorFlow Lite Micro; exit code 1 if it rejects the request
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.frozen import frozen

Array = NDArray[Any]
Interpreter = Any  # tflite_micro has no annotations
Schema = Any  # a flatbuffers table, likewise

# The package's own schema of model files.
SCHEMA = "tflite_micro.tensorflow.lite.micro.python.schema_py_generated"

# Name of the metadata that holds a memory plan (tensorflow/lite/micro/micro_allocation_info).
MEMORY_PLAN = b"OfflineMemoryAllocation"

# TensorType STRING, RESOURCE and VARIANT of the TFLite schema hold no numbers; GetTensor of the
# interpreter aborts the process for a RESOURCE.
WITHOUT_NUMBERS = (5, 13, 14)


@frozen
class SubgraphInterface:
    """Inputs, outputs and tensors without constant data of subgraph 0."""

    input_count: int
    output_count: int
    tensors: tuple[int, ...]


def subgraph_interface(model_bytes: bytes) -> SubgraphInterface:
    """The interface declared by a model file."""
    schema: Schema = importlib.import_module(SCHEMA)
    model: Schema = schema.Model.GetRootAs(model_bytes, 0)
    subgraph: Schema = model.Subgraphs(0)
    tensors = [subgraph.Tensors(index) for index in range(subgraph.TensorsLength())]
    variable = tuple(
        index
        for index, tensor in enumerate(tensors)
        if model.Buffers(tensor.Buffer()).DataLength() == 0 and tensor.Type() not in WITHOUT_NUMBERS
    )
    return SubgraphInterface(subgraph.InputsLength(), subgraph.OutputsLength(), variable)


def fresh_interpreter(model_bytes: bytes, arena_bytes: int) -> Interpreter:
    """An interpreter in which no two tensors share memory, so that each can be read.

    A memory plan in the file would prevent this; under another name it is ignored."""
    runtime: Any = importlib.import_module("tflite_micro").runtime
    return runtime.Interpreter.from_bytes(
        model_bytes.replace(MEMORY_PLAN, MEMORY_PLAN.lower()),
        arena_size=arena_bytes,
        intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors,  # TensorFlow's spelling
    )


@frozen
class FedBackInput:
    """The positions of an input and of the output that it receives in the next invocation.

    initial: the input of the first invocation."""

    input: int
    output: int
    initial: Array


def run_set(
    model_bytes: bytes,
    inputs: list[Array],
    arena_bytes: int,
    feedbacks: Sequence[FedBackInput] = (),
    *,
    stateful: bool = False,
) -> Iterator[tuple[str, Array]]:
    """One invocation on a new interpreter in its initial state: results by key.

    If `stateful`, one invocation for each index of the first axis of the inputs; outputs have this
    axis too, and tensors are those of the first invocation.
    `inputs` and the results contain neither inputs nor outputs of `feedbacks`.
    Results are copied, since the interpreter's arrays are in its arena.
    """
    interface = subgraph_interface(model_bytes)
    fed, kept = {f.input for f in feedbacks}, {f.output for f in feedbacks}
    taken = [k for k in range(interface.input_count) if k not in fed]
    made = [k for k in range(interface.output_count) if k not in kept]
    if len(inputs) != len(taken):
        raise ValueError(f"{len(inputs)} inputs given, the model takes {len(taken)}")
    interpreter = fresh_interpreter(model_bytes, arena_bytes)
    runs = list(zip(*inputs, strict=True)) if stateful else [tuple(inputs)]
    outputs: list[list[Array]] = []
    states = {f.input: f.initial for f in feedbacks}
    for step, arrays in enumerate(runs):
        for position, values in (*zip(taken, arrays, strict=True), *states.items()):
            interpreter.set_input(values, position)
        interpreter.invoke()
        for index in interface.tensors if step == 0 else ():
            yield f"t{index}", np.array(interpreter.GetTensor(index, 0)["tensor_data"])
        outputs.append([np.array(interpreter.get_output(position)) for position in made])
        states = {f.input: np.array(interpreter.get_output(f.output)) for f in feedbacks}
    for position, results in enumerate(zip(*outputs, strict=True)):
        yield f"out{position}", np.stack(results) if stateful else results[0]


def without_operators(model_bytes: bytes, removed: Sequence[int], count: int | None) -> bytes:
    """The first `count` operators of subgraph 0, without those removed, whose outputs become
    inputs."""
    if not removed and count is None:
        return model_bytes
    flatbuffers: Any = importlib.import_module("flatbuffers")
    schema: Schema = importlib.import_module(SCHEMA)
    model: Schema = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model_bytes, 0))
    graph = model.subgraphs[0]
    outputs = dict.fromkeys(index for k in removed for index in graph.operators[k].outputs)
    graph.inputs = [*graph.inputs, *outputs]
    graph.operators = [one for k, one in enumerate(graph.operators[:count]) if k not in removed]
    builder = flatbuffers.Builder(len(model_bytes))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def answer(request: dict[str, Array]) -> dict[str, Array]:
    """The reply archive for a request archive."""
    removed = [int(k) for k in request["removed"]]
    count = int(request["operators"]) if "operators" in request else None
    model_bytes = without_operators(request["model"].tobytes(), removed, count)
    arena_bytes = int(request["arena_bytes"])
    replies: dict[str, Array] = {}
    pairs = [(int(x), int(y)) for x, y in request["feedbacks"]]
    feedbacks = [FedBackInput(x, y, request[f"initial{x}"]) for x, y in pairs]
    for number in range(int(request["set_count"])):
        inputs: list[Array] = []
        while (key := f"in{len(inputs)}_set{number}") in request:
            inputs.append(request[key])
        stateful = bool(request["stateful"])
        for key, values in run_set(model_bytes, inputs, arena_bytes, feedbacks, stateful=stateful):
            replies[f"{key}_set{number}"] = values
    return replies


def main() -> int:
    """Reads the request from stdin, runs the model, writes the reply to stdout.

    Output of the runtime is redirected to stderr."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False) as archive:
        request: dict[str, Array] = dict(archive)
    try:
        replies = answer(request)
    except Exception as error:  # forward every message to the parent process
        print(error, file=sys.stderr)
        return 1
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **replies)
    pipe.write(packed.getvalue())
    pipe.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
