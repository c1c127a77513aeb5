"""Delivery of a compilation: the input of all package formats."""

from __future__ import annotations

from penstock.codegen.interface import interface
from penstock.codegen.names import Names
from penstock.codegen.packages.delivery import Delivery
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.provenance import provenance


def delivery(done: Compilation) -> Delivery:
    """Return the generated files of a compilation, with what build systems need to know."""
    target = done.request.target
    return Delivery(
        done.bundle,
        interface(done.program, Names.of(done.program, done.prefix)),
        provenance(done.request),
        target.name,
        target.compiler.gcc,
        target.compiler.optimise,
        done.request.stack_bytes,
    )
