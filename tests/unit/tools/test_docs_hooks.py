"""What the site has besides the pages: the API, and files of the repository that pages link to."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import mcm_compiler

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def hooks() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "docs_hooks.py"))


@pytest.fixture(scope="module")
def contracts(hooks: dict[str, Any]) -> str:
    """The text with the contracts, for which all modules are read."""
    return hooks["contracts"]()


def test_all_that_is_exported_is_on_one_of_the_pages(hooks: dict[str, Any], contracts: str) -> None:
    listed = {line.rpartition(".")[2] for line in contracts.splitlines() if line.startswith(":::")}
    face = hooks["face"]()
    listed |= set(re.findall(r"^      heading: (\w+)$", face, flags=re.MULTILINE))
    for module, name in re.findall(r"^::: ([\w.]+)\.(\w+)$", face, flags=re.MULTILINE):
        assert hasattr(importlib.import_module(module), name)
    assert set(mcm_compiler.__all__) - listed == {"__version__"}


def test_of_classes_with_one_name_the_contract_is_listed(
    hooks: dict[str, Any], contracts: str
) -> None:
    directives = [line for line in contracts.splitlines() if line.startswith(":::")]
    assert len(directives) == sum(map(len, hooks["CONTRACTS"].values()))
    homes = {line.rpartition(".")[2]: line.rpartition(".")[0] for line in directives}
    assert homes["Outcome"] == homes["PartitionStrategy"]


def test_links_out_of_the_documents_become_links_within_the_site(hooks: dict[str, Any]) -> None:
    text = "[a](../../tools/lock.py) [b](../reference/api.md#x) [c](../../CONTRIBUTING.md)"
    assert hooks["_relinked"]("how-to/recipes.md", text) == (
        "[a](../sources/tools/lock.py.md) [b](../reference/api.md#x) [c](../contributing.md)"
    )
    assert hooks["_relinked"]("how-to/recipes.md", "[d](no.md)") == "[d](no.md)"
