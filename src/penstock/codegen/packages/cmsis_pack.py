"""CMSIS-Pack: a pack description (.pdsc), the files that it lists, and the archive of both (.pack).

Source: Open-CMSIS-Pack specification, schema/PACK.xsd, version 1.7.7, and "Pack Description
(*.PDSC) Format", section "Filename Conventions"."""

from __future__ import annotations

import hashlib
import io
import zipfile

from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import VERSION, Delivery, PackageFormat

VENDOR = "penstock"
LONGEST_CSUB = 32  # Characters of a component's sub-group (`CsubType`).
# The first time that a zip archive can state. The archive does not depend on the time.
EARLIEST = (1980, 1, 1, 0, 0, 0)


def pack(delivery: Delivery) -> Bundle:
    name = f"{VENDOR}.{delivery.prefix}"
    files = (
        *delivery.rendered(
            "cmsis-pack",
            {"package.pdsc": f"{name}.pdsc"},
            component=component_name(delivery.prefix),
            vendor=VENDOR,
        ),
        *delivery.laid_out("include", "src"),
        ("examples/main.c", delivery.example),
    )
    return Bundle((*files, (f"{name}.{VERSION}.pack", _archive(files))))


def component_name(prefix: str) -> str:
    """The sub-group of the component: the prefix, shortened by a digest if it is too long.

    >>> component_name("kws")
    'kws'
    """
    if len(prefix) <= LONGEST_CSUB:
        return prefix
    digest = hashlib.sha256(prefix.encode()).hexdigest()[:8]
    return f"{prefix[: LONGEST_CSUB - 9]}_{digest}"


def _archive(files: tuple[tuple[str, bytes], ...]) -> bytes:
    """A zip archive of the files.  It is not compressed, since compressors differ between
    platforms, and the same input gives the same bytes on every platform."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files:
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.create_system = 3  # Unix; Python's default depends on the platform
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return content.getvalue()


FORMAT = PackageFormat("cmsis-pack", pack)
