"""Builds the wheel, installs it away from the checkout, and compiles a model with it.

An editable install stays green when the wheel forgets a package, a data file or a dependency.
This check sees such a fault: it builds the source distribution and from that the wheel, adds the
kernels that this checkout has compiled (or has them compiled, where it has none), installs the
wheel with its declared dependencies alone (in the versions of `requirements.lock`) into a fresh
virtual environment, and works from an empty folder outside the checkout. The plug-in of
`tests/acme_passes` is built, installed beside it, and used through the command line.

Run with the interpreter of `.venv`; exits 1 at the first step that fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from build_wheel import with_kernels
from wheel_kernels.repacking import platform_tag

from mcm_compiler.processes.kernel_folders import PACKAGES, PREFIX

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
_LOCATE = """\
import importlib, json, pathlib, sys
found = {}
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    found[name] = [package.__file__, pathlib.Path(package.__file__).with_name("py.typed").is_file()]
print(json.dumps(found))
"""


class CheckFailedError(Exception):
    """A step did not do what it should; the text says which and what came out."""


def run(*command: str | Path, cwd: Path) -> str:
    """Runs `command` in `cwd` and returns its standard output.

    Raises:
        CheckFailedError: if it exits with another status than 0.
    """
    words = [str(word) for word in command]
    print("$", " ".join(words[:1] + [word if "\n" not in word else "..." for word in words[1:]]))
    # PYTHONPATH could lead back into the checkout.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CheckFailedError(
            f"{words[0]} exits with {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def built_wheel(source: Path, dist: Path) -> Path:
    """Builds the wheel of the project in `source`, by way of its source distribution."""
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, source)
    run(*build, cwd=dist)
    (wheel,) = dist.glob("*.whl")
    return wheel


def platform_wheel(plain: Path, folder: Path) -> tuple[Path, int]:
    """The wheel with kernels, and how many; those of the checkout, if it has compiled any."""
    wheel, count = with_kernels(plain, folder, ROOT, platform_tag())
    if not count:
        wheel, count = with_kernels(plain, folder, None, platform_tag())
    return wheel, count


def check_kernels(mcmc: Path, folder: Path, shipped: int) -> None:
    """The kernels of the wheel are in use, and the compiles before needed few others."""
    told = json.loads(run(mcmc, "version", "--format", "json", cwd=folder))["kernels"]
    if not told.startswith(f"{shipped} that came compiled"):
        raise CheckFailedError(f"the wheel has {shipped} kernels, and mcmc version says: {told}")
    added = list(mcmc.parent.parent.rglob("*.nbc"))
    print(f"  {told}; compiled in addition: {len(added)}")
    if len(added) > shipped // 4:
        raise CheckFailedError(
            f"{len(added)} kernels were compiled beside the {shipped} of the wheel"
        )
    folders = {path.parent.name for path in added}
    if len(folders) > 1 or not all(name.startswith(PREFIX) for name in folders):
        raise CheckFailedError(f"kernels lie in {folders}, not in the folder of the installation")


def check_packages(python: Path, folder: Path) -> None:
    """All four packages come from the fresh environment and carry their type marker."""
    site = python.parent.parent.resolve()
    located = json.loads(run(python, "-c", _LOCATE, *PACKAGES, cwd=folder))
    for name, (file, typed) in located.items():
        if not Path(file).resolve().is_relative_to(site):
            raise CheckFailedError(f"{name} comes from {file}, not from the wheel")
        if not typed:
            raise CheckFailedError(f"{name} has no py.typed in the wheel")


def check_compile(mcmc: Path, folder: Path) -> None:
    """Every built-in target loads; a zoo model compiles, also by the trained policy, and checks."""
    run(mcmc, "targets", cwd=folder)
    run(mcmc, "passes", cwd=folder)
    run(mcmc, "zoo", "resnet50", "-o", "model.onnx", cwd=folder)
    # With little search: it runs beside the tests.
    compiled = ("compile", "model.onnx", "--target", "mcm36", "-O1", "-o", "compiled")
    report = json.loads(run(mcmc, *compiled, "--format", "json", cwd=folder))
    print(f"  {report['throughput_per_s']:.1f} inferences/s, gap {report['gap']:.2%}")
    run(mcmc, "check", "compiled", cwd=folder)
    run(mcmc, "simulate", "compiled", cwd=folder)
    learned = ("--partitioner", "rl-zeroshot", "--samples", "200", "-o", "zero_shot")
    run(mcmc, "compile", "model.onnx", *learned, cwd=folder)


def check_plugin(mcmc: Path, folder: Path) -> None:
    """The installed plug-in's pass, strategy and target work through the command line."""
    run(mcmc, "opt", "model.onnx", "--passes", "acme_drop_identity,simplify", cwd=folder)
    target = ("--target", "acme8", "--partitioner", "acme_even")
    run(mcmc, "compile", "model.onnx", *target, "-o", "with_plugin", cwd=folder)
    run(mcmc, "check", "with_plugin", cwd=folder)


def main() -> int:
    """The command line."""
    if hasattr(os, "sched_setaffinity"):
        # It runs beside the tests: on one core no second process compiles kernels ahead of it.
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(prefix="mcm-wheel-") as name:
        folder = Path(name)
        for part in ("dist", "acme", "empty"):
            (folder / part).mkdir()
        try:
            plain = built_wheel(ROOT, folder / "dist")
            wheel, shipped = platform_wheel(plain, folder)
            plugin = built_wheel(ROOT / "tests" / "acme_passes", folder / "acme")
            venv.create(folder / "venv", with_pip=False)
            python = folder / "venv" / SCRIPTS / "python"
            pip = (sys.executable, "-m", "pip", "--python", python)
            install = (*pip, "install", "--quiet", "--disable-pip-version-check")
            run(*install, wheel, "--constraint", ROOT / "requirements.lock", cwd=folder)
            check_packages(python, folder / "empty")
            check_compile(python.with_name("mcmc"), folder / "empty")
            check_kernels(python.with_name("mcmc"), folder / "empty", shipped)
            run(*install, "--no-deps", plugin, cwd=folder)
            check_plugin(python.with_name("mcmc"), folder / "empty")
        except CheckFailedError as failure:
            print(f"the wheel does not work: {failure}", file=sys.stderr)
            return 1
    print("the wheel works from an empty folder")
    return 0


if __name__ == "__main__":
    sys.exit(main())
