"""Check that an operator computes the element types of a node."""

from __future__ import annotations

from penstock.errors import ModelError
from penstock.ir.graph import Node
from penstock.opkit.checks import require_dtype


def check_element_types(node: Node) -> None:
    """Raises ModelError unless `Op.result_type` accepts the node's inputs and gives its output's
    element type.  Portable kernels and `Op.evaluate` implement exactly these types."""
    problem = element_type_problem(node)
    if problem is not None:
        raise problem.at(node.origin or node.name)


def element_type_problem(node: Node) -> ModelError | None:
    """The error of `check_element_types`, or None."""
    try:
        computed = node.op.result_type(node.site.inputs)
        require_dtype(node.output.type, (computed.dtype,), "output")
    except ModelError as error:
        return error
    return None
