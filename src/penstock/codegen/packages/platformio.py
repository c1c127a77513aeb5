"""PlatformIO: a library with a manifest, and an example project.

Source: PlatformIO documentation, "library.json", and "Package Manager", section on symbolic links.
"""

from __future__ import annotations

from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import Delivery
from penstock.codegen.packages.package_format import PackageFormat


def pack(delivery: Delivery) -> Bundle:
    example = f"examples/{delivery.prefix}"
    return Bundle(
        (
            *delivery.rendered(
                "platformio",
                {"library.json": "library.json", "platformio.ini": f"{example}/platformio.ini"},
            ),
            *delivery.laid_out("include", "src"),
            (f"{example}/src/main.c", delivery.example),
        )
    )


FORMAT = PackageFormat("platformio", pack)
