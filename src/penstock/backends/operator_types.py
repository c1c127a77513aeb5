"""Checks that an operator supports the element types of a node."""

from __future__ import annotations

from penstock.errors import ModelError
from penstock.ir.graph import Node
from penstock.opkit.checks import require_dtype


def check_element_types(node: Node) -> None:
    """Raise ModelError unless the operator supports the element types of the node.

    `Op.result_type` must accept the types of the inputs and return the element type of the output.
    Portable kernels and `Op.evaluate` support exactly these types."""
    problem = element_type_problem(node)
    if problem is not None:
        raise problem.at(node.origin or node.name)


def element_type_problem(node: Node) -> ModelError | None:
    """Return the error for unsupported element types of a node; None if they are supported."""
    try:
        computed = node.op.result_type(node.site.inputs)
        require_dtype(node.output.type, (computed.dtype,), "output")
    except ModelError as error:
        return error
    return None
