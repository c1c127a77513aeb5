"""Record: rows that a benchmark has measured, in a file from which its table is printed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

Row = TypeVar("Row")
"""A dataclass of numbers, strings and such dataclasses."""


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON object of rows by key, one a line.

    path: the file, which need not exist; None if nothing is recorded.
    """

    path: Path | None

    def rows(self, parse: Callable[[Any], Row]) -> dict[str, Row]:
        """The rows; `parse` is the inverse of `dataclasses.asdict`."""
        if self.path is None or not self.path.exists():
            return {}
        found: dict[str, Any] = json.loads(self.path.read_text("utf-8"))
        return {key: parse(row) for key, row in found.items()}

    def write(self, rows: dict[str, Row]) -> None:
        """Replaces the rows."""
        if self.path is not None:
            lines = (
                f"{json.dumps(key)}: {json.dumps(dataclasses.asdict(cast(Any, row)))}"
                for key, row in rows.items()
            )
            self.path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
