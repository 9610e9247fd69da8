"""Every golden case gives what its file says; see tools/update_goldens.py."""

from __future__ import annotations

import pytest

from tools.update_goldens import GoldenCase, cases, read_case

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=[case.path.stem for case in CASES])
def test_golden(case: GoldenCase) -> None:
    assert case.actual() == case.expected


def test_there_are_cases() -> None:
    assert len(CASES) >= 8


def test_rewriting_keeps_what_is_given(tmp_path) -> None:
    path = tmp_path / "case.golden"
    path.write_text(CASES[0].given)
    rewritten = read_case(path).rewritten()
    assert rewritten.startswith(CASES[0].given)
    assert rewritten == CASES[0].given + "// expected\n" + CASES[0].expected


def test_a_case_without_passes_is_refused(tmp_path) -> None:
    path = tmp_path / "case.golden"
    path.write_text("agraph (float[1] x) => (float[1] y) { y = Relu(x) }\n")
    with pytest.raises(ValueError, match="no line"):
        read_case(path)
