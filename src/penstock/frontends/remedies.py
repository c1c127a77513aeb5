"""Remedies for operators that have no file, by kind of operator and position in the network."""

from __future__ import annotations

from penstock.guides import guide

CONTROL_FLOW = frozenset(("CALL", "CALL_ONCE", "IF", "WHILE", "If", "Loop", "Scan"))
"""Operators that run subgraphs.  Source: the schemas of TFLite and ONNX."""
DYNAMIC = frozenset(("ConvInteger", "DynamicQuantizeLinear", "MatMulInteger"))
"""Operators of ONNX models whose scales are computed from each input (dynamic quantisation)."""


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
