"""Manifests follow the published rules of each build system, whatever a model is called.

Rules are checked by the build system's own reader where a registry has it.  Otherwise, they are
stated here with their source."""

from __future__ import annotations

import io
import json
import re
import tomllib
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from build_tools import need_module
from deliveries import Delivered, model_delivery, program_delivery

from command_line import CommandLine
from penstock.codegen.bundle import MANIFEST, Bundle
from penstock.codegen.c_text import prefix
from penstock.codegen.packages.formats import PACKAGE_FORMATS, chosen_formats, packaged
from penstock.toolchains.compiler import Optimise

FORMATS = tuple(PACKAGE_FORMATS)
NAMES = (
    "kws", "int", "core", "Arduino", "3x3", "l'\u00e9t\u00e9 \"x\"", "\u6a21\u578b", "-o",
    "x" * 200, "$(shell x)",
)  # fmt: skip
PROVENANCE = 'a "b" <c> & \\ \n]]> $(x) %s {{ y }} \u6a21 */, for # cortex'
SEMANTIC_VERSION = r"\d+\.\d+\.\d+"
RUST_WORDS = frozenset(("fn", "self", "super", "crate", "core", "std", "alloc", "test"))


@cache
def package(name: str, format: str) -> Bundle:
    """The package of a model with a name, and with a provenance that needs escapes."""
    given = program_delivery("row tables", prefix(name)).delivery
    return PACKAGE_FORMATS[format].pack(replace(given, provenance=PROVENANCE))


def text_of(bundle: Bundle, ending: str) -> str:
    """The text of the only file with that ending."""
    (content,) = (content for name, content in bundle.files if name.endswith(ending))
    return content.decode()


@pytest.mark.parametrize("name", NAMES)
def test_arduino(name: str) -> None:
    """Source: Arduino library specification, sections "library.properties" and "keywords.txt"."""
    bundle = package(name, "arduino")
    lines = text_of(bundle, "library.properties").splitlines()
    facts = dict(line.split("=", 1) for line in lines)
    assert len(facts) == len(lines)
    required = "name version author maintainer sentence paragraph category url architectures"
    assert all(facts[field] for field in required.split())
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,62}", facts["name"])
    assert not facts["name"].lower().startswith("arduino")
    assert re.fullmatch(SEMANTIC_VERSION, facts["version"])
    assert facts["category"] == "Data Processing"
    assert facts["includes"].lower() != "arduino.h"
    assert f"src/{facts['includes']}" in dict(bundle.files)
    (sketch,) = (Path(path) for path, _ in bundle.files if path.endswith(".ino"))
    assert sketch.parts[0] == "examples"
    assert sketch.stem == sketch.parent.name
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", sketch.stem)
    for line in text_of(bundle, "keywords.txt").splitlines():
        assert re.fullmatch(r"\w+\t(KEYWORD1|KEYWORD2|LITERAL1)", line)


@pytest.mark.parametrize("name", NAMES)
def test_platformio(name: str) -> None:
    need_module("platformio")
    from platformio.package.manifest.parser import ManifestParserFactory  # pyright: ignore
    from platformio.package.manifest.schema import ManifestSchema  # pyright: ignore

    bundle = package(name, "platformio")
    text = text_of(bundle, "library.json")
    parsed = ManifestParserFactory.new(text, "library.json").as_dict()
    manifest = ManifestSchema().load_manifest(parsed)
    assert manifest["name"] == prefix(name)
    assert f"include/{manifest['headers'][0]}" in dict(bundle.files)
    (example,) = json.loads(text)["examples"]
    assert all(f"{example['base']}/{file}" in dict(bundle.files) for file in example["files"])


@pytest.mark.parametrize(("optimise", "level"), [("speed", "-O3"), ("size", "-Os")])
def test_platformio_replaces_every_other_level(optimise: Optimise, level: str) -> None:
    """PlatformIO adds `flags` to those of the project, then removes `unflags`."""
    given = replace(program_delivery("row tables").delivery, optimise=optimise)
    manifest = text_of(PACKAGE_FORMATS["platformio"].pack(given), "library.json")
    build = json.loads(manifest)["build"]
    found = ["-Os", "-O2", "-Og", level, *build["flags"]]  # frameworks, debug builds, the library
    assert {flag for flag in found if flag not in build["unflags"]} == {level}


@pytest.mark.parametrize("name", NAMES)
def test_esp_idf(name: str, tmp_path: Path) -> None:
    need_module("idf_component_tools")
    from idf_component_tools.manager import ManifestManager

    bundle = package(name, "esp-idf")
    (tmp_path / "idf_component.yml").write_bytes(bundle["idf_component.yml"])
    manifest = ManifestManager(str(tmp_path), "component").load()
    assert "<c> & \\" in str(manifest.description)
    assert f"/{prefix(name)}.c" in bundle["CMakeLists.txt"].decode()


@pytest.mark.parametrize("name", NAMES)
def test_zephyr(name: str) -> None:
    """Source: scripts/schemas/module-schema.yaml and scripts/schemas/twister/testsuite-schema.yaml
    of Zephyr; Kconfig language, "Menu entries"."""
    need_module("ruamel.yaml")
    from ruamel.yaml import YAML

    bundle = package(name, "zephyr")
    module = YAML(typ="safe").load(bundle["zephyr/module.yml"].decode())
    assert re.fullmatch(r"[A-Za-z0-9_]+", module["name"])
    assert module["build"] == {"cmake": ".", "kconfig": "Kconfig"}
    folders = {path.rpartition("/")[0] for path, _ in bundle.files}
    assert all(any(path.startswith(sample) for path in folders) for sample in module["samples"])
    symbols = re.findall(r"^config (\S+)$", bundle["Kconfig"].decode(), re.MULTILINE)
    assert all(re.fullmatch(r"PENSTOCK_[A-Z0-9_]+", symbol) for symbol in symbols)
    settings = text_of(bundle, "prj.conf")
    assert f"CONFIG_{symbols[0]}=y\n" in settings
    sample = YAML(typ="safe").load(text_of(bundle, "sample.yaml"))
    assert sample["sample"]["name"] == prefix(name)
    assert "\\" in sample["sample"]["description"]
    ((test, facts),) = sample["tests"].items()
    assert re.fullmatch(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+", test)
    assert set(facts) == {"tags", "harness", "harness_config"}
    assert facts["harness_config"]["type"] == "one_line"


@pytest.mark.parametrize("name", NAMES)
def test_cmsis_pack(name: str) -> None:
    """Source: Open-CMSIS-Pack specification, schema/PACK.xsd: the types RestrictedString,
    CvendorType, CidPartType, CsubType, PackVersionType; section "Filename Conventions"."""
    bundle = package(name, "cmsis-pack")
    files = dict(bundle.files)
    root = ElementTree.fromstring(text_of(bundle, ".pdsc"))
    assert {child.tag for child in root} >= {"vendor", "name", "description", "url", "releases"}
    vendor, pack = root.findtext("vendor"), root.findtext("name")
    assert vendor is not None
    assert pack is not None
    assert re.fullmatch(r"[\-_A-Za-z0-9]+", vendor)
    assert re.fullmatch(r"[\-_A-Za-z0-9]+", pack)
    assert "<c> & \\" in (root.findtext("description") or "")
    release = root.find("releases/release")
    assert release is not None
    version = release.attrib["version"]
    assert re.fullmatch(SEMANTIC_VERSION, version)
    component = root.find("components/component")
    assert component is not None
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9\-\s]{1,31}", component.attrib["Cvendor"])
    assert re.fullmatch(r"[A-Za-z0-9_+():/\- .]{1,32}", component.attrib["Csub"])
    for part in ("Cclass", "Cgroup"):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+()'/\-\s.]{1,31}", component.attrib[part])
    listed = {file.attrib["name"]: file.attrib["category"] for file in component.iter("file")}
    assert set(listed.values()) == {"header", "source"}
    archive = zipfile.ZipFile(io.BytesIO(files.pop(f"{vendor}.{pack}.{version}.pack")))
    assert f"{vendor}.{pack}.pdsc" in files
    assert {name: archive.read(name) for name in archive.namelist()} == files
    assert set(listed) < set(files)
    sources = {name for name in files if name.endswith(".c")}
    assert sources == {name for name, category in listed.items() if category == "source"}


@pytest.mark.parametrize("name", NAMES)
def test_rust(name: str) -> None:
    """Source: The Cargo Book, "The Manifest Format"; The Rust Reference, "Keywords"."""
    bundle = package(name, "rust")
    facts = tomllib.loads(bundle["Cargo.toml"].decode())["package"]
    assert re.fullmatch(r"[a-z][a-z0-9_]*", facts["name"])
    assert facts["name"] not in RUST_WORDS
    assert re.fullmatch(SEMANTIC_VERSION, facts["version"])
    assert "<c> & \\" in facts["description"]
    assert f"use {facts['name']} as model;" in bundle["examples/run.rs"].decode()
    assert "#![no_std]" in bundle["src/lib.rs"].decode()


def test_different_models_have_different_components() -> None:
    """Names that differ after 32 characters, too."""
    long = "x" * 38
    names = [f"{long}{k}" for k in range(3)]
    pdsc = [text_of(package(name, "cmsis-pack"), ".pdsc") for name in names]
    assert len({re.search(r'Csub="([^"]+)"', text)[1] for text in pdsc}) == 3  # pyright: ignore


def test_rust_declares_the_functions_of_the_header() -> None:
    """Every function of the header that is not inline, with as many parameters, and no other."""
    for given in (
        model_delivery("two_heads"),
        model_delivery("streaming", stream_input=True),
        program_delivery("three deep, streamed, two memories"),
        program_delivery("row tables"),
    ):
        bundle = PACKAGE_FORMATS["rust"].pack(given.delivery)
        header = bundle[f"c/{given.delivery.header}"].decode()
        declared = re.findall(r"^(?!static|typedef)\w[\w ]*[ *](\w+)\((.*)\);$", header, re.M)
        block = re.search(r'extern "C" \{\n(.*?)\n    \}', bundle["src/lib.rs"].decode(), re.S)
        assert block is not None
        found = re.findall(r"pub fn (\w+)\(([^)]*)\)", block[1])
        counts = {name: sum(":" in part for part in text.split(",")) for name, text in found}
        assert counts == {name: len(text.split(",")) for name, text in declared}
        assert len(counts) >= 2


@pytest.mark.parametrize("format", FORMATS)
def test_a_package_contains_the_files_of_the_bundle_and_is_reproducible(format: str) -> None:
    given: Delivered = model_delivery("two_heads")
    pack = PACKAGE_FORMATS[format].pack
    bundle = pack(given.delivery)
    assert pack(given.delivery) == bundle
    contents = [content for _, content in bundle.files]
    library = [c for name, c in given.delivery.bundle.files if name != "CMakeLists.txt"]
    missing = [c for c in library if c not in contents]
    assert missing in ([], [given.delivery.example])
    assert all(not name.startswith("/") and ".." not in name for name, _ in bundle.files)


def test_every_format_is_listed_in_the_help(penstock: CommandLine) -> None:
    said = "".join(penstock("compile", "--help").out.split())
    assert all(format in said for format in FORMATS)


def test_several_packages_are_in_folders_named_after_them(penstock: CommandLine) -> None:
    model = Path(__file__).parents[1] / "models" / "two_heads.tflite"
    words = ("--package", "zephyr, make", "--package", "make")
    assert penstock("compile", model, *words, "-o", "two").code == 0
    assert {path.name for path in Path("two").iterdir()} == {
        "zephyr", "make", "report.html", "report.json", MANIFEST,
    }  # fmt: skip
    assert penstock("compile", model, "--package", "rust", "-o", "one").code == 0
    assert Path("one/Cargo.toml").is_file()
    given = model_delivery("two_heads").delivery
    every = packaged(given, chosen_formats("all"))
    assert {name.partition("/")[0] for name, _ in every.files} == set(FORMATS)


@pytest.mark.parametrize(
    "name", ["zephir", "ESP_IDF", "", "cmake,", "..", "all/../x", "rust zephyr"]
)
def test_a_wrong_format_is_refused_before_the_work_begins(penstock: CommandLine, name: str) -> None:
    said = penstock("compile", "missing.tflite", "--package", name, "-o", "out")
    assert said.code == 2
    assert said.err.startswith("error[usage-060]: ")
    assert not Path("out").exists()
