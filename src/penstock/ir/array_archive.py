"""`.npz` archives of arrays: reading without pickled objects, writing with reproducible bytes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from penstock.ir.tensor import Array

FIRST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)
"""Earliest date of the format, given to all members so that archives are reproducible."""


class ArchiveError(ValueError):
    """The file is damaged, or no archive of arrays."""


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays in an archive, by name.

    Raises OSError if the file cannot be read, and ArchiveError if it is damaged, no archive, or
    contains pickled objects."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                name.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(archive.read(name)), allow_pickle=False
                )
                for name in archive.namelist()
            }
    except OSError:
        raise
    except Exception as error:  # zipfile and NumPy raise a dozen kinds for damaged files
        raise ArchiveError(str(error) or type(error).__name__) from error


def pack_arrays(arrays: Mapping[str, Array]) -> bytes:
    """An archive without time, user or machine, so that its bytes are reproducible."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, values in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, values, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=FIRST_ZIP_DATE)
            entry.create_system = 3  # Unix, on every system
            archive.writestr(entry, member.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)
    return packed.getvalue()
