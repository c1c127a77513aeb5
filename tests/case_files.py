"""Case files with one changed figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def changed(original: Path, place: tuple[str | int, ...], value: object, folder: Path) -> Path:
    """A copy of a case file in a folder, with another value at a path of keys."""
    document: Any = json.loads(original.read_text("utf-8"))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path = folder / "cases.json"
    path.write_text(json.dumps(document))
    return path
