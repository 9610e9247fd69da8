"""The boxes that come with the compiler; their descriptions are packaged TOML files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from mcm_hardware.families.box.box_package import BoxPackage


@cache
def _box(name: str) -> BoxPackage:
    folder = files("mcm_hardware.families.box") / "targets"
    return BoxPackage.from_text(name, (folder / f"{name}.toml").read_text(encoding="utf-8"))


def box_cpu_gpu() -> BoxPackage:
    """1 CPU and 1 GPU like a K40."""
    return _box("box-cpu-gpu")


def box_2gpu() -> BoxPackage:
    """1 CPU and 2 GPUs like a K40, after Mirhoseini et al. 2018."""
    return _box("box-2gpu")


def box_4gpu() -> BoxPackage:
    """1 CPU and 4 GPUs like a K40."""
    return _box("box-4gpu")


def box_8gpu() -> BoxPackage:
    """1 CPU and 8 GPUs like a K40."""
    return _box("box-8gpu")


def box_2gpu_h100() -> BoxPackage:
    """1 CPU and 2 GPUs like an H100, with NVLink."""
    return _box("box-2gpu-h100")


def box_4gpu_h100() -> BoxPackage:
    """1 CPU and 4 GPUs like an H100."""
    return _box("box-4gpu-h100")


def box_8gpu_h100() -> BoxPackage:
    """1 CPU and 8 GPUs like an H100."""
    return _box("box-8gpu-h100")


def box_4core() -> BoxPackage:
    """4 cores of a desktop, each of which runs ops of its own."""
    return _box("box-4core")
