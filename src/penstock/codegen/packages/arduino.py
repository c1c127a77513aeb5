"""Arduino: a library whose sources are in `src`, and an example sketch.

Source: Arduino CLI documentation, "Library specification", revision 2.2 (1.5 format)."""

from __future__ import annotations

from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import Delivery, PackageFormat


def pack(delivery: Delivery) -> Bundle:
    name = delivery.prefix
    return Bundle(
        (
            *delivery.rendered(
                "arduino",
                {
                    "library.properties": "library.properties",
                    "keywords.txt": "keywords.txt",
                    "sketch.ino": f"examples/{name}_example/{name}_example.ino",
                },
                library=library_name(delivery),
            ),
            *delivery.laid_out("src", "src"),
        )
    )


def library_name(delivery: Delivery) -> str:
    """The name of the library.  Names that begin with "Arduino" are reserved for Arduino's own."""
    is_reserved = delivery.prefix.lower().startswith("arduino")
    return delivery.unique_name if is_reserved else delivery.prefix


FORMAT = PackageFormat("arduino", pack, "some boards, such as those with ESP32, have other cores")
