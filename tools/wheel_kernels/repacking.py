"""A plain wheel made into one of a platform, with a file of kernels in it."""

from __future__ import annotations

import base64
import hashlib
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from pathlib import Path

from mcm_compiler.processes.kernel_archive import ARCHIVE

PLAIN_TAG = "py3-none-any"

OLDEST = (1980, 1, 1, 0, 0, 0)
"""Time of what is added: the same input makes the same bytes."""


def platform_tag() -> str:
    """The tag of this platform, such as `linux_x86_64`."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def python_tag() -> str:
    """The tag of this interpreter, such as `cp311`."""
    return f"cp{sys.version_info[0]}{sys.version_info[1]}"


def unpacked(wheel: Path, folder: Path) -> None:
    """Writes the content of a wheel that we have built into a folder."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def repacked(
    wheel: Path, outdir: Path, kernels: bytes, platform: str, made_for: Mapping[str, str]
) -> Path:
    """Writes the wheel of a platform and returns its path.

    Args:
        wheel: the plain one.
        outdir: where the new one goes.
        kernels: content of the archive.
        platform: tag of the platform.
        made_for: has the versions of `numba` and `llvmlite` that the new one needs.

    Raises:
        ValueError: if the wheel is not a plain one, or does not ask for numba.
    """
    if not wheel.name.endswith(f"-{PLAIN_TAG}.whl"):
        raise ValueError(f"{wheel.name} is not tagged {PLAIN_TAG}")
    tag = f"{python_tag()}-{python_tag()}-{platform}"
    made = outdir / wheel.name.replace(PLAIN_TAG, tag)
    files: dict[str, bytes] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            files[name] = archive.read(name)
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    folder = record.removesuffix("RECORD")
    files[f"{folder}WHEEL"] = _tagged(files[f"{folder}WHEEL"].decode(), tag).encode()
    files[f"{folder}METADATA"] = _pinned(files[f"{folder}METADATA"].decode(), made_for).encode()
    files[f"mcm_compiler/{ARCHIVE.name}"] = kernels
    files.pop(record)
    rows = [f"{name},{_digest(data)},{len(data)}\n" for name, data in files.items()]
    files[record] = "".join([*rows, f"{record},,\n"]).encode()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, OLDEST)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    return made


def _tagged(text: str, tag: str) -> str:
    lines = [
        line for line in text.splitlines() if not line.startswith(("Tag:", "Root-Is-Purelib:"))
    ]
    return "\n".join([*lines, "Root-Is-Purelib: false", f"Tag: {tag}", ""])


def _pinned(text: str, made_for: Mapping[str, str]) -> str:
    """Metadata that asks for the versions that compiled the kernels."""
    head, blank, body = text.partition("\n\n")
    lines = head.splitlines()
    asked = [line for line in lines if line.startswith("Requires-Dist: numba")]
    if len(asked) != 1:
        raise ValueError("the wheel does not ask for numba in one line")
    at = lines.index(asked[0])
    lines[at : at + 1] = [
        f"Requires-Dist: {name}=={made_for[name]}" for name in ("llvmlite", "numba")
    ]
    return "\n".join(lines) + blank + body


def _digest(data: bytes) -> str:
    text = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={text.decode()}"
