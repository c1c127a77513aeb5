"""penstock: a compiler from quantised neural networks to C for microcontrollers.

    import penstock
    penstock.compile("kws.tflite", target="cortex-m4", sram="64KiB").write("out/")

The names below are the public API; each is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.lazy import importer

if TYPE_CHECKING:
    from penstock.api import (
        Compiled,
        Explored,
        Ran,
        Scanned,
        Verified,
        compile,
        explore,
        golden,
        profile,
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
    from penstock.ir.region import Region
    from penstock.scheduling.options import Options

    __version__: str

_MODULES = {
    "penstock.api": (
        "Compiled", "Explored", "Ran", "Scanned", "Verified",
        "compile", "explore", "golden", "profile", "run", "scan", "show", "verify",
    ),
    "penstock.errors": (
        "BackendError", "CapacityError", "InternalError", "MismatchError", "ModelError",
        "OutputError", "PenstockError", "TargetError", "ToolError", "UnsupportedError",
        "UsageError",
    ),
    "penstock.frontends.builder": ("GraphBuilder",),
    "penstock.ir.affine": ("Affine",),
    "penstock.ir.graph": ("Graph",),
    "penstock.ir.region": ("Region",),
    "penstock.scheduling.options": ("Options",),
}  # fmt: skip

__all__ = [
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
    "Options",
    "OutputError",
    "PenstockError",
    "Ran",
    "Region",
    "Scanned",
    "TargetError",
    "ToolError",
    "UnsupportedError",
    "UsageError",
    "Verified",
    "compile",
    "explore",
    "golden",
    "profile",
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
