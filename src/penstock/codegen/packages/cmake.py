"""CMake: a project that builds a library and examples in C and C++, and a toolchain file.

Source: CMake manual, cmake-toolchains(7), "Cross Compiling"."""

from __future__ import annotations

from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import Delivery, PackageFormat


def pack(delivery: Delivery) -> Bundle:
    paths = {"main.cpp": "main.cpp"}
    if delivery.cpu_flags:
        paths["toolchain.cmake"] = "toolchain.cmake"
    return delivery.bundle.with_files(*delivery.rendered("cmake", paths))


FORMAT = PackageFormat("cmake", pack)
