"""The packages that come with the plug-in."""

from __future__ import annotations

from importlib import resources

from acme_mesh.package import MeshPackage


def _packaged(name: str) -> MeshPackage:
    text = resources.files("acme_mesh").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return MeshPackage.from_text(name, text)


def mesh16() -> MeshPackage:
    """A mesh of 4 by 4 chips."""
    return _packaged("acme-mesh16")


def mesh36() -> MeshPackage:
    """A mesh of 6 by 6 chips with the numbers of `mcm36`."""
    return _packaged("acme-mesh36")
