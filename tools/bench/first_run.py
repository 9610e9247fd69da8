"""What the first compile after an installation costs, against a later one, and what is installed.

The wheel of this platform is built and installed into a fresh virtual environment with an empty
home. Nothing is downloaded: what it depends on is read from the environment that runs the
benchmark, by a path file in the fresh one; only the wheel itself lies there.

`first_beyond_warm_cpu_s` is user and system time of the first `mcmc compile` of a ResNet-50 beyond
the median of later ones, `read_only_beyond_warm_cpu_s` the same with an installation that cannot be
written, by a user who is not root. `warm_cpu_s` is the median itself. `site_packages_mib` adds up
the files of pip, setuptools, the project and all that it requires without extras, in blocks of 4
KiB, as `du` does. Under `--quick` kernels come from this checkout, else they are compiled for it.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from harness.bars import Bar, median_bar
from harness.children import ChildFailedError
from harness.command_line import Settings, run_script

ROOT = Path(__file__).resolve().parents[2]
BLOCK = 4096
STRANGER = 54_321
"""A number that no user of the machine has."""


def measure(settings: Settings) -> list[Bar]:
    """All bars; the read-only one where the benchmark runs as root and can become another user."""
    with tempfile.TemporaryDirectory(prefix="mcm-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        mcmc = _installed(folder, quick=settings.quick)
        run_cpu_s([str(mcmc), "zoo", "resnet50", "-o", str(folder / "net.onnx")], folder)
        bars = [_size_bar(folder)]
        first = _compile_cpu_s(mcmc, folder, "first", ())
        warm = [_compile_cpu_s(mcmc, folder, "first", ()) for _ in range(settings.repetitions)]
        usual = statistics.median(warm)
        bars += [
            median_bar("first_beyond_warm_cpu_s", [first - usual], 8.0),
            median_bar("warm_cpu_s", warm, 3.0),
        ]
        stranger = _stranger()
        if stranger:
            subprocess.run(["chmod", "-R", "a-w", str(folder / "venv")], check=True)
            read_only = _compile_cpu_s(mcmc, folder, "stranger", stranger)
            bars.append(median_bar("read_only_beyond_warm_cpu_s", [read_only - usual], 8.0))
            subprocess.run(["chmod", "-R", "u+w", str(folder / "venv")], check=True)
    return bars


def run_cpu_s(words: Sequence[str], folder: Path, home: Path | None = None) -> float:
    """User and system seconds of a command and all processes that it has waited for.

    Raises:
        ChildFailedError: if it fails.
    """
    environment = {"PATH": os.environ["PATH"], "HOME": str(home or folder)}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise ChildFailedError(f"'{' '.join(words)}' fails\n{output.read()}")
    return usage.ru_utime + usage.ru_stime


def _compile_cpu_s(mcmc: Path, folder: Path, name: str, before: Sequence[str]) -> float:
    """A compile with a home and an output folder of its own."""
    place = folder / name
    if not place.exists():
        (place / "home").mkdir(parents=True)
        if before:
            for each in (place, place / "home"):
                os.chown(each, STRANGER, STRANGER)
    model = ("compile", str(folder / "net.onnx"), "--target", "mcm36")
    words = [*before, str(mcmc), *model, "-o", str(place / "out"), "--force"]
    return run_cpu_s(words, place, place / "home")


def _installed(folder: Path, *, quick: bool) -> Path:
    """The command line of a fresh environment that the wheel is installed in."""
    kernels = ("--kernels-from", str(ROOT)) if quick else ()
    dist = folder / "dist"
    build = (sys.executable, str(ROOT / "tools" / "build_wheel.py"), "--outdir", str(dist))
    subprocess.run([*build, *kernels], check=True, capture_output=True)
    (wheel,) = dist.glob("*.whl")
    venv.create(folder / "venv")
    python = folder / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet")
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.with_name("mcmc")


def _stranger() -> Sequence[str]:
    """What runs a command as somebody else who may read all; empty where that cannot be."""
    setpriv = shutil.which("setpriv")
    if setpriv is None or os.geteuid() != 0:
        return ()
    reads = "dac_read_search"
    return (
        *(setpriv, f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"),
        *(f"--inh-caps=-all,+{reads}", f"--ambient-caps=-all,+{reads}"),
    )


def _size_bar(folder: Path) -> Bar:
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    own = sum(_blocks(path) for path in site.rglob("*"))
    (wheel,) = importlib.metadata.distributions(path=[str(site)], name="mcm-compiler")
    others = sum(_distribution_bytes(name) for name in required_names(wheel))
    return median_bar("site_packages_mib", [(own + others) / 2**20], 700.0)


def required_names(distribution: importlib.metadata.Distribution) -> set[str]:
    """What a distribution requires without extras, all the way, and pip and setuptools."""
    found = {"pip", "setuptools"}
    waiting = [distribution]
    while waiting:
        for line in waiting.pop().requires or ():
            requirement, _, marker = line.partition(";")
            match = re.match(r"[A-Za-z0-9._-]+", requirement)
            needed = match[0].lower().replace("_", "-") if match else ""
            # A marker is for an extra, or for another Python or system.
            if needed and needed not in found and not marker.strip() and _is_installed(needed):
                found.add(needed)
                waiting.append(importlib.metadata.distribution(needed))
    return found


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _distribution_bytes(name: str) -> int:
    """Bytes of the files of a distribution, bytecode included where it was installed."""
    files = importlib.metadata.files(name) or ()
    paths = {Path(str(file.locate())) for file in files}
    return sum(_blocks(path) for path in paths | {path.parent for path in paths})


def _blocks(path: Path) -> int:
    """What a file or folder takes on a disk of blocks of 4 KiB."""
    if not path.exists() or path.is_symlink():
        return 0
    return -(-path.stat().st_size // BLOCK) * BLOCK


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
