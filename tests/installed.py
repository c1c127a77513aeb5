"""Creates installed packages in a folder of sys.path: metadata with an entry point, and modules."""

from __future__ import annotations

from pathlib import Path


def install(
    folder: Path, package: str, version: str, name: str, value: str, **modules: str
) -> None:
    """Installs a package with accelerator `name`; `modules`: source texts by module name."""
    info = folder / f"{package.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    (info / "METADATA").write_text(metadata, "utf-8")
    (info / "entry_points.txt").write_text(f"[penstock.backends]\n{name} = {value}\n", "utf-8")
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source, "utf-8")
