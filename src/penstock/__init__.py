"""penstock: a compiler from quantised neural networks to C for microcontrollers.

    import penstock
    penstock.compile("kws.tflite", target="cortex-m4", sram="64KiB").write("out/")

Functions, one for each command; `help(penstock.compile)` describes one with all settings:

    compile   a model to C: Compiled, with report, layers, inputs, outputs, and write()
    read      a model file as a Graph, which all functions take in place of the file
    explore   the Pareto front of memory against cycles: Explored
    load      compile for this machine: Network, with predict() and evaluate() in real numbers
    run       compile and execute, on a simulated core or on the host: Ran, with outputs
    profile   as run, with the cycles of each layer: Ran
    verify    compare every element of every tensor with a reference: Verified
    scan      compile all models of a folder: an iterator of Scanned
    compare   two results or recorded reports, for example before and after an update
    read_report  a report.json: Reported, which shows what the compilation shows
    golden    run a model in TensorFlow Lite Micro and record the results
    show      the result of a stage of the compiler as text

Records of the results: Accuracy, Compiled, Explored, Network, Ran, Reported, Scanned, Verified.
All are frozen; in notebooks, those with a report show its page.
Models built in Python: GraphBuilder, Graph, Region, Affine.  Options of the search: Options.
Exceptions: PenstockError and its subclasses, with a code and the parts what, where, why, help.

Each name is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.lazy import importer

if TYPE_CHECKING:
    from penstock.api import (
        Accuracy,
        Compiled,
        Explored,
        Network,
        Ran,
        Reported,
        Scanned,
        Verified,
        compare,
        compile,
        explore,
        golden,
        load,
        profile,
        read,
        read_report,
        run,
        scan,
        show,
        verify,
    )
    from penstock.errors import (
        BackendError,
        CapacityError,
        InternalError,
        MismatchError,
        ModelError,
        OutputError,
        PenstockError,
        TargetError,
        ToolError,
        UnsupportedError,
        UsageError,
    )
    from penstock.frontends.builder import GraphBuilder
    from penstock.ir.affine import Affine
    from penstock.ir.graph import Graph
    from penstock.ir.tensor import Region
    from penstock.scheduling.options import Options

    __version__: str

_MODULES = {
    "penstock.api": (
        "Accuracy", "Compiled", "Explored", "Network", "Ran", "Reported", "Scanned", "Verified",
        "compare", "compile", "explore", "golden", "load", "profile", "read", "read_report", "run",
        "scan", "show", "verify",
    ),
    "penstock.errors": (
        "BackendError", "CapacityError", "InternalError", "MismatchError", "ModelError",
        "OutputError", "PenstockError", "TargetError", "ToolError", "UnsupportedError",
        "UsageError",
    ),
    "penstock.frontends.builder": ("GraphBuilder",),
    "penstock.ir.affine": ("Affine",),
    "penstock.ir.graph": ("Graph",),
    "penstock.ir.tensor": ("Region",),
    "penstock.scheduling.options": ("Options",),
}  # fmt: skip

__all__ = [
    "Accuracy",
    "Affine",
    "BackendError",
    "CapacityError",
    "Compiled",
    "Explored",
    "Graph",
    "GraphBuilder",
    "InternalError",
    "MismatchError",
    "ModelError",
    "Network",
    "Options",
    "OutputError",
    "PenstockError",
    "Ran",
    "Region",
    "Reported",
    "Scanned",
    "TargetError",
    "ToolError",
    "UnsupportedError",
    "UsageError",
    "Verified",
    "compare",
    "compile",
    "explore",
    "golden",
    "load",
    "profile",
    "read",
    "read_report",
    "run",
    "scan",
    "show",
    "verify",
]


_imported = importer("penstock", _MODULES)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("penstock")
    return _imported(name)


def __dir__() -> list[str]:
    return sorted((*__all__, "__version__"))
