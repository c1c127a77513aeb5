"""vela_tflite: an optimised TFLite file, in which custom operators stand for the parts of a network
that an Ethos-U computes.

The format is that of Arm's compiler Vela, which TensorFlow Lite Micro's Ethos-U kernel and other
runtimes read.  A custom operator "ethos-u" stands for each submission of the program (a stream of
all consecutive calls of the NPU).  Its inputs are

    0     the payload for Arm's driver
    1     memory region 0: all constants of the NPU
    2     memory region 1: "scratch", the part of the arena that the NPU uses
    3     memory region 2: the same, since there is no fast memory
    4..   tensors that the NPU reads and the processor, or the caller, writes

and its outputs are the tensors that it writes and the processor or the caller reads.  Inputs and
outputs lie in "scratch", at the addresses of the program, which the metadata
"OfflineMemoryAllocation" state (-1: the runtime selects the address).  All other operators are
those of the original file, unchanged; the processor computes each of them as a whole.

Source: tflite_writer.py of Vela 5.2; `ethosu.cc`, the kernel of TensorFlow Lite Micro.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

from penstock.uma import (
    Address,
    Call,
    FileFormat,
    ForeignModel,
    ForeignNode,
    Kind,
    ModelFile,
    Program,
    Pull,
    Submission,
    UnsupportedError,
    Value,
    View,
    WholeMemory,
    as_step,
    builtin_code,
    submissions,
    used_buffers,
    walk,
)

OPERATOR = "ethos-u"
OPTIONS = bytes((1, 4, 1))  # The number 1 as a FlexBuffer: the payload is one of Ethos-U.
CONSTANTS, ARENA = 0, 1  # The numbers of memory regions.
ALIGNMENT_BYTES = 16  # Of the base addresses that Arm's driver accepts.
MAGIC = b"COP1"  # The beginning of a payload for Arm's driver.
ONLINE = -1  # The runtime selects the address.
CUSTOM = 32  # The number of custom operators in the schema.
OFFLINE = "OfflineMemoryAllocation"


@dataclass(frozen=True, slots=True)
class NpuOperator:
    """A custom operator: its payload, and the tensors of the original file that it reads and
    writes, by index."""

    payload: bytes
    reads: tuple[int, ...]
    writes: tuple[int, ...]


@dataclass(slots=True)
class OptimisedNetwork:
    """The operators of an optimised file, in order: custom ones, and the indices of original ones.

    offsets: the addresses of tensors of the original file in the arena, by index.
    constants: the bytes of region 0.
    scratch_bytes: the size of region 1."""

    operators: list[NpuOperator | int] = field(default_factory=list[NpuOperator | int])
    offsets: dict[int, int] = field(default_factory=dict[int, int])
    constants: bytes = b""
    scratch_bytes: int = 0


def optimised_file(program: Program, source: ModelFile) -> bytes:
    """Return the optimised file for a program that was compiled from a file.

    Raises UnsupportedError if it is no TFLite file, or if the format cannot state the program."""
    if source.tflite is None:
        raise UnsupportedError(
            "tflite-002",
            "the format vela-tflite needs a TFLite file as model",
            where=source.where,
            why="operators that do not run on the NPU are those of the file",
            help="convert the model to an int8 TFLite file, or compile to C (without --format)",
        )
    return _Writer(source.raw).written(_Planner(source.tflite, program).network())


VELA_TFLITE = FileFormat("{prefix}_vela.tflite", optimised_file)


# Which operators the file has, and which tensors are at which addresses.


OTHER_SCHEDULE = (
    "compile to C (without --format), or select a schedule with more RAM, such as by --optimize "
    "speed"
)
SELECT_NPU = "select an NPU, such as by --accelerator ethos_u55, or compile to C (without --format)"


class _Planner:
    """Selects the operators of an optimised file, in the order of a program."""

    def __init__(self, model: ForeignModel, program: Program) -> None:
        self._model = model
        self._program = program
        self._producers = {
            y.name: (index, node) for index, node in enumerate(model.nodes) for y in node.outputs
        }
        self._values = {v.name: v for v in _every_value(model)}
        self._given = {value.name for value in model.inputs}
        self._computed: dict[str, View] = {}  # By the NPU, by name of the tensor.
        self._by_npu: set[str] = set()  # Buffers that the NPU has written.
        self._done: set[int] = set()  # Original operators that are written.
        self._found = OptimisedNetwork()
        size = max((m.size_bytes for m in program.memories if m.writable), default=0)
        self._owner = np.full(size, ONLINE, np.int64)  # Of each byte of the arena: a tensor.

    def network(self) -> OptimisedNetwork:
        self._check()
        self._place_read()
        for view in self._program.inputs:
            if view.tensor in self._given:
                self._own(view.tensor)
            else:
                self._compute(view.tensor)
        for command in self._program.run:
            if isinstance(command, Submission):
                self._submit(command)
                continue
            inside = tuple(walk((command,)))
            if any(isinstance(each, Pull) for each in inside):
                why = "the file's inputs are whole tensors"
                raise self._refusal("rows that the caller supplies", why)
            for step in dict.fromkeys(as_step(c) for c in inside if isinstance(c, Call)):
                self._note(step.inputs)
                if step.output.tensor in self._producers and step.output.tensor in self._values:
                    self._compute(step.output.tensor)
        self._note(self._program.outputs)
        for value in self._model.outputs:
            self._read(value.name)
        self._add_outputs()
        return self._found

    def _place_read(self) -> None:
        """State the addresses of what the NPU reads and has not written."""
        for submission in self._program.run:
            if isinstance(submission, Submission):
                inside = [c for c in walk(submission.run) if isinstance(c, Call)]
                for view in self._read_views(inside).values():
                    self._place(view)
                self._by_npu |= {call.output.buffer for call in inside}
        self._by_npu = set()

    def _note(self, views: Iterable[View]) -> None:
        """Note aliases of tensors that the NPU has computed, which the processor reads."""
        for view in views:
            if view.buffer in self._by_npu and view.tensor in self._values:
                self._computed.setdefault(view.tensor, view)
                self._own(view.tensor, view)

    def _refusal(self, what: str, why: str, help: str = OTHER_SCHEDULE) -> UnsupportedError:
        return UnsupportedError(
            "tflite-001",
            f"the format vela-tflite cannot state {what}",
            where=self._model.name,
            why=why,
            help=help,
        )

    def _check(self) -> None:
        every = submissions(self._program)
        if not every:
            why = "no operator runs on an Ethos-U"
            raise self._refusal("a network without operators of the NPU", why, SELECT_NPU)
        states = {b.name for b in self._program.buffers if b.kind is Kind.STATE}
        used = {name for submission in every for name in used_buffers(submission)}
        if self._model.initial_nodes or states & used:
            raise self._refusal("states that the NPU updates", "its tensors do not outlive a run")
        if any(one not in self._program.run for one in every):
            why = "the processor computes operators of the file as a whole"
            raise self._refusal("a loop in which processor and NPU take turns", why)

    def _submit(self, submission: Submission) -> None:
        """Add a custom operator; original operators that compute its inputs precede it."""
        inside = [c for c in walk(submission.run) if isinstance(c, Call)]
        read = self._read_views(inside)
        for name in read:
            if name not in self._given:
                self._compute(name)
            self._check_owned(name)
        self._by_npu |= {call.output.buffer for call in inside}
        for name in used_buffers(submission):
            buffer = self._program.buffer(name)
            if buffer.data is None:
                self._owner[buffer.address : buffer.address + buffer.size_bytes] = ONLINE
        payload = self._payload(submission)
        self._found.operators.append(NpuOperator(payload, tuple(map(self._index, read)), ()))
        for view in (call.output for call in inside if call.output.tensor in self._values):
            self._computed[view.tensor] = view
            self._own(view.tensor, view)

    def _read_views(self, inside: Sequence[Call]) -> dict[str, View]:
        """The tensors that calls of the NPU read and that it has not written, by name; inputs of
        the network instead of aliases of them."""
        given = {view.buffer: view for view in self._program.inputs}
        written = {call.output.buffer for call in inside} | self._by_npu
        found: dict[str, View] = {}
        for view in (view for call in inside for view in call.inputs):
            if self._program.buffer(view.buffer).data is None and view.buffer not in written:
                source = given.get(view.buffer, view)
                found[source.tensor] = source
        return found

    def _payload(self, submission: Submission) -> bytes:
        stream, size, *regions = submission.submit.arguments
        assert isinstance(stream, Address)
        assert isinstance(stream.offset, int)
        assert isinstance(size, int)
        for number, (base, extent) in enumerate(zip(regions[::2], regions[1::2], strict=True)):
            if number == CONSTANTS and isinstance(base, Address):
                data = self._program.buffer(base.buffer).data
                assert data is not None
                self._found.constants = data.raw
            elif number == ARENA and isinstance(base, WholeMemory):
                assert isinstance(extent, int)
                self._found.scratch_bytes = max(self._found.scratch_bytes, extent)
            elif isinstance(base, Address | WholeMemory):
                raise self._refusal("tensors in several memories", "the format has one arena")
        data = self._program.buffer(stream.buffer).data
        assert data is not None
        payload = data.raw[stream.offset : stream.offset + size]
        if not payload.startswith(MAGIC):
            why = "its streams are no payloads for Arm's driver"
            raise self._refusal(f"operators of {submission.submit.driver.engine}", why, SELECT_NPU)
        return payload

    def _compute(self, name: str) -> None:
        """Add the original operators that compute a tensor, as far as they are missing."""
        if name not in self._producers:
            raise self._refusal(
                f'the tensor "{name}", which the processor computes for the NPU',
                "no operator of the original file computes it",
            )
        index, node = self._producers[name]
        if index in self._done:
            return
        kept = {value.name for value in node.variables.values()}  # The runtime keeps them.
        for value in (x for x in node.inputs if x is not None and x.data is None):
            if value.name not in kept:
                self._read(value.name)
        self._done.add(index)
        self._check_apart(node)
        self._found.operators.append(index)
        for value in node.outputs:
            self._own(value.name)

    def _read(self, name: str) -> None:
        """Make a tensor available to original operators, or to the caller."""
        value = self._values[name]
        if value.data is not None or name in self._given:
            self._check_owned(name)
        elif name in self._computed:
            self._place(self._computed[name])
            self._check_owned(name)
        else:
            self._compute(name)

    def _index(self, name: str) -> int:
        index = self._values[name].origin
        assert isinstance(index, int)
        return index

    def _place(self, view: View) -> None:
        """State the address of a tensor that the NPU reads or writes."""
        value = self._values.get(view.tensor)
        if value is None:
            what = f'the tensor "{view.tensor}", which NPU and processor exchange'
            raise self._refusal(what, "the original file has no such tensor")
        mine, theirs = view.type, value.type
        if (mine.dtype, mine.size_bytes, mine.quantisation) != (
            theirs.dtype, theirs.size_bytes, theirs.quantisation,
        ):  # fmt: skip
            what = f'the tensor "{view.tensor}", which NPU and processor exchange'
            raise self._refusal(what, f"the NPU takes {mine}, the original file has {theirs}")
        buffer = self._program.buffer(view.buffer)
        if not view.contiguous or not isinstance(view.offset, int) or mine.layout is not None:
            what = f'the rows of "{view.tensor}", which NPU and processor exchange'
            raise self._refusal(what, "they are scattered in memory")
        address = buffer.address + view.offset
        if address % ALIGNMENT_BYTES:
            what = f'the address {address} of "{view.tensor}"'
            raise self._refusal(what, f"Arm's driver takes multiples of {ALIGNMENT_BYTES}")
        self._found.offsets[self._index(view.tensor)] = address

    # Each byte of the arena belongs to the tensor that was written last.  TensorFlow Lite Micro
    # does not check that tensors with stated addresses are apart.

    def _span(self, name: str, view: View | None = None) -> slice | None:
        index, size = self._index(name), self._values[name].type.size_bytes
        if view is not None and view.contiguous and isinstance(view.offset, int):
            lower = self._program.buffer(view.buffer).address + view.offset
        elif index in self._found.offsets:
            lower = self._found.offsets[index]
        else:
            return None
        return slice(lower, lower + size)

    def _own(self, name: str, view: View | None = None) -> None:
        span = self._span(name, view)
        if span is not None:
            self._owner[span] = self._index(name)

    def _check_owned(self, name: str) -> None:
        span = self._span(name)
        if span is not None and (self._owner[span] != self._index(name)).any():
            why = "parts of it are overwritten before the processor reads it, or reads it again"
            raise self._refusal(f'the memory of "{name}"', why)

    def _check_apart(self, node: ForeignNode) -> None:
        """Refuse an operator whose output overlaps an input."""
        read = [self._span(x.name) for x in node.inputs if x is not None and x.data is None]
        made = [self._span(y.name) for y in node.outputs]
        pairs = ((x, y) for x in read for y in made if x is not None and y is not None)
        if any(x.start < y.stop and y.start < x.stop for x, y in pairs):
            why = "its result is stored in place of its input"
            raise self._refusal(f"the memory of {node.where.split(': ')[-1]}", why)

    def _add_outputs(self) -> None:
        """State which tensors each custom operator writes: those with an address that original
        operators or the caller read."""
        read = {self._index(value.name) for value in self._model.outputs}
        for operator in self._found.operators:
            if isinstance(operator, int):
                inputs = self._model.nodes[operator].inputs
                read |= {self._index(x.name) for x in inputs if x is not None and x.data is None}
        names = {self._index(n): v for n, v in self._computed.items() if n in self._values}
        submitted = [c for c in self._program.run if isinstance(c, Submission)]
        numbers = [k for k, o in enumerate(self._found.operators) if isinstance(o, NpuOperator)]
        for k, submission in zip(numbers, submitted, strict=True):
            inside = (c for c in walk(submission.run) if isinstance(c, Call))
            written = {call.output.buffer for call in inside}
            writes = tuple(i for i, view in names.items() if i in read and view.buffer in written)
            old = self._found.operators[k]
            assert isinstance(old, NpuOperator)
            self._found.operators[k] = NpuOperator(old.payload, old.reads, writes)


def _every_value(model: ForeignModel) -> Iterator[Value]:
    yield from (*model.inputs, *model.outputs)
    for node in model.nodes:
        yield from (x for x in node.inputs if x is not None)
        yield from node.outputs


# The file itself.


class _Writer:
    """Writes a file with some operators of the file `raw` and custom ones."""

    def __init__(self, raw: bytes) -> None:
        self._model: Any = tflite.Model.GetRootAsModel(raw, 0)
        self._graph: Any = self._model.Subgraphs(0)
        self._raw = raw
        self._builder = flatbuffers.Builder(len(raw))
        self._buffers: list[int] = []
        self._tensors: list[int] = []
        self._offsets: list[int] = []
        self._new: dict[int, int] = {}  # Tensors of the original file: their new indices.

    def written(self, network: OptimisedNetwork) -> bytes:
        self._add_buffer(None)  # By convention, the first one is empty.
        constants = network.constants or bytes(ALIGNMENT_BYTES)
        read_only = self._added_tensor("read_only", constants, len(constants), ONLINE)
        scratch_bytes = -(-network.scratch_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        scratch = self._added_tensor("scratch", None, scratch_bytes, 0)
        codes: dict[int | None, int] = {}
        operators: list[int] = []
        inputs = [self._tensor(i, network) for i in _indices(self._graph, "Inputs")]
        for operator in network.operators:
            if isinstance(operator, int):
                operators.append(self._operator(self._graph.Operators(operator), codes, network))
                continue
            number = codes.setdefault(None, len(codes))
            payload = operator.payload
            stream = self._added_tensor("ethos_u_command_stream", payload, len(payload), ONLINE)
            reads = [stream, read_only, scratch, scratch]
            reads += [self._tensor(i, network) for i in operator.reads]
            writes = [self._tensor(i, network) for i in operator.writes]
            operators.append(self._npu_operator(number, reads, writes))
        outputs = [self._tensor(i, network) for i in _indices(self._graph, "Outputs")]
        graph = self._table(
            "SubGraph", Tensors=self._offset_vector(self._tensors), Inputs=self._numbers(inputs),
            Outputs=self._numbers(outputs), Operators=self._offset_vector(operators),
            Name=self._builder.CreateString("main"),
        )  # fmt: skip
        self._finish(graph, codes)
        return bytes(self._builder.Output())

    def _finish(self, graph: int, codes: Mapping[int | None, int]) -> None:
        header = [0, 1, len(self._offsets), *self._offsets]
        stated = self._add_buffer(np.array(header, "<i4").tobytes())
        name = self._builder.CreateString(OFFLINE)
        metadata = self._table("Metadata", Name=name, Buffer=stated)
        model = self._table(
            "Model",
            Version=self._model.Version(),
            OperatorCodes=self._offset_vector([self._code(code) for code in codes]),
            Subgraphs=self._offset_vector([graph]),
            Description=self._builder.CreateString("penstock"),
            Buffers=self._offset_vector(self._buffers),
            Metadata=self._offset_vector([metadata]),
        )
        self._builder.Finish(model, file_identifier=self._raw[4:8])

    def _code(self, index: int | None) -> int:
        if index is None:
            name = self._builder.CreateString(OPERATOR)
            return self._table(
                "OperatorCode", DeprecatedBuiltinCode=CUSTOM, BuiltinCode=CUSTOM, CustomCode=name,
                Version=1,
            )  # fmt: skip
        old = self._model.OperatorCodes(index)
        name = old.CustomCode()
        builtin = builtin_code(old)
        given = {} if name is None else {"CustomCode": self._builder.CreateString(name)}
        return self._table(
            "OperatorCode", DeprecatedBuiltinCode=min(builtin, 127), BuiltinCode=builtin,
            Version=old.Version(), **given,
        )  # fmt: skip

    def _npu_operator(self, code: int, reads: Sequence[int], writes: Sequence[int]) -> int:
        return self._table(
            "Operator", OpcodeIndex=code, Inputs=self._numbers(reads),
            Outputs=self._numbers(writes), CustomOptions=self._builder.CreateByteVector(OPTIONS),
        )  # fmt: skip

    def _operator(self, old: Any, codes: dict[int | None, int], network: OptimisedNetwork) -> int:
        """A copy of an operator of the original file."""
        code = codes.setdefault(old.OpcodeIndex(), len(codes))
        given: dict[str, int] = {}
        for which in ("Inputs", "Outputs", "Intermediates"):
            if which != "Intermediates" or old.IntermediatesLength():
                some = [self._tensor(i, network) for i in _indices(old, which)]
                given[which] = self._numbers(some)
        if old.CustomOptionsLength():
            options = old.CustomOptionsAsNumpy().tobytes()
            given["CustomOptions"] = self._builder.CreateByteVector(options)
        kind, union = old.BuiltinOptionsType(), old.BuiltinOptions()
        if kind and union is not None:
            names = {n: k for k, n in vars(tflite.BuiltinOptions).items() if isinstance(n, int)}
            options = getattr(tflite, names[kind])()
            options.Init(union.Bytes, union.Pos)
            given["BuiltinOptions"] = self._copied(names[kind], options)
            given["BuiltinOptionsType"] = kind
        return self._table("Operator", OpcodeIndex=code, **given)

    def _tensor(self, old: int, network: OptimisedNetwork) -> int:
        """The new index of a tensor of the original file, which is copied at its first use; -1 for
        an operand that an operator does not have."""
        if old < 0 or old in self._new:
            return self._new.get(old, old)
        tensor = self._graph.Tensors(old)
        data = self._data(self._model.Buffers(tensor.Buffer()))
        given: dict[str, int] = {"Name": self._builder.CreateString(tensor.Name() or b"")}
        given["Shape"] = self._numbers(_indices(tensor, "Shape"))
        if tensor.Quantization() is not None:
            given["Quantization"] = self._copied("QuantizationParameters", tensor.Quantization())
        given["Buffer"] = 0 if data is None else self._add_buffer(data)
        made = self._table("Tensor", Type=tensor.Type(), IsVariable=tensor.IsVariable(), **given)
        self._new[old] = len(self._tensors)
        self._tensors.append(made)
        self._offsets.append(network.offsets.get(old, ONLINE))
        return self._new[old]

    def _data(self, buffer: Any) -> bytes | None:
        if buffer.DataLength():
            return buffer.DataAsNumpy().tobytes()
        lower, size = buffer.Offset(), buffer.Size()
        return self._raw[lower : lower + size] if lower > 1 and size > 1 else None

    def _added_tensor(self, name: str, data: bytes | None, size_bytes: int, offset: int) -> int:
        buffer = 0 if data is None else self._add_buffer(data)
        text, shape = self._builder.CreateString(name), self._numbers([size_bytes])
        kind = tflite.TensorType.UINT8
        self._tensors.append(
            self._table("Tensor", Type=kind, Name=text, Shape=shape, Buffer=buffer)
        )
        self._offsets.append(offset)
        return len(self._tensors) - 1

    def _add_buffer(self, data: bytes | None) -> int:
        given: dict[str, int] = {}
        if data is not None:
            self._builder.StartVector(1, len(data), ALIGNMENT_BYTES)
            self._builder.head -= len(data)
            self._builder.Bytes[self._builder.head : self._builder.head + len(data)] = data
            given["Data"] = self._builder.EndVector()
        self._buffers.append(self._table("Buffer", **given))
        return len(self._buffers) - 1

    def _copied(self, name: str, old: Any) -> int:
        """A copy of a table of numbers and vectors of numbers."""
        given: dict[str, Any] = {}
        prefix = f"{name}Add"
        for added in (n for n in dir(tflite) if n.startswith(prefix)):
            label = added.removeprefix(prefix)
            if hasattr(old, f"{label}AsNumpy"):
                if getattr(old, f"{label}Length")():
                    vector = getattr(old, f"{label}AsNumpy")()
                    given[label] = self._builder.CreateNumpyVector(vector)
            else:
                value = getattr(old, label, lambda: None)()
                if isinstance(value, bytes):
                    given[label] = self._builder.CreateString(value)
                elif value is not None and not hasattr(value, "_tab"):
                    given[label] = value
        return self._table(name, **given)

    def _table(self, name: str, **given: Any) -> int:
        """A table of the schema with some of its fields."""
        getattr(tflite, f"{name}Start")(self._builder)
        for label, value in given.items():
            getattr(tflite, f"{name}Add{label}")(self._builder, value)
        return int(getattr(tflite, f"{name}End")(self._builder))

    def _numbers(self, numbers: Iterable[int]) -> int:
        return int(self._builder.CreateNumpyVector(np.array([*numbers], "<i4")))

    def _offset_vector(self, offsets: Sequence[int]) -> int:
        self._builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self._builder.PrependUOffsetTRelative(offset)
        return int(self._builder.EndVector())


def _indices(table: Any, label: str) -> list[int]:
    read = getattr(table, label)
    return [int(read(k)) for k in range(getattr(table, f"{label}Length")())]
