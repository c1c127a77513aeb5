"""The public interface of generated C: memories, inputs, outputs and streamed inputs."""

from __future__ import annotations

from penstock.codegen import c_text
from penstock.codegen.c_functions import view_text
from penstock.codegen.names import Names
from penstock.frozen import frozen
from penstock.ir.tensor import DType, Quantisation, TensorType, row_count
from penstock.program.program import Kind, Memory, Program, View
from penstock.program.steps import lives, steps, streams

BYTES_AND_HALFWORDS = (DType.INT8, DType.UINT8, DType.INT16)


@frozen
class Elements:
    """The elements of an input or output.

    quantisation: None for plain numbers, and where there is a scale for each channel."""

    dtype: DType
    quantisation: Quantisation | None

    @staticmethod
    def of(type: TensorType) -> Elements:
        q = type.quantisation
        plain = type.dtype in (DType.FLOAT32, DType.BOOL)
        single = q is not None and len(q.scales) == len(q.zero_points) == 1
        return Elements(type.dtype, q if single and not plain else None)

    @property
    def c_type(self) -> str:
        return c_text.C_TYPES[self.dtype]

    @property
    def size_bytes(self) -> int:
        return self.dtype.size_bytes

    @property
    def scale_literal(self) -> str:
        """The scale in C; "1.0f" without quantisation."""
        return c_text.real(self.quantisation.scales[0] if self.quantisation else 1.0)

    @property
    def zero_point(self) -> int:
        """The element that represents 0; 0 without quantisation."""
        return self.quantisation.zero_points[0] if self.quantisation else 0

    @property
    def zero_point_literal(self) -> str:
        """The zero point in C, in parentheses."""
        return f"({c_text.integer(self.zero_point)})"

    @property
    def narrow(self) -> bool:
        """Whether the elements are quantised and have at most 16 bits: the header's functions then
        convert in both directions."""
        return self.quantisation is not None and self.dtype in BYTES_AND_HALFWORDS

    @property
    def word(self) -> bool:
        """Whether the elements are quantised and have 32 bits: the header only dequantises them."""
        return self.quantisation is not None and self.dtype is DType.INT32

    @property
    def limits(self) -> str:
        """The smallest and the largest element of an integer type, as arguments of a C function."""
        return f"{self.dtype.lower}, {self.dtype.upper - 1}"

    def printed(self, element: str) -> str:
        """Arguments of printf that print one element, and a space after it."""
        match self.dtype:
            case DType.FLOAT32:
                return f'"%g ", (double){element}'
            case DType.INT32:
                return f'"%ld ", (long){element}'
            case DType.INT64:
                return f'"%lld ", (long long){element}'
            case _:
                return f'"%d ", {element}'


LEAST_ARENA_ALIGNMENT_BYTES = 16  # Alignment of memories whose kernels require less.


@frozen
class Ram:
    """A memory that the caller passes to the run function.

    pointer    name of the parameter
    array      the library's own array for this memory
    plan       memory plan: one line of C per buffer
    end        name of the constant that is the end of the plan
    section    linker section of `array`; empty for the first memory
    """

    note: str
    pointer: str
    array: str
    macro: str
    size_bytes: int
    plan: tuple[str, ...]
    end: str
    section: str


@frozen
class Port:
    """An input or output of the model, as the header declares it.

    The C function `function` returns the address of the tensor in the memory `pointer`, for which
    the library has `array`.  If `by_rows`, the rows are not contiguous; the function then returns
    the address of one row, found with `view`.  Both are aligned for the element type: memory blocks
    are (`scheduling/simulate/expanded_schedule.py`), and so are their rows.

    name: PREFIX_input, PREFIX_input_1, ..; macros and functions of the port begin with it."""

    name: str
    shape: tuple[int, ...]
    elements: Elements
    function: str
    c_type: str
    macro: str
    size_bytes: int
    pointer: str
    array: str
    place: str
    constant: bool
    by_rows: bool
    rows: int
    row_bytes: int
    view: str
    note: str

    @property
    def row_place(self) -> str:
        """The address of a row in C, if `by_rows`."""
        return c_text.typed_pointer(self.elements.c_type, "penstock_write_row(&view, row)")


@frozen
class Stream:
    """An input that the run function requests row by row by calling `pull` with `context`.

    name: PREFIX_pull, PREFIX_pull_1, ..; macros and functions of the input begin with it."""

    number: int
    name: str
    pull: str
    context: str
    macro: str
    elements: Elements
    rows: int
    row_bytes: int
    note: str

    @property
    def size_bytes(self) -> int:
        return self.rows * self.row_bytes


@frozen
class Interface:
    """The public interface of a model, with parameters and arguments of its run function as C.

    `alignment_bytes`: alignment of every memory, such that tensors at aligned offsets in it are
    aligned as kernels of accelerators require."""

    prefix: str
    alignment_bytes: int
    rams: tuple[Ram, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    streams: tuple[Stream, ...]
    state_bytes: int

    @property
    def quantised(self) -> tuple[Port | Stream, ...]:
        """Inputs that the header's functions quantise."""
        return tuple(port for port in (*self.inputs, *self.streams) if port.elements.narrow)

    @property
    def dequantised(self) -> tuple[Port, ...]:
        """Outputs that the header's functions dequantise."""
        return tuple(p for p in self.outputs if p.elements.narrow or p.elements.word)

    @property
    def all_inside(self) -> bool:
        """Whether a single memory holds all inputs and outputs."""
        return len(self.rams) == 1 and not self.streams

    @property
    def parameters(self) -> str:
        """Parameters of the run function in the header."""
        return self._joined("void *{0.pointer}", self._pulls)

    @property
    def parameters_of_caller(self) -> str:
        """Parameters in the definition of the run function, which validates the pointers first."""
        return self._joined("void *{0.pointer}_of_caller", self._pulls)

    @property
    def reset_parameters(self) -> str:
        """Parameters of the reset function in the header."""
        return self._joined("void *{0.pointer}")

    @property
    def reset_parameters_of_caller(self) -> str:
        """Parameters in the definition of the reset function, which validates the pointers
        first."""
        return self._joined("void *{0.pointer}_of_caller")

    @property
    def reset_arguments(self) -> str:
        """Arguments for a reset of the library's own memories."""
        return self._joined("{0.array}")

    @property
    def arguments(self) -> str:
        """Arguments for a run in the library's own memories."""
        return self._joined("{0.array}", "{0.pull}, {0.context}")

    @property
    def arguments_without_context(self) -> str:
        """As `arguments`, for callbacks without context."""
        return self._joined("{0.array}", "{0.pull}, NULL")

    @property
    def arguments_observed(self) -> str:
        """As `arguments`, for the callbacks of the observer."""
        names = f"{self.prefix}_feed_{{0.number}}, &{self.prefix}_next_{{0.number}}"
        return self._joined("{0.array}", names)

    @property
    def _pulls(self) -> str:
        return f"{self.prefix}_pull {{0.pull}}, void *{{0.context}}"

    def _joined(self, ram: str, stream: str = "") -> str:
        """The texts of all memories and streamed inputs; without a format, these have none."""
        streams = map(stream.format, self.streams if stream else ())
        return ", ".join((*map(ram.format, self.rams), *streams))


def interface(program: Program, names: Names) -> Interface:
    """The public interface of a program."""
    kernels = [step.kernel for step in steps(program)]
    alignments = (max(kernel.alignment_bytes, kernel.cache_line_bytes) for kernel in kernels)
    return Interface(
        names.prefix,
        max((LEAST_ARENA_ALIGNMENT_BYTES, *alignments)),
        tuple(_ram(program, memory, names) for memory in program.ram()),
        _ports(program, program.inputs, "input", names),
        _ports(program, program.outputs, "output", names),
        tuple(_stream(view, k, names) for k, view in enumerate(streams(program))),
        sum(b.size_bytes for b in program.buffers if b.kind is Kind.STATE),
    )


def _ram(program: Program, memory: Memory, names: Names) -> Ram:
    pointer = names.memories[memory.name].name
    array = f"{names.prefix}_{pointer}"
    first = pointer == "arena"
    return Ram(
        "the arena" if first else f"memory {c_text.comment(memory.name)}",
        pointer,
        array,
        f"{array}_bytes".upper(),
        max(1, memory.size_bytes),
        _plan(program, memory, names),
        "plan_end" if first else f"plan_end_of_{pointer}",
        "" if first else f".bss.{pointer}",
    )


def _plan(program: Program, memory: Memory, names: Names) -> tuple[str, ...]:
    """The memory plan, one line per buffer: offset, bytes, live range in steps, tensor."""
    inside = [b for b in program.buffers if b.memory == memory.name and b.kind is not Kind.CONSTANT]
    live_ranges, count = lives(program), len(steps(program))
    width = max((len(names.buffers[b.name]) for b in inside), default=0)
    digits = max((len(str(b.address + b.size_bytes)) for b in inside), default=0)
    lines: list[str] = []
    for b in inside:
        first, last = (_when(step, count) for step in live_ranges.get(b.name, (None, None)))
        span = f"[{b.address:>{digits}}, {b.address + b.size_bytes:>{digits}})"
        lines.append(
            f"{names.buffers[b.name]:<{width}} = {b.address:>{digits}}, /* {span}  "
            f"[{first}, {last}]  {b.kind.value}  {c_text.short(b.name)} */"
        )
    return tuple(lines)


def _when(step: int | None, count: int) -> str:
    return "-" if step is None else "in" if step < 0 else "out" if step >= count else str(step)


def _ports(program: Program, views: tuple[View, ...], role: str, names: Names) -> tuple[Port, ...]:
    """The inputs or outputs, named PREFIX_input, PREFIX_input_1, ..."""
    found: list[Port] = []
    for k, view in enumerate(views):
        name = f"{names.prefix}_{role}_{k}" if k else f"{names.prefix}_{role}"
        buffer = program.buffer(view.buffer)
        constant = buffer.kind is Kind.CONSTANT
        memory = program.ram()[0].name if constant else buffer.memory
        pointer, symbol = names.memories[memory].name, names.buffers[buffer.name]
        elements = Elements.of(view.type)
        c_type = elements.c_type
        found.append(
            Port(
                name,
                view.type.shape,
                elements,
                name if view.contiguous else f"{name}_row",
                f"const {c_type}" if role == "output" else c_type,
                f"{name}_bytes".upper(),
                view.type.size_bytes,
                pointer,
                f"{names.prefix}_{pointer}",
                symbol
                if constant
                else c_text.typed_pointer(c_type, f"(int8_t *){pointer} + {symbol}"),
                constant,
                not view.contiguous,
                row_count(view.type.shape),
                view.row_bytes,
                view_text(program, names, view),
                _note(view),
            )
        )
    return tuple(found)


def _stream(view: View, number: int, names: Names) -> Stream:
    pull, context = names.pulls[view.tensor]
    name = f"{names.prefix}_{pull.name}"
    return Stream(
        number,
        name,
        pull.name,
        context.name,
        name.upper(),
        Elements.of(view.type),
        row_count(view.type.shape),
        view.row_bytes,
        _note(view),
    )


def _note(view: View) -> str:
    q = view.type.quantisation
    real = f", real = {q.scales[0]!r} * (q - {q.zero_points[0]})" if q else ""
    return f"{c_text.comment(view.tensor)}: {c_text.type_comment(view.type)}{real}"
