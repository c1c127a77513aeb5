"""make: a Makefile that builds a static library and examples, for this machine or for the target.

Source: GNU make manual, "Implicit Rules", for the names of variables."""

from __future__ import annotations

from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import Delivery, PackageFormat


def pack(delivery: Delivery) -> Bundle:
    return Bundle(
        (
            *delivery.rendered("make", {"Makefile": "Makefile"}),
            *delivery.laid_out("include", "src"),
            ("examples/main.c", delivery.example),
            *delivery.rendered("cmake", {"main.cpp": "examples/main.cpp"}),
        )
    )


FORMAT = PackageFormat("make", pack)
