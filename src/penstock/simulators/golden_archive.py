"""Reads and writes goldens as `.npz` archives; `golden_members.py` defines the members.

Reading a written archive yields equal goldens, byte for byte.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.errors import ModelError, OutputError
from penstock.simulators.golden_members import goldens_from_members, goldens_to_members
from penstock.simulators.goldens import Goldens

Array = NDArray[Any]

FIRST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # earliest date of the format: archives are reproducible


def read_goldens(path: Path) -> Goldens:
    """The goldens in an archive.

    Raises ModelError if the file is missing, damaged or inconsistent."""
    try:
        return goldens_from_members(_read_members(path))
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
    return pack_members(goldens_to_members(goldens))


def pack_members(members: Mapping[str, Array]) -> bytes:
    """An `.npz` archive without time, user or machine, so that its bytes are reproducible."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, values in members.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, values, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=FIRST_ZIP_DATE)
            entry.create_system = 3  # Unix, on every system
            archive.writestr(entry, member.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)
    return packed.getvalue()


def _read_members(path: Path) -> dict[str, Array]:
    """The members of the archive by name; pickled objects are refused."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                name.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(archive.read(name)), allow_pickle=False
                )
                for name in archive.namelist()
            }
    except FileNotFoundError as error:
        raise ModelError(
            "golden-002",
            "the golden archive does not exist",
            why="goldens are read from an .npz file",
            help="create it with: penstock golden MODEL -o FILE.npz",
        ) from error
    except Exception as error:  # zipfile and NumPy raise a dozen kinds for damaged files
        raise ModelError(
            "golden-003",
            "the golden archive is damaged, or not an archive",
            why=str(error) or type(error).__name__,
            help="create it again with: penstock golden MODEL -o FILE.npz",
        ) from error
