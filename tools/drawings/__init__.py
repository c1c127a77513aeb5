"""Drawings of the documentation as SVG, generated from small computations.

python -m tools.drawings
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tools.drawings import bands, cascade, live_rows, program, requantisation
from tools.drawings.svg import Drawing

FOLDER = Path(__file__).parents[2] / "docs" / "drawings"
DRAWINGS: Mapping[str, Drawing] = {
    "bands": bands.drawing(),
    "cascade": cascade.drawing(),
    "live-rows": live_rows.drawing(),
    "program": program.drawing(),
    "requantisation": requantisation.drawing(),
}
"""By name of the file in `docs/drawings`, without its suffix."""
