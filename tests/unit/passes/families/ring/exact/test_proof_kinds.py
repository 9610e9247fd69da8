"""Every kind of proof that can be claimed has a check of its own, and is documented."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import mcm_passes
from mcm_compiler.plugin_kinds import installed_entries

ROOT = Path(__file__).parents[6]

OTHER_BOUNDS = {"objectives", "device_placement", "latency_placement"}
"""Packages whose bounds are on other problems."""

OF_REFUSALS = {"no_room"}
"""Proofs that no placement exists, which are claimed by no bound."""

OF_DIVISIONS = {"divisions"}
"""Proofs of the bound over all divisions, which certificates have beside that of the partition."""

OF_EARLIER_RELEASES = {"link_cuts"}
"""Proofs that certificates of earlier releases may have, and no search finds any more."""


def claimed_kinds():
    """The kinds that the source of the passes gives to bounds, found in its syntax trees."""
    kinds = set()
    for package in mcm_passes.__path__:
        for path in sorted(Path(package).rglob("*.py")):
            text = path.read_text("utf-8")
            # Bounds on other objectives have checkers of another kind, and a test of their own.
            # Bounds on placement files are in no certificate.
            other = path.parent.name in OTHER_BOUNDS or "contracts.objectives" in text
            if "LowerBound" in text and not other:
                name = ".".join(path.relative_to(Path(package).parent).with_suffix("").parts)
                kinds |= kinds_in(ast.parse(text), name)
    return kinds


def kinds_in(tree, module):
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        named = [k.value for k in node.keywords if k.arg == "proof"]
        called = ast.unparse(node.func).rpartition(".")[2]
        for given in named + (node.args[2:3] if called == "LowerBound" else []):
            if isinstance(given, ast.Constant):
                found.add(given.value)
            elif isinstance(given, ast.Name):
                found.add(getattr(importlib.import_module(module), given.id))
            elif ast.unparse(given).endswith(".__name__"):
                found |= names_in_loop(tree, ast.unparse(given.value), module)
            else:
                # Passed on from another bound.
                text = ast.unparse(given)
                assert text.endswith(("bound.proof", "given.proof)")), text
    return found


def names_in_loop(tree, over, module):
    (loop,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.For) and ast.unparse(node.target) == over
    )
    if isinstance(loop.iter, ast.Tuple):
        return {name.id for name in loop.iter.elts}
    listed = getattr(importlib.import_module(module), loop.iter.id)
    return {argument.__name__ for argument in listed}


def test_every_kind_of_proof_has_a_check():
    kinds = claimed_kinds()
    assert {"total_work", "windows", "packed_windows", "ideals", "cpsat"} <= kinds
    installed = {entry.name for entry in installed_entries("proof-checker")}
    assert kinds == installed - OF_REFUSALS - OF_DIVISIONS - OF_EARLIER_RELEASES


def test_every_kind_of_proof_is_documented():
    text = (ROOT / "docs" / "explanation" / "proofs.md").read_text("utf-8")
    table = text[text.index("| proof |") :]
    rows = re.findall(r"^\| `(\w+)` \|", table[: table.index("\n\n")], re.MULTILINE)
    assert set(rows) == claimed_kinds()
