"""Rust: a `no_std` crate that compiles the C files in its build script, with a safe interface.

Source: The Cargo Book, "Build Scripts"; The Rust Reference, "External blocks"."""

from __future__ import annotations

from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import Delivery, PackageFormat

# The Rust types of the C types of elements.
RUST_TYPES = {
    "int8_t": "i8",
    "uint8_t": "u8",
    "int16_t": "i16",
    "int32_t": "i32",
    "int64_t": "i64",
    "float": "f32",
}


def pack(delivery: Delivery) -> Bundle:
    return Bundle(
        (
            *delivery.rendered(
                "rust",
                {
                    "Cargo.toml": "Cargo.toml",
                    "build.rs": "build.rs",
                    "lib.rs": "src/lib.rs",
                    "run.rs": "examples/run.rs",
                },
                rust_types=RUST_TYPES,
            ),
            *delivery.laid_out("c", "c"),
        )
    )


FORMAT = PackageFormat("rust", pack)
