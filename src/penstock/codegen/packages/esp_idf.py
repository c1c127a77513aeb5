"""ESP-IDF: a component with a manifest for the component manager, and an example project.

Source: ESP-IDF Programming Guide, "Build System", and IDF Component Manager documentation,
"Manifest file format" (`idf_component.yml`)."""

from __future__ import annotations

from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import Delivery, PackageFormat


def pack(delivery: Delivery) -> Bundle:
    example = f"examples/{delivery.prefix}"
    return Bundle(
        (
            *delivery.rendered(
                "esp-idf",
                {
                    "CMakeLists.txt": "CMakeLists.txt",
                    "idf_component.yml": "idf_component.yml",
                    "example/CMakeLists.txt": f"{example}/CMakeLists.txt",
                    "example/main/CMakeLists.txt": f"{example}/main/CMakeLists.txt",
                    "example/sdkconfig.defaults": f"{example}/sdkconfig.defaults",
                    "example/main/main.c": f"{example}/main/main.c",
                },
            ),
            *delivery.laid_out("include", "src"),
        )
    )


FORMAT = PackageFormat(
    "esp-idf", pack, "the chips of ESP-IDF have Xtensa or RISC-V cores", serves_arm=False
)
