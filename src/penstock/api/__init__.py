"""The Python API: one function for each command of the command line.

penstock.compile("kws.tflite", target="cortex-m4", sram="64KiB").write("out/")
"""

from penstock.api.arrays import drawn_sets, read_inputs, write_array
from penstock.api.compiled import Compiled, compile
from penstock.api.explored import explore, nodes
from penstock.api.ran import Ran, profile, run
from penstock.api.scanned import ScanSettings, scan
from penstock.api.settings import Settings, Size, request
from penstock.api.verified import DRAWN_SETS, LAST_RUNGS, Verified, golden, real_judge, verify
from penstock.exploration import Explored
from penstock.pipeline.stages import OnStage
from penstock.reports.scan import Scanned

__all__ = [
    "DRAWN_SETS",
    "LAST_RUNGS",
    "Compiled",
    "Explored",
    "OnStage",
    "Ran",
    "ScanSettings",
    "Scanned",
    "Settings",
    "Size",
    "Verified",
    "compile",
    "drawn_sets",
    "explore",
    "golden",
    "nodes",
    "profile",
    "read_inputs",
    "real_judge",
    "request",
    "run",
    "scan",
    "verify",
    "write_array",
]
