"""Zephyr: an out-of-tree module and a sample that prints through printk.

Source: Zephyr documentation, "Modules (External projects)", scripts/schemas/module-schema.yaml,
"Test Runner (Twister)" for sample.yaml, and "CMake Package" for the sample's CMakeLists.txt."""

from __future__ import annotations

from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import Delivery, PackageFormat


def pack(delivery: Delivery) -> Bundle:
    sample = f"samples/{delivery.prefix}"
    return Bundle(
        (
            *delivery.rendered(
                "zephyr",
                {
                    "module.yml": "zephyr/module.yml",
                    "CMakeLists.txt": "CMakeLists.txt",
                    "Kconfig": "Kconfig",
                    "sample/CMakeLists.txt": f"{sample}/CMakeLists.txt",
                    "sample/prj.conf": f"{sample}/prj.conf",
                    "sample/sample.yaml": f"{sample}/sample.yaml",
                    "sample/main.c": f"{sample}/src/main.c",
                },
            ),
            *delivery.laid_out("include", "src"),
        )
    )


FORMAT = PackageFormat("zephyr", pack)
