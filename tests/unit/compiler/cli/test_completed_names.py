"""What is offered for words that are being typed, as bash asks for it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.registry import STRATEGIES, ZOO

BREAKS = " \t\n\"'><=;|&(:"
HEAVY = ("onnx", "onnx_ir", "onnxruntime", "numpy", "numba", "rich", "jax", "mcm_passes")


def _asked(line: str, breaks: str = BREAKS) -> Any:
    env = {"COMP_WORDS": line, "COMP_CWORD": breaks, "_MCMC_COMPLETE": "bash_complete"}
    return CliRunner().invoke(cli, [], env=env)


def _offered(line: str, breaks: str = BREAKS) -> list[str]:
    result = _asked(line, breaks)
    assert result.stderr == ""
    return result.stdout.strip("\n").splitlines()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("mcmc compi", ["plain,compile"]),
        ("mcmc targets sh", ["plain,show"]),
        ("mcmc targets show mcm36-s", ["plain,mcm36-shared", "plain,mcm36-small",
                                       "plain,mcm36-stream", "file,mcm36-s"]),
        ("mcmc compile a.onnx --targ", ["plain,--target"]),
        ("mcmc compile a.onnx --target mcm1", ["plain,mcm16", "file,mcm1"]),
        ("mcmc compile a.onnx --target=mcm1", ["plain,mcm16", "file,mcm1"]),
        ("mcmc compile a.onnx --partitioner multi", ["plain,multilevel"]),
        ("mcmc partition p.json --partitioner multi", ["plain,multilevel"]),
        ("mcmc partition p.json --cost device-p", ["plain,device-placement"]),
        ("mcmc compile a.onnx --cost-model roof", ["plain,roofline"]),
        ("mcmc compile a.onnx --planner auto", ["plain,auto-map", "plain,auto-map-dqn"]),
        ("mcmc parallelize a.onnx --planner auto", ["plain,auto-map", "plain,auto-map-dqn"]),
        ("mcmc compile a.onnx -O ", ["plain,0", "plain,1", "plain,2", "plain,3", "file,"]),
        ("mcmc opt a.onnx --passes simplify,fu", ["plain,simplify,fuse"]),
        ("mcmc opt a.onnx --passes onnx", ["plain,onnx_ir."]),
        ("mcmc opt a.onnx --print-after al", ["plain,all"]),
        ("mcmc compile a.onnx --routing ", ["plain,relay", "plain,strict"]),
        ("mcmc train pol", ["plain,policy"]),
        ("mcmc zoo mobi", ["plain,mobilenet-v2"]),
        ("mcmc explain mcm-u023", ["plain,MCM-U023"]),
        ("mcmc compile ", ["file,"]),
        ("mcmc nonsens", []),
        ("mcmc completion ", ["plain,bash", "plain,zsh", "plain,fish"]),
    ],
)  # fmt: skip
def test_each_place_offers_what_may_stand_there(line: str, offered: list[str]) -> None:
    assert _offered(line) == offered


def test_models_of_the_zoo_stand_where_a_model_may() -> None:
    assert _offered("mcmc compile zoo:mobi") == ["plain,mobilenet-v2"]
    assert _offered("mcmc compile zoo:mobi", breaks=" ") == ["plain,zoo:mobilenet-v2"]
    assert "plain,zoo:bert" in _offered("mcmc check out --model zo", breaks=" ")
    count = len(ZOO.names_at_hand())
    assert len(_offered("mcmc parallelize z")) == count + 1  # files that begin with z, too


def test_a_collection_is_loaded_when_its_prefix_has_been_typed() -> None:
    found = _offered("mcmc opt a.onnx --passes simplify,onnx_ir.RemoveUnusedN")
    assert found == ["plain,simplify,onnx_ir.RemoveUnusedNodesPass"]


def test_all_names_are_those_that_a_registry_knows() -> None:
    offered = _offered("mcmc compile a.onnx --partitioner ")
    known = [f"plain,{found.name}" for found in STRATEGIES.registrations()]
    assert offered == known


@pytest.mark.parametrize(
    "line", ["mcmc ", "mcmc compile zoo:b", "mcmc compile a --passes s", "mcmc train "]
)
def test_nothing_heavy_is_imported_to_answer(line: str) -> None:
    code = (
        "import os, sys\n"
        f"os.environ.update(COMP_WORDS={line!r}, COMP_CWORD=' ', _MCMC_COMPLETE='bash_complete')\n"
        "from mcm_compiler.cli.main import main\n"
        "sys.argv = ['mcmc']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"loaded = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "plain," in done.stdout
