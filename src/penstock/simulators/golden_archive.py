"""Reads and writes goldens as `.npz` archives; `golden_members.py` defines the members.

Reading a written archive yields equal goldens, byte for byte.
"""

from __future__ import annotations

from pathlib import Path

from penstock.allowance import DEFAULT_SIZE_LIMIT_BYTES, SizeLimitError
from penstock.errors import ModelError, OutputError
from penstock.ir.array_archive import ArchiveError, pack_arrays, read_arrays
from penstock.ir.tensor import Array
from penstock.simulators.golden_members import goldens_from_members, goldens_to_members
from penstock.simulators.goldens import Goldens


def read_goldens(path: Path, limit_bytes: int = DEFAULT_SIZE_LIMIT_BYTES) -> Goldens:
    """The goldens in an archive.

    Raises ModelError if the file is missing, damaged or inconsistent, or exceeds the limit."""
    try:
        return goldens_from_members(_read_members(path, limit_bytes))
    except SizeLimitError:
        raise
    except ModelError as error:
        raise error.at(str(path)) from error


def write_goldens(goldens: Goldens, path: Path) -> None:
    """Writes an archive; equal goldens yield equal bytes.

    Raises OutputError if the file cannot be written."""
    try:
        path.write_bytes(golden_bytes(goldens))
    except OSError as error:
        raise OutputError(
            "golden-006",
            "the golden archive cannot be written",
            where=str(path),
            why=error.strerror or str(error),
            help="choose a file in a folder that exists and may be written to",
        ) from error


def golden_bytes(goldens: Goldens) -> bytes:
    """The archive as bytes."""
    return pack_arrays(goldens_to_members(goldens))


def _read_members(path: Path, limit_bytes: int) -> dict[str, Array]:
    """The members of the archive by name.  Raises ModelError."""
    try:
        return read_arrays(path, limit_bytes)
    except FileNotFoundError as error:
        raise ModelError(
            "golden-002",
            "the golden archive does not exist",
            why="goldens are read from an .npz file",
            help="create it with: penstock golden MODEL -o FILE.npz",
        ) from error
    except (OSError, ArchiveError) as error:
        raise ModelError(
            "golden-003",
            "the golden archive is damaged, or not an archive",
            why=str(error) or type(error).__name__,
            help="create it again with: penstock golden MODEL -o FILE.npz",
        ) from error
