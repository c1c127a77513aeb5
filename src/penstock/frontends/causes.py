"""Causes and remedies of unsupported TFLite nodes, and the combination of several errors.

An operator file sees only its node.  Whether a conversion of the model helps depends on the
position of the node: at an input or output of the network, between real-valued operators, or in a
network of another element type.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from penstock.errors import (
    InternalError,
    ModelError,
    PenstockError,
    UnsupportedError,
    listed,
)
from penstock.frozen import frozen
from penstock.guides import guide
from penstock.ir.foreign import MALFORMED, ForeignModel, ForeignNode
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Kernel
from penstock.ir.tensor import MOST_ROWS, DType, row_count
from penstock.opkit.checks import require, require_elements, require_quantised
from penstock.ops.registry import foreign_names

# Checks of imported nodes and graphs that apply to every operator.


def check_foreign(node: ForeignNode) -> None:
    """Raises UnsupportedError if a tensor is empty.  Constant lists, such as of axes, may be
    empty, and so may the extents of a RESHAPE to a number."""
    inputs = node.inputs[:1] if node.name == "RESHAPE" else node.inputs
    for value in (*filter(None, inputs), *node.outputs):
        counted = value.data is None or value.dtype is DType.INT8
        if counted:
            require_elements(value.shape, f'tensor "{value.name}"')


def check_node(node: Node) -> None:
    """Raises ModelError or UnsupportedError if a node is inconsistent.

    The output type must be the operator's result type, int8 tensors must be quantised, and the
    parameters of the portable kernel must fit 32 bits."""
    _check_result(node)
    size = node.output.type.size_bytes
    require(
        size < 2**31, f'tensor "{node.output.name}" has {size} bytes, must be smaller than 2 GiB'
    )
    values = (*node.variable_inputs, node.output)
    # int8 without a quantisation are plain integers, which no operator mixes with quantised ones.
    if any(value.quantisation for value in values) and not node.op.ALIAS:
        for value in values:
            _check_quantisation(value)
    if not node.op.ALIAS:
        _check_kernel(node, node.op.kernel(node.site))


def _check_result(node: Node) -> None:
    found = node.output.type
    expected = node.op.result_type(node.site.inputs)
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        raise ModelError(
            "model-015",
            f"output is {found}, must be {expected}",
            where=node.origin,
            why="the expected type follows from the node's inputs and attributes",
            help=MALFORMED,
        )


def check_rows(graph: Graph) -> None:
    """Raises UnsupportedError if a tensor has more than `MOST_ROWS` rows."""
    inputs = ((value, f"{graph.name}: inputs") for value in graph.sources)
    for value, where in (*inputs, *((node.output, node.origin) for node in graph.nodes)):
        rows = row_count(value.shape)
        if rows > MOST_ROWS:
            raise UnsupportedError(
                "model-026",
                f'"{value.name}" is {value.type}: {rows} rows, at most {MOST_ROWS} are scheduled',
                where=where,
                why="cascades are planned row by row",
                help="use a smaller batch or fewer rows",
            )


def _check_quantisation(value: Value) -> None:
    if value.dtype is DType.INT8:
        require_quantised(value.type, f'tensor "{value.name}"')


def _check_kernel(node: Node, kernel: Kernel) -> None:
    for k, member in kernel.constants:
        value = node.inputs[k]
        if value.data is None:
            raise UnsupportedError(
                "model-020", f'{member} "{value.name}" are computed, must be constant'
            )
    for name, number in kernel.params:
        if not -(2**31) <= number < 2**31:
            raise InternalError(
                "kernel-001",
                f"{name} is {number}, must be within [{-(2**31)}, {2**31})",
                where=node.origin,
                why=f"{node.kind} should have refused its inputs: kernels count in 32 bits",
            )


MOST_SHOWN = 9  # Number of causes, and of remedies, that are listed below the first one.
MOST_NAMED = 4  # Number of causes that are named before their common remedy.


def collected(problems: Sequence[PenstockError]) -> PenstockError:
    """One error for the first cause, with the others listed in its reason, and the remedies of all.

    Problems whose texts agree have one cause; it is listed once, with the number of its nodes."""
    causes: dict[str, list[PenstockError]] = {}
    for problem in problems:
        causes.setdefault(problem.what, []).append(problem)
    mine, *others = causes.values()
    first = mine[0]
    lines = [f"{cause[0].what} ({_places(cause)})" for cause in others]
    if len(lines) > MOST_SHOWN:
        lines[MOST_SHOWN:] = [f"and {len(lines) - MOST_SHOWN} more"]
    also = f"{len(others)} more cause{'s' * (len(others) > 1)}:" if others else ""
    listed = "\n       ".join((also, *lines))
    why = "; ".join(filter(None, (first.why, listed)))
    return type(first)(
        first.code,
        first.what,
        where=_places(mine),
        why=why,
        help=_remedies([cause[0] for cause in causes.values()]),
        combined=tuple(problems),
    )


def _remedies(causes: Sequence[PenstockError]) -> str:
    """The remedy that all causes share; or else a line for each, with the causes that it helps."""
    by_help: dict[str, list[str]] = {}
    for one in causes:
        named = by_help.setdefault(one.help, [])
        name = one.cause or one.what
        if name not in named:
            named.append(name)
    if len(by_help) == 1:
        return causes[0].help
    lines = [f"{listed(names, MOST_NAMED)}: {help}" for help, names in by_help.items() if help]
    if len(lines) > MOST_SHOWN:
        lines[MOST_SHOWN:] = [f"and {len(lines) - MOST_SHOWN} more remedies"]
    return "\n        ".join(lines)


def _places(cause: Sequence[PenstockError]) -> str:
    others = len(cause) - 1
    more = f" and {others} more node{'s' * (others > 1)}" if others else ""
    return f"{cause[0].where}{more}"


# Operators that run subgraphs. Source: the schemas of TFLite and ONNX.
CONTROL_FLOW = frozenset(("CALL", "CALL_ONCE", "IF", "WHILE", "If", "Loop", "Scan"))
# Operators of ONNX models whose scales are computed from each input (dynamic quantisation).
DYNAMIC = frozenset(("ConvInteger", "DynamicQuantizeLinear", "MatMulInteger"))


def operator_remedy(name: str, *, reads_input: bool, is_output: bool) -> str:
    """Return what helps against an unsupported operator.

    reads_input: its only node reads an input of the network, and nothing that the network computes.
    is_output: the results of its only node are outputs, which no other node reads."""
    if name in CONTROL_FLOW:
        return "unroll loops and fix the branches that are taken, then convert the model again"
    if name in DYNAMIC:
        return (
            f"quantise the model statically, with representative inputs ({guide('quantise-onnx')})"
        )
    outside = "compute it in your application: {} (`penstock ops` lists what is supported)"
    if is_output and not reads_input:
        return outside.format("end the network before it")
    if reads_input and not is_output:
        return outside.format("begin the network after it")
    return (
        "replace it in the model by operators that `penstock ops` lists, or add it to penstock "
        f"({guide('add-an-operator')})"
    )


OPERATOR, ELEMENT_TYPE = "model-020", "model-021"
CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")
# Unsupported operators with state that persists between inferences. Source: TFLite schema.
STATEFUL = frozenset(
    (
        "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "LSTM", "RNN",
        "UNIDIRECTIONAL_SEQUENCE_RNN",
    )
)  # fmt: skip

STATE = (
    "it keeps state from one inference to the next, which this version supports in variables "
    "(READ_VARIABLE, ASSIGN_VARIABLE) and in the operators that `penstock ops` lists"
)
STATELESS = (
    "export the network without state, so that each inference receives its whole input (a "
    "non-streaming model without recurrent layers)"
)
_INT8_OPERATORS = "converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]"
# (cause, remedy) by element type of a node's tensors.
_TYPES = {
    DType.INT16: (
        "16-bit activations (16x8 quantisation) are not supported by this version",
        f"quantise with 8-bit activations: {_INT8_OPERATORS}",
    ),
    DType.UINT8: (
        "the uint8 quantisation of TensorFlow 1 is not supported here by this version",
        "convert the trained network again with a current TensorFlow Lite converter, which "
        "quantises to int8",
    ),
    DType.FLOAT32: (
        "the operator computes with real numbers",
        "quantise the model to int8 in full (post-training integer quantisation; "
        f"{guide('from-keras')})",
    ),
}
# Cause and remedy of an operator of real numbers whose weights are 8-bit integers.
_ONLY_WEIGHTS = (
    "only the weights are int8 (dynamic-range quantisation), and the operator computes with real "
    "numbers",
    "quantise the activations, too: set converter.representative_dataset and "
    f"{_INT8_OPERATORS} ({guide('from-keras')})",
)


@frozen
class Compiler:
    """A compiler whose output contains custom operators.  `help`: what to give penstock instead."""

    name: str
    help: str


# By the begin of the names of their custom operators.
_COMPILERS = {
    "ethos-u": Compiler(
        "Vela, for Arm Ethos-U",
        "give the .tflite file from before Vela; penstock compiles for Ethos-U itself "
        "(`--accelerator ethos_u55` or another of `penstock backend list`)",
    ),
    "edgetpu-custom-op": Compiler(
        "the Edge TPU Compiler", "give the .tflite file from before the Edge TPU Compiler"
    ),
    "XC_": Compiler("the XMOS optimiser", "give the .tflite file from before the XMOS optimiser"),
}
_CUSTOM = "CUSTOM:"
_OF_TENSORFLOW = "TFLite lacks it, and the converter kept TensorFlow's (SELECT_TF_OPS)"


class Severity(IntEnum):
    """How much the network must change to be supported; the largest change first."""

    COMPILED = 0
    STATE = 1
    OPERATOR = 2
    CONVERSION = 3


@frozen
class ImportProblem:
    """The reason why a node is not supported."""

    severity: Severity
    error: PenstockError


def explained(error: PenstockError, node: ForeignNode, model: ForeignModel) -> ImportProblem:
    """Adds cause and remedy, as they apply in this model, to the error of a node."""
    error = error.but(cause=_cause(error, node, model))
    compiler = _compiler(node)
    if compiler is not None:
        return ImportProblem(Severity.COMPILED, _compiled(error, node, compiler))
    if node.name in STATEFUL:
        return ImportProblem(Severity.STATE, error.but(why=STATE, help=STATELESS))
    whole = _quantisation_of_network(error, node, model)
    if whole is not None:
        why, help = whole
        return ImportProblem(Severity.CONVERSION, error.but(why=why, help=help))
    if node.name in CONVERSIONS and error.code in (OPERATOR, ELEMENT_TYPE):
        return ImportProblem(Severity.CONVERSION, _conversion(error, node, model))
    if node.name not in foreign_names():
        why = _OF_TENSORFLOW if node.name.startswith(f"{_CUSTOM}Flex") else ""
        return ImportProblem(Severity.OPERATOR, error.but(why=why, help=_remedy(node, model)))
    if (dtype := _wrong_type(error, node)) is not None:
        why, help = _TYPES[dtype]
        return ImportProblem(Severity.CONVERSION, error.but(why=why, help=help))
    return ImportProblem(Severity.CONVERSION, error)


def _compiler(node: ForeignNode) -> Compiler | None:
    """The compiler whose output the node is part of, if there is one."""
    custom = node.name.removeprefix(_CUSTOM)
    if custom == node.name:
        return None
    return next((c for begin, c in _COMPILERS.items() if custom.startswith(begin)), None)


def _compiled(error: PenstockError, node: ForeignNode, compiler: Compiler) -> PenstockError:
    return UnsupportedError(
        OPERATOR,
        f"the model was already compiled, by {compiler.name}",
        where=error.where,
        why=f"its custom operator {node.name.removeprefix(_CUSTOM)} contains commands for one "
        "accelerator instead of layers",
        help=compiler.help,
        cause=error.cause,
    )


def _quantisation_of_network(
    error: PenstockError, node: ForeignNode, model: ForeignModel
) -> tuple[str, str] | None:
    """Cause and remedy of a node whose element type is that of the whole network: 16x8 or
    dynamic-range quantisation."""
    if error.code not in (OPERATOR, ELEMENT_TYPE) or node.name not in foreign_names():
        return None
    layers = [other for other in model.nodes if other.name not in CONVERSIONS]
    if DType.INT16 in _types(node) and any(DType.INT16 in _types(layer) for layer in layers):
        return _TYPES[DType.INT16]
    if _types(node) == {DType.FLOAT32} and any(map(_has_only_weights, layers)):
        return _ONLY_WEIGHTS
    return None


def _has_only_weights(node: ForeignNode) -> bool:
    """Whether a node computes with real numbers and reads constants that are 8-bit integers."""
    constants = {v.dtype for v in node.inputs if v is not None and v.data is not None}
    return _types(node) == {DType.FLOAT32} and DType.INT8 in constants


def _remedy(node: ForeignNode, model: ForeignModel) -> str:
    """The remedy for a node whose operator has no file."""
    read = {v.name for n in model.nodes for v in n.inputs if v is not None}
    ends = {v.name for v in model.outputs} - read
    inputs = {v.name for v in model.inputs}
    is_single = sum(other.name == node.name for other in model.nodes) == 1
    return operator_remedy(
        node.name,
        reads_input=is_single
        and all(v is None or v.data is not None or v.name in inputs for v in node.inputs),
        is_output=is_single and all(v.name in ends for v in node.outputs),
    )


def _cause(error: PenstockError, node: ForeignNode, model: ForeignModel) -> str:
    """The name under which `penstock scan` counts the error of a node: the operator if it has no
    file, the element type if the whole network has to change it; else empty or both."""
    if node.name not in foreign_names():
        return f"operator {node.name}"
    dtype = _wrong_type(error, node)
    if dtype is None:
        return error.cause or f"{node.name}: {error.what.removeprefix(f'{node.name}: ')}"
    if dtype is not DType.FLOAT32 or not _is_quantised(model):
        return f"element type {dtype.value}"
    return f"{node.name} of {dtype.value}"


def _wrong_type(error: PenstockError, node: ForeignNode) -> DType | None:
    """The element type of the node that explains its error; None if another cause does."""
    if error.code != ELEMENT_TYPE:
        return None
    return next((dtype for dtype in _TYPES if dtype in _types(node)), None)


def _is_quantised(model: ForeignModel) -> bool:
    computed = (v for n in model.nodes if n.name not in CONVERSIONS for v in n.outputs)
    return any(v.dtype in (DType.INT8, DType.UINT8, DType.INT16) for v in computed)


def _conversion(error: PenstockError, node: ForeignNode, model: ForeignModel) -> PenstockError:
    source, target = (
        values[0].dtype if values and values[0] is not None else None
        for values in (node.inputs, node.outputs)
    )
    if source is None or target is None or source is target:
        return error
    what = f"{node.name} converts {source.value} to {target.value}, which is not supported"
    kind = source if source is not DType.INT8 else target
    for side, values, border in (
        ("input", node.inputs, model.inputs),
        ("output", node.outputs, model.outputs),
    ):
        if any(value in border for value in values):
            why = f"the network's {side} is {kind.value}; int8, uint8, int16 and float32 are "
            why += "supported"
            help = f"convert the model with an int8 {side}"
            return _element_type(what, error, why, help)
    why, help = _TYPES.get(kind, (f"{kind.value} is not supported here by this version", ""))
    if kind is DType.FLOAT32:
        why = "operators beside it compute with real numbers, as the converter could not quantise "
        why += "them"
        help = "replace these operators by supported ones (`penstock ops`) and convert again"
    return _element_type(what, error, why, help)


def _element_type(what: str, error: PenstockError, why: str, help: str) -> PenstockError:
    return UnsupportedError(
        "model-021",
        what,
        where=error.where,
        why=why,
        help=help or "`penstock ops` lists what is supported",
        cause=error.cause,
    )


def _types(node: ForeignNode) -> set[DType]:
    inputs = (v for k, v in enumerate(node.inputs) if k not in node.variables)
    computed = (v for v in inputs if v is not None and v.data is None)
    return {value.dtype for value in (*computed, *node.outputs)}


def most_severe_first(problems: Sequence[ImportProblem]) -> PenstockError:
    """One error for all problems, headed by the most severe."""
    ordered = sorted(problems, key=lambda problem: problem.severity)
    return collected([problem.error for problem in ordered])
