"""Builds a wheel for this platform and Python that brings its kernels compiled.

The plain wheel is built first and unpacked. Commands that reach the kernels of most compiles run
from there, and what numba has compiled for them goes into one file of a second wheel, which is
tagged for this platform and pins the numba that compiled it. `--kernels-from` takes them from a
tree that has compiled them already, such as a checkout in which tests have run. It is for checks:
numba does not see that a kernel was changed which another one calls, so a tree that was worked in
may hold stale ones.

    python tools/build_wheel.py --outdir dist
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from wheel_kernels.filling import fill
from wheel_kernels.harvest import harvested, made_here
from wheel_kernels.repacking import platform_tag, repacked, unpacked

from mcm_compiler.processes.kernel_archive import archive_bytes
from mcm_compiler.processes.kernel_folders import PACKAGES

ROOT = Path(__file__).resolve().parent.parent

HOMES = {
    "mcm_compiler": ".",
    "mcm_passes": "passes",
    "mcm_hardware": "hardware",
    "mcm_models": "models",
}
"""Where a checkout has the import packages."""


def plain_wheel(source: Path, folder: Path) -> Path:
    """Builds the wheel that fits every platform, into an empty folder."""
    build = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir")
    subprocess.run([*build, str(folder), str(source)], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def with_kernels(wheel: Path, outdir: Path, tree: Path | None, tag: str) -> tuple[Path, int]:
    """Writes the wheel with kernels; returns it, and how many it has.

    Args:
        wheel: the plain one.
        outdir: where the new one goes.
        tree: where kernels are taken from; None to have them compiled.
        tag: of the platform.
    """
    made_for = made_here()
    with tempfile.TemporaryDirectory(prefix="mcm-kernels-") as name:
        staging = Path(name).resolve()
        unpacked(wheel, staging)
        homes = dict.fromkeys(PACKAGES, staging)
        if tree is None:
            fill(staging)
        else:
            homes = {package: tree / home for package, home in HOMES.items()}
        found = harvested([homes[package] / package for package in PACKAGES], made_for)
        # What a checkout has compiled from a file that the wheel has otherwise is of no use.
        found = {member: each for member, each in found.items() if of_wheel(staging, member)}
    data = archive_bytes(made_for, found)
    made = repacked(wheel, outdir, data, tag, made_for)
    return made, sum(map(len, found.values()))


def of_wheel(staging: Path, member: str) -> bool:
    """Whether kernels were compiled from a file as the unpacked wheel has it."""
    folder, _, name = member.rpartition("/")
    source = staging / folder / f"{name.partition('.')[0]}.py"
    return source.is_file() and member.endswith(sha256(source.read_bytes()).hexdigest())


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--outdir", type=Path, default=ROOT / "dist")
    parser.add_argument("--wheel", type=Path, help="a plain wheel that is built already")
    parser.add_argument("--kernels-from", type=Path, help="a checkout that has compiled them")
    parser.add_argument("--platform-tag", default=platform_tag(), help="default: %(default)s")
    asked = parser.parse_args()
    asked.outdir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mcm-plain-") as name:
        wheel = asked.wheel or plain_wheel(ROOT, Path(name))
        made, count = with_kernels(wheel, asked.outdir, asked.kernels_from, asked.platform_tag)
    if not count:
        print("no kernels were found", file=sys.stderr)
        return 1
    print(f"{made} with {count} kernels, {os.stat(made).st_size / 2**20:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
