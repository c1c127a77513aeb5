"""The Python API: one function for each command of the command line, and `sweep`.

penstock.compile("kws.tflite", target="cortex-m4", sram="64KiB").write("out/")

Each name is imported on first use: `compile` does not load what only `verify` needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.lazy import importer

if TYPE_CHECKING:
    from penstock.api.arguments import LAST_RUNGS
    from penstock.api.arrays import check_outputs, drawn_sets, read_inputs, write_array
    from penstock.api.compiled import Compiled, compile
    from penstock.api.explored import (
        Swept,
        SweptConfiguration,
        compare_partitions,
        explain_pattern,
        explore,
        nodes,
        show,
        sweep,
    )
    from penstock.api.loaded import load
    from penstock.api.network import Network
    from penstock.api.ran import Ran, compare, profile, run
    from penstock.api.reported import Reported, read_report
    from penstock.api.requested import read, request
    from penstock.api.scanned import ScanSettings, scan
    from penstock.api.settings import Settings
    from penstock.api.verified import DRAWN_SETS, Verified, golden, onnx_reference, verify
    from penstock.codegen.names import default_folder
    from penstock.exploration import Explored
    from penstock.hardware.quantities import Size
    from penstock.pipeline.stages import OnStage
    from penstock.reports.accuracy import Accuracy
    from penstock.reports.scan import Scanned

_MODULES = {
    "penstock.api.arguments": ("LAST_RUNGS",),
    "penstock.api.arrays": ("check_outputs", "drawn_sets", "read_inputs", "write_array"),
    "penstock.api.compiled": ("Compiled", "compile"),
    "penstock.api.explored": (
        "Swept",
        "SweptConfiguration",
        "compare_partitions",
        "explain_pattern",
        "explore",
        "nodes",
        "show",
        "sweep",
    ),
    "penstock.api.loaded": ("load",),
    "penstock.api.network": ("Network",),
    "penstock.api.ran": ("Ran", "compare", "profile", "run"),
    "penstock.api.reported": ("Reported", "read_report"),
    "penstock.api.requested": ("read", "request"),
    "penstock.api.scanned": ("ScanSettings", "scan"),
    "penstock.api.settings": ("Settings",),
    "penstock.api.verified": ("DRAWN_SETS", "Verified", "golden", "onnx_reference", "verify"),
    "penstock.exploration": ("Explored",),
    "penstock.hardware.quantities": ("Size",),
    "penstock.codegen.names": ("default_folder",),
    "penstock.pipeline.stages": ("OnStage",),
    "penstock.reports.accuracy": ("Accuracy",),
    "penstock.reports.scan": ("Scanned",),
}

__all__ = [
    "DRAWN_SETS",
    "LAST_RUNGS",
    "Accuracy",
    "Compiled",
    "Explored",
    "Network",
    "OnStage",
    "Ran",
    "Reported",
    "ScanSettings",
    "Scanned",
    "Settings",
    "Size",
    "Swept",
    "SweptConfiguration",
    "Verified",
    "check_outputs",
    "compare",
    "compare_partitions",
    "compile",
    "default_folder",
    "drawn_sets",
    "explain_pattern",
    "explore",
    "golden",
    "load",
    "nodes",
    "onnx_reference",
    "profile",
    "read",
    "read_inputs",
    "read_report",
    "request",
    "run",
    "scan",
    "show",
    "sweep",
    "verify",
    "write_array",
]

__getattr__ = importer("penstock.api", _MODULES)
