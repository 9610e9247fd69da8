"""The tool that checks prose against the style guide."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LONG = "The compiler cuts " + "word " * 33


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("check_prose")


def found(tool, name, text):
    return [tuple(finding) for finding in tool.findings(name, text)]


@pytest.mark.parametrize(
    ("text", "line", "term"),
    [
        ("The report tells it.", 1, "tells"),
        ("It was\nHeld\nagainst the model.", 2, "Held against"),
        ("| a | mended |", 1, "mended"),
        ("- weights\n- (beside others)", 2, "beside"),
        ("# The house", 1, "house"),
        ("They wait for good, always.", 1, "for good"),
        ("It takes some 20 s.", 1, "some 20"),
        ("**What to do:** Make `it\nor that` so\nmany times.", 2, "so many"),
    ],
)
def test_a_term_that_has_a_better_one(tool, text, line, term):
    ((place, message),) = found(tool, "page.md", text)
    word, better = message.split(": ")
    assert (place, word) == (line, f"'{term}'")
    assert better in tool.TERMS.values()


@pytest.mark.parametrize(
    "text",
    [
        "The option `tells=1` and ``a room`` [link](beside.md) <a href='house'> https://x.org/judge",
        "```\n$ mcmc tells beside\n```\n",
        "An example:\n\n    mcmc tells beside\n    mend it\n\nIt works.\n",
        "judge_search, retold, besides, for good reasons, amends, becomes total, roomy, some way",
    ],
)
def test_code_and_other_words_are_left_alone(tool, text):
    assert found(tool, "page.md", text) == []


def test_terms_that_docstrings_may_have_and_pages_not(tool):
    for text in ("They run side by side.", "It is played.", "Boxes are hosts."):
        assert len(found(tool, "page.md", text)) == 1
        assert found(tool, "m.py", f'"""{text}"""') == []
    assert found(tool, "page.md", "It chooses bounding boxes of `box` and box-2gpu.") == []


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("page.md", f"# Title\n\nShort. {LONG}.\n", 3),
        ("page.md", f"- item\n- {LONG}\n", 2),
        ("page.md", f"| a | {LONG} |\n", 1),
        ("module.py", f'"""Title.\n\n{LONG}.\n"""\n', 3),
        ("module.py", f'def f():\n    """Title.\n\n    Args:\n        a: {LONG}.\n    """\n', 5),
    ],
)
def test_a_sentence_that_is_too_long(tool, name, text, line):
    assert found(tool, name, text) == [(line, "sentence of 36 words: 35 at most")]
    assert found(tool, name, text.replace(LONG, LONG.replace(" word", "", 1))) == []


def test_sentences_end_at_items_cells_entries_and_code(tool):
    half = "word " * 20
    assert found(tool, "page.md", f"{half}\n- {half}\n\n{half}\n```\n{half}\n```\n{half}\n") == []
    assert found(tool, "page.md", f"| {half} | {half} |\n| {half} | {half} |\n") == []
    assert found(tool, "page.md", f"{half} ideal. {half}\n") == []
    assert len(found(tool, "page.md", f"{half} et al. 2020, {half}\n")) == 1
    entries = f"        a: {half}\n            and\n        *b, c: {half}\n"
    assert found(tool, "m.py", f'def f():\n    """{half}.\n\n    Args:\n{entries}    """\n') == []


def test_a_page_has_a_limit_of_words_by_its_folder(tool):
    text = "# Title\n\n" + "Short words.\n\n" * 300
    assert found(tool, "docs/how-to/page.md", text) == [(1, "page of 601 words: 600 at most")]
    assert found(tool, "docs/reference/page.md", text) == []
    assert found(tool, "docs/how-to/page.md", text.replace("# Title", "# `a`", 1)) != []
    assert found(tool, "docs/how-to/page.md", text.removeprefix("# Title")) == []
    left_out = (
        "| a | table |\n\n![a picture](a.svg)\n\n```\nsome code\n```\n\n"
        "    more code\n\n<!-- begin rows -->\nwritten\n<!-- end rows -->\n"
        "<!-- rows:begin -->\nwritten\n<!-- rows:end -->\n"
    )
    assert found(tool, "docs/how-to/page.md", text.removeprefix("# Title") + left_out) == []


@pytest.mark.parametrize("opening", ["What", "Whether", "Who", "Whom"])
def test_a_docstring_that_opens_with_a_clause(tool, opening):
    text = (
        f'A = 1\n"""{opening} it is."""\nclass B:\n    def c(self):\n        "{opening} it is."\n'
    )
    better = f"docstring opens with '{opening}'"
    assert [(n, t.partition(":")[0]) for n, t in found(tool, "m.py", text) if "opens" in t] == [
        (2, better),
        (5, better),
    ]


def test_numbers_of_findings_only_fall(tool, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "RATCHET", tmp_path / "prose.json")
    (tmp_path / "prose.json").write_text('{"README.md": 1, "docs/gone.md": 3}')
    readme = tmp_path / "README.md"
    readme.write_text("It tells.\n")
    assert tool.main([]) == 0
    readme.write_text("It tells.\n\nIt lies there.\n")
    for arguments in ([], ["--update"]):
        assert tool.main(arguments) == 1
        printed = capsys.readouterr().out
        assert "README.md:3: 'lies': is (in)" in printed
        assert "README.md: 2 findings, 1 allowed" in printed
    assert json.loads((tmp_path / "prose.json").read_text())["README.md"] == 1
    (tmp_path / "CONTRIBUTING.md").write_text("Beside.\n")
    readme.write_text("Fine.\n")
    assert tool.main([]) == 1
    assert tool.main(["--update", "--allow-raise"]) == 0
    assert json.loads((tmp_path / "prose.json").read_text()) == {"CONTRIBUTING.md": 1}
    assert tool.main([]) == 0
