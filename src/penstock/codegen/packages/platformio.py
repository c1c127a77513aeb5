"""PlatformIO: a library with a manifest, and an example project.

Source: PlatformIO documentation, "library.json", and "Package Manager", section on symbolic links.
"""

from __future__ import annotations

from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import Delivery, PackageFormat
from penstock.toolchains.cortex_m import OPTIMISE_FLAGS

# Optimisation levels of GCC and Clang. PlatformIO removes the manifest's `unflags` after it has
# added the `flags`, so they must not contain the level of the library.
LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Og", "-Os", "-Oz", "-Ofast")


def pack(delivery: Delivery) -> Bundle:
    example = f"examples/{delivery.prefix}"
    level = OPTIMISE_FLAGS[delivery.optimise][0]
    return Bundle(
        (
            *delivery.rendered(
                "platformio",
                {"library.json": "library.json", "platformio.ini": f"{example}/platformio.ini"},
                other_levels=[other for other in LEVELS if other != level],
            ),
            *delivery.laid_out("include", "src"),
            (f"{example}/src/main.c", delivery.example),
        )
    )


FORMAT = PackageFormat("platformio", pack)
