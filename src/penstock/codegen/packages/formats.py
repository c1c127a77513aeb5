"""Package formats: the folder layouts that build systems expect, and the choice among them.

A format is a function from a `Delivery` to the files of a package, and an entry of
`PACKAGE_FORMATS`.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.backends.cores.family import core_family
from penstock.codegen.bundle import Bundle
from penstock.codegen.packages.delivery import VERSION, Delivery
from penstock.errors import UsageError, did_you_mean
from penstock.frozen import frozen
from penstock.guides import guide
from penstock.hardware.target import Target
from penstock.toolchains.cortex_m import OPTIMISE_FLAGS

ALL = "all"  # Stands for every format.


@frozen
class PackageFormat:
    """A format of `--package`.

    name: its name on the command line.
    pack: returns the files of the package.
    other_cores: a clause about its chips that have no Arm core; empty if that is not usual.
    serves_arm: whether it also serves chips with Arm cores.
    """

    name: str
    pack: Callable[[Delivery], Bundle]
    other_cores: str = ""
    serves_arm: bool = True


def _package(
    delivery: Delivery,
    format: str,
    paths: Mapping[str, str],
    *more: tuple[str, bytes],
    folders: tuple[str, str] = ("include", "src"),
    **values: object,
) -> Bundle:
    """The templates of a format, the library in folders for its header and its other files, and
    more files."""
    rendered = delivery.rendered(format, paths, **values)
    return Bundle((*rendered, *delivery.laid_out(*folders), *more))


def _arduino(delivery: Delivery) -> Bundle:
    """A library whose sources are in `src`, and an example sketch.

    Source: Arduino CLI documentation, "Library specification", revision 2.2 (1.5 format)."""
    name = delivery.prefix
    # Names that begin with "Arduino" are reserved for Arduino's own libraries.
    is_reserved = name.lower().startswith("arduino")
    paths = {
        "library.properties": "library.properties",
        "keywords.txt": "keywords.txt",
        "sketch.ino": f"examples/{name}_example/{name}_example.ino",
    }
    library = delivery.unique_name if is_reserved else name
    return _package(delivery, "arduino", paths, folders=("src", "src"), library=library)


def _cmake(delivery: Delivery) -> Bundle:
    """A project that builds a library and examples in C and C++, and a toolchain file.

    Source: CMake manual, cmake-toolchains(7), "Cross Compiling"."""
    paths = {"main.cpp": "main.cpp"}
    if delivery.cpu_flags:
        paths["toolchain.cmake"] = "toolchain.cmake"
    return delivery.bundle.with_files(*delivery.rendered("cmake", paths))


VENDOR = "penstock"
LONGEST_CSUB = 32  # Characters of a component's sub-group (`CsubType`).
# The first time that a zip archive can state. The archive does not depend on the time.
EARLIEST = (1980, 1, 1, 0, 0, 0)


def _cmsis_pack(delivery: Delivery) -> Bundle:
    """A pack description (.pdsc), the files that it lists, and the archive of both (.pack).

    Source: Open-CMSIS-Pack specification, schema/PACK.xsd, version 1.7.7, and "Pack Description
    (*.PDSC) Format", section "Filename Conventions"."""
    name = f"{VENDOR}.{delivery.prefix}"
    unpacked = _package(
        delivery,
        "cmsis-pack",
        {"package.pdsc": f"{name}.pdsc"},
        ("examples/main.c", delivery.example),
        component=component_name(delivery.prefix),
        vendor=VENDOR,
    )
    return unpacked.with_files((f"{name}.{VERSION}.pack", _archive(unpacked.files)))


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


def _esp_idf(delivery: Delivery) -> Bundle:
    """A component with a manifest for the component manager, and an example project.

    Source: ESP-IDF Programming Guide, "Build System", and IDF Component Manager documentation,
    "Manifest file format" (`idf_component.yml`)."""
    example = f"examples/{delivery.prefix}"
    paths = {
        "CMakeLists.txt": "CMakeLists.txt",
        "idf_component.yml": "idf_component.yml",
        "example/CMakeLists.txt": f"{example}/CMakeLists.txt",
        "example/main/CMakeLists.txt": f"{example}/main/CMakeLists.txt",
        "example/sdkconfig.defaults": f"{example}/sdkconfig.defaults",
        "example/main/main.c": f"{example}/main/main.c",
    }
    return _package(delivery, "esp-idf", paths)


def _make(delivery: Delivery) -> Bundle:
    """A Makefile that builds a static library and examples, for this machine or for the target.

    Source: GNU make manual, "Implicit Rules", for the names of variables."""
    return _package(
        delivery,
        "make",
        {"Makefile": "Makefile"},
        ("examples/main.c", delivery.example),
        *delivery.rendered("cmake", {"main.cpp": "examples/main.cpp"}),
    )


# Optimisation levels of GCC and Clang. PlatformIO removes the manifest's `unflags` after it has
# added the `flags`, so they must not contain the level of the library.
LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Og", "-Os", "-Oz", "-Ofast")


def _platformio(delivery: Delivery) -> Bundle:
    """A library with a manifest, and an example project.

    Source: PlatformIO documentation, "library.json", and "Package Manager", section on symbolic
    links."""
    example = f"examples/{delivery.prefix}"
    level = OPTIMISE_FLAGS[delivery.optimise][0]
    return _package(
        delivery,
        "platformio",
        {"library.json": "library.json", "platformio.ini": f"{example}/platformio.ini"},
        (f"{example}/src/main.c", delivery.example),
        other_levels=[other for other in LEVELS if other != level],
    )


# The Rust types of the C types of elements.
RUST_TYPES = {
    "int8_t": "i8",
    "uint8_t": "u8",
    "int16_t": "i16",
    "int32_t": "i32",
    "int64_t": "i64",
    "float": "f32",
}


def _rust(delivery: Delivery) -> Bundle:
    """A `no_std` crate that compiles the C files in its build script, with a safe interface.

    Source: The Cargo Book, "Build Scripts"; The Rust Reference, "External blocks"."""
    paths = {
        "Cargo.toml": "Cargo.toml",
        "build.rs": "build.rs",
        "lib.rs": "src/lib.rs",
        "run.rs": "examples/run.rs",
    }
    return _package(delivery, "rust", paths, folders=("c", "c"), rust_types=RUST_TYPES)


def _zephyr(delivery: Delivery) -> Bundle:
    """An out-of-tree module and a sample that prints through printk.

    Source: Zephyr documentation, "Modules (External projects)",
    scripts/schemas/module-schema.yaml, "Test Runner (Twister)" for sample.yaml, and "CMake Package"
    for the sample's CMakeLists.txt."""
    sample = f"samples/{delivery.prefix}"
    paths = {
        "module.yml": "zephyr/module.yml",
        "CMakeLists.txt": "CMakeLists.txt",
        "Kconfig": "Kconfig",
        "sample/CMakeLists.txt": f"{sample}/CMakeLists.txt",
        "sample/prj.conf": f"{sample}/prj.conf",
        "sample/sample.yaml": f"{sample}/sample.yaml",
        "sample/main.c": f"{sample}/src/main.c",
    }
    return _package(delivery, "zephyr", paths)


PACKAGE_FORMATS: Mapping[str, PackageFormat] = {
    format.name: format
    for format in (
        PackageFormat(
            "arduino", _arduino, "some boards, such as those with ESP32, have other cores"
        ),
        PackageFormat("cmake", _cmake),
        PackageFormat("cmsis-pack", _cmsis_pack),
        PackageFormat(
            "esp-idf",
            _esp_idf,
            "the chips of ESP-IDF have Xtensa or RISC-V cores",
            serves_arm=False,
        ),
        PackageFormat("make", _make),
        PackageFormat("platformio", _platformio),
        PackageFormat("rust", _rust),
        PackageFormat("zephyr", _zephyr),
    )
}


def chosen_formats(texts: str | Sequence[str]) -> tuple[PackageFormat, ...]:
    """The formats that texts such as "zephyr,arduino" and "all" name, each once.

    Raises UsageError for an unknown name."""
    every = (texts,) if isinstance(texts, str) else texts
    names = [name.strip() for text in every for name in text.split(",")]
    for name in names:
        if name not in PACKAGE_FORMATS and name != ALL:
            raise _unknown(name)
    if ALL in names:
        return tuple(PACKAGE_FORMATS.values())
    return tuple(PACKAGE_FORMATS[name] for name in dict.fromkeys(names))


def packaged(delivery: Delivery, formats: Sequence[PackageFormat]) -> Bundle:
    """The files of one package, or of several packages, each in a folder named after its format."""
    if len(formats) == 1:
        return formats[0].pack(delivery)
    return Bundle(
        tuple(
            (f"{format.name}/{name}", content)
            for format in formats
            for name, content in format.pack(delivery).files
        )
    )


def _unknown(name: str) -> UsageError:
    known = (*PACKAGE_FORMATS, ALL)
    page = f"the formats are described in the {guide('add-to-a-firmware-project')}"
    return UsageError(
        "usage-060",
        f"there is no package format {name!r}" if name else "no package format is named",
        where="--package",
        why=f"the formats are {', '.join(known)}",
        help=did_you_mean(name.lower().replace("_", "-"), known) + page,
    )


# Notices about packages whose chips do not run the kernels of the target.


# A target whose kernels are plain C, with enough memory for any model.
PORTABLE_TARGET = "cortex-m4-portable"


def notices(
    formats: Sequence[PackageFormat], target: Target, *, is_board: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield what, why and help for each format whose chips have cores other than the target's.

    is_board: the target is a board, which settles the core where a format serves several."""
    if target.core is None:
        return
    is_plain_c = all(core_family(engine.kernels).is_plain_c for engine in target.engines)
    for format in formats:
        if is_plain_c:
            if not format.serves_arm:
                yield (
                    f"the {format.name} package runs on other cores than {target.core}",
                    f"{format.other_cores}; cycles and times of the report are those of "
                    f"{target.core}",
                    "measure the time on the chip; RAM and constants are as reported",
                )
        elif format.other_cores and not (format.serves_arm and is_board):
            yield (
                f"the {format.name} package contains kernels for {target.core}, but "
                f"{format.other_cores}",
                "other cores run equivalent C instead: the same results, but other cycles than in "
                "the report",
                f"for such a chip, use --target {PORTABLE_TARGET}",
            )
