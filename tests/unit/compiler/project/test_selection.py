"""Patterns of files."""

from __future__ import annotations

import time

import pytest

from mcm_compiler.project.selection import fits


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.onnx", ["a.onnx", ".onnx"], ["a/b.onnx", "a.onnxx", "a.ONNX"]),
        ("**/*.onnx", ["a.onnx", "a/b.onnx", "a/b/c.onnx"], ["a.onnx/b"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "b/a/c", "ab/c"]),
        ("a/**/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "ab"]),
        ("a?.onnx", ["ab.onnx"], ["a.onnx", "a/.onnx"]),
        ("[ab]x", ["ax", "bx"], ["cx", "[ab]x"]),
        ("[!ab]x", ["cx"], ["ax", "/x"]),
        ("[]x]", ["]", "x"], ["y"]),
        ("[z-a]x", [], ["zx", "ax", "[z-a]x"]),
        ("[", ["["], ["a"]),
        ("a+(b).onnx", ["a+(b).onnx"], ["aab.onnx"]),
        ("[\\d^]", ["\\", "d", "^"], ["1"]),
    ],
)
def test_what_matches(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [name for name in yes if not fits(name, pattern)] == []
    assert [name for name in no if fits(name, pattern)] == []


def test_many_depths_in_a_row_take_no_longer() -> None:
    start = time.process_time()
    assert not fits("a/" * 200, "**/" * 30 + "b")
    assert time.process_time() - start < 1.0
