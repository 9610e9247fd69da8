"""Untrusted descriptions: what is refused, and the lines that are told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.text.toml_description import (
    MAX_DEPTH,
    MAX_DESCRIPTION_BYTES,
    key_lines,
    parse_description,
    read_description,
)

TEXT = """\
# a comment with [brackets] and key = 1
title = "a \\" # b" # [x]

[owner]
'quoted.key' = 1
"esc\\u0061ped" = 2
a.b."c d" = 3
[owner.deep]
long = \"\"\"
not = a key
[nor.a.table]
\"\"\"
raw = '''x = 1
'' y = 2'''''
inline = { one = 1, two = { three = [1, 2] } }
many = [
  1, # one = 2
  [2, 3],
  "]",
  { x = 1 },
]
[[chips]]
size = 1
[[chips]]
[chips.more]
size = 2
[[chips.parts]]
[[chips.parts]]
x = 1\r
y = 1979-05-27T07:32:00Z
"""

LINES = {
    ("title",): 2,
    ("owner",): 4,
    ("owner", "quoted.key"): 5,
    ("owner", "escaped"): 6,
    ("owner", "a", "b", "c d"): 7,
    ("owner", "deep"): 8,
    ("owner", "deep", "long"): 9,
    ("owner", "deep", "raw"): 13,
    ("owner", "deep", "inline", "two", "three", 1): 15,
    ("owner", "deep", "many", 0): 17,
    ("owner", "deep", "many", 1, 1): 18,
    ("owner", "deep", "many", 3, "x"): 20,
    ("chips",): 22,
    ("chips", 0, "size"): 23,
    ("chips", 1): 24,
    ("chips", 1, "more", "size"): 26,
    ("chips", 1, "parts", 1, "x"): 29,
    ("chips", 1, "parts", 1, "y"): 30,
}


def refusal(text: str) -> Diagnostic:
    with pytest.raises(CompileError) as caught:
        parse_description("mine.toml", text)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def test_lines_of_keys():
    found = key_lines(TEXT)
    assert {path: found.get(path) for path in LINES} == LINES


def test_places_have_the_line_or_that_of_the_table():
    description = parse_description("mine.toml", TEXT)
    assert description.place(("owner", "a", "b")) == "mine.toml:7: 'owner.a.b'"
    assert description.place(("chips", 1, "speed")) == "mine.toml:24: 'chips.speed'"
    assert description.place(("nothing",)) == "mine.toml: 'nothing'"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a = 1\nb =", 2, "Invalid value"),
        ("a = 1\na = 2", 2, "Cannot overwrite"),
        ("[a]\n[b]\n[a]\n", 3, "Cannot declare"),
        ("a = 1\n\x00", 2, "Invalid statement"),
        ('a = """\n\n', 3, "Unterminated"),
        ("a = 1\nb = " + "9" * 5000, 2, "too many digits"),
        ("x = 1\ny = " + "[" * 100_000, 2, "nested too deep"),
        ("x = " + "[" * 200 + "]" * 200, 1, "nested too deep"),
        ("x = " + "{a=" * 200 + "1" + "}" * 200, 1, "nested too deep"),
        ("\n" + "a." * 100_000 + "b = 1", 2, "parts"),
        ('"a".' * 50_000 + "b = 1", 1, "parts"),
        ("x = {" + "a." * 30_000 + "b = 1}", 1, "parts"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else None,
)
def test_what_is_not_toml(text, line, reason):
    diagnostic = refusal(text)
    assert diagnostic.code == "MCM-T001"
    assert diagnostic.at == f"mine.toml:{line}"
    assert reason in diagnostic.message


def test_dots_in_texts_and_comments_are_no_levels():
    dots = "." * (2 * MAX_DEPTH)
    text = f'a = "{dots}" # {dots}\n# {dots}\n'
    assert parse_description("mine.toml", text).data == {"a": dots}


def test_size_is_bounded():
    assert "262144" in refusal("#" * (MAX_DESCRIPTION_BYTES + 1)).message


def unreadable(path: Path) -> Diagnostic:
    with pytest.raises(CompileError) as caught:
        read_description(str(path))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MCM-T001"
    return diagnostic


def test_files_that_are_not_text(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(b"a = 1\nb = 2 # \xff\n")
    assert unreadable(path).at == f"{path}:2"
    path.write_bytes(b"#" * (MAX_DESCRIPTION_BYTES + 1))
    assert "bytes" in unreadable(path).message
    assert "directory" in unreadable(tmp_path).message or "regular" in unreadable(tmp_path).message
    assert "No such file" in unreadable(tmp_path / "none.toml").message
    assert unreadable(tmp_path / "a\0b.toml").message.startswith("the target file cannot be read")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    path = tmp_path / "pipe.toml"
    os.mkfifo(path)
    assert "regular" in unreadable(path).message


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert read_description(str(path)) == "a = 1\n"


@pytest.mark.parametrize("case", ["missing", "folder", "large"])
@pytest.mark.parametrize("kind", ["target", "level"])
def test_a_file_that_cannot_be_read_has_no_line_to_correct(
    tmp_path: Path, case: str, kind: str
) -> None:
    path = tmp_path / "a.toml"
    if case == "folder":
        path.mkdir()
    elif case == "large":
        path.write_bytes(bytes(MAX_DESCRIPTION_BYTES + 5))
    with pytest.raises(CompileError) as caught:
        read_description(str(path), kind)
    (found,) = caught.value.diagnostics
    assert found.hint == f"give the path of a {kind} file that can be read"
    if case == "large":
        assert f"{MAX_DESCRIPTION_BYTES + 5:,} bytes" in found.message
