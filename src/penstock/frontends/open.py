"""open: model file -> Graph, by content, not by suffix."""

from __future__ import annotations

from pathlib import Path

from penstock.errors import ModelError, PenstockError, UnsupportedError
from penstock.frontends import tflite
from penstock.frontends.node_checks import check_foreign, check_node
from penstock.ir.foreign import ForeignModel, ForeignNode
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.verify import verify
from penstock.ops.registry import foreign_names


def read_bytes(path: Path) -> bytes:
    """The file's contents.  Raises ModelError where there is none or it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(
            "model-001",
            f"the model cannot be read: {error.strerror or error}",
            where=str(path),
            help="MODEL is a .tflite file, or zoo:NAME (`penstock show zoo:` lists them)",
        ) from error


def parse(raw: bytes, name: str) -> Graph:
    """The graph in a model file's bytes.

    Raises ModelError (malformed) or UnsupportedError (well-formed, not taken)."""
    if not tflite.looks_like_tflite(raw):
        raise UnsupportedError(
            "model-005",
            "the file is not a TFLite model",
            where=name,
            why=f"bytes 4 to 8 are {raw[4:8]!r}, must be {tflite.IDENTIFIER!r}; "
            f"the file has {len(raw)} bytes",
            help="penstock reads .tflite files (int8); ONNX is to come",
        )
    return understand(tflite.decode(raw, name))


def understand(model: ForeignModel) -> Graph:
    """The graph that a decoded model means, in the file's order, verified."""
    nodes: list[Node] = []
    problems: list[PenstockError] = []
    for foreign in model.nodes:
        try:
            nodes += _understand_node(foreign)
        except ModelError as error:
            problems.append(error if error.where else error.at(foreign.where))
    if problems:
        raise _collected(problems)
    graph = Graph(model.name, model.inputs, model.outputs, tuple(nodes))
    verify(graph)
    return graph


def _understand_node(foreign: ForeignNode) -> list[Node]:
    understand_it = foreign_names().get(foreign.name)
    if understand_it is None:
        raise foreign.unsupported("operator is not supported")
    check_foreign(foreign)
    made = [Node(m.op, m.inputs, m.output, foreign.where) for m in understand_it(foreign)]
    for node in made:
        check_node(node)
    return made


def _collected(problems: list[PenstockError]) -> PenstockError:
    """All problems as one error: the first, and the others in its reason."""
    first, rest = problems[0], problems[1:]
    if not rest:
        return first
    shown = "".join(f"\n       {e.what} ({e.where})" for e in rest[:9])
    more = f"\n       and {len(rest) - 9} more" if len(rest) > 9 else ""
    also = f"{len(rest)} more nodes are not taken:{shown}{more}"
    why = f"{first.why}; {also}" if first.why else also
    return type(first)(first.code, first.what, where=first.where, why=why, help=first.help)


def origin_values(graph: Graph) -> dict[int, Value]:
    """Values that stand in the model file, by their index there."""
    return {v.origin: v for v in graph.variables() if v.origin is not None}
