"""GoldenArchive: goldens in an `.npz` file; `golden_members.py` says what is in it.

Law: `read_goldens` of what `write_goldens` wrote holds the same, byte for byte.
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
from penstock.simulators.golden_members import goldens_of, members_of
from penstock.simulators.goldens import Goldens

Array = NDArray[Any]

FIRST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that the format knows: says "no date"


def read_goldens(path: Path) -> Goldens:
    """The goldens in an archive, whichever members it has.

    Raises:
        ModelError: the file is missing, damaged, or contradicts itself.
    """
    try:
        return goldens_of(_read_members(path))
    except ModelError as error:
        raise error.at(str(path)) from error


def write_goldens(goldens: Goldens, path: Path) -> None:
    """The archive at `path`; the same goldens give the same bytes.

    Raises:
        OutputError: the file cannot be written.
    """
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
    return pack_members(members_of(goldens))


def pack_members(members: Mapping[str, Array]) -> bytes:
    """An `.npz` archive with no time, user or machine in it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, values in members.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, values, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=FIRST_ZIP_DATE)
            entry.create_system = 3  # as on Unix, wherever it is written
            archive.writestr(entry, member.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)
    return packed.getvalue()


def _read_members(path: Path) -> dict[str, Array]:
    """Every member of the archive by its name; nothing in it is ever executed."""
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
            help="make one with: penstock golden MODEL -o FILE.npz",
        ) from error
    except Exception as error:  # zipfile and NumPy raise a dozen kinds for damaged files
        raise ModelError(
            "golden-003",
            "the golden archive is damaged, or no archive",
            why=str(error) or type(error).__name__,
            help="make it anew with: penstock golden MODEL -o FILE.npz",
        ) from error
