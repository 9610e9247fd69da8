import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from mcm_compiler.page.contents import (
    SCRIPT,
    STYLE,
    Answer,
    Page,
    Section,
    Table,
    View,
    asset,
    is_page,
    json_block,
    page_bytes,
)

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)><!-- ]]> \" ' & \u202e"


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []
        self.handlers = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]


POLICY = ("default-src", "script-src", "style-src", "img-src", "base-uri", "form-action")


def hostile_page():
    table = Table((HOSTILE, "n"), ((HOSTILE, "1"),), frozenset({1}), HOSTILE)
    view = View("bars", {"bars": [{"name": HOSTILE, "seconds": 1.0}]}, HOSTILE)
    section = Section("one", HOSTILE, (HOSTILE,), view, (table,))
    return Page(
        HOSTILE, (HOSTILE,), (Answer(HOSTILE, HOSTILE, (HOSTILE,)),), (section,), (HOSTILE,)
    )


def plain_page():
    table = Table(("a", "n"), (("b", "1"),), frozenset({1}), "c")
    view = View("bars", {"bars": [{"name": "d", "seconds": 1.0}]}, "e")
    section = Section("one", "f", ("g",), view, (table,))
    return Page("h", ("i",), (Answer("j", "k", ("l",)),), (section,), ("m",))


def tags_of(page):
    parser = Tags()
    parser.feed(page_bytes(page).decode())
    return parser


def test_hostile_names_add_no_element_and_no_attribute():
    hostile, plain = tags_of(hostile_page()), tags_of(plain_page())
    assert hostile.tags == plain.tags
    assert hostile.handlers == plain.handlers == []


def test_no_text_can_end_the_block_of_data():
    block = json_block({"a": HOSTILE, "b": ["\u2028"]})
    assert not re.search(r"[<>&]", block)
    assert json.loads(block) == {"a": HOSTILE, "b": ["\u2028"]}


def test_numbers_that_json_lacks_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        json_block({"a": float("nan")})


def test_the_policy_allows_the_own_script_and_style_by_their_hashes_and_nothing_else():
    text = page_bytes(plain_page()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert policy
    assert style
    assert len(scripts) == 1
    rules = dict(rule.split(" ", 1) for rule in policy[1].replace("&#39;", "'").split("; "))
    for name, content in (("script-src", scripts[0]), ("style-src", style[1])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    assert set(rules) == {*POLICY}


def test_script_and_style_can_stand_in_a_page_and_name_no_address_to_load_from():
    viewer = "https://ui.perfetto.dev"  # a button opens it
    for name, end in ((SCRIPT, "</script"), (STYLE, "</style")):
        text = asset(name)
        assert end not in text.lower()
        assert "<!--" not in text
        addresses = set(re.findall(r"https?://[\w./-]+", text))
        assert all(
            address == viewer or address.startswith("http://www.w3.org/") for address in addresses
        )
        assert not re.search(r"url\((?!#)", text)


def test_equal_pages_are_equal_bytes():
    assert page_bytes(hostile_page()) == page_bytes(hostile_page())


def test_pages_are_known_by_their_beginning(tmp_path):
    file = tmp_path / "page.html"
    file.write_bytes(page_bytes(Page("t", (), (), (), ())))
    assert is_page(file)
    for other in (b"", b"<!doctype html>\n<html lang='en'></html>", file.read_bytes()[1:]):
        file.write_bytes(other)
        assert not is_page(file)


def test_links_of_a_table_stand_in_its_first_column():
    table = Table(("model", "period"), (("a", "1"), ("b", "2")), links=("a.html", ""))
    text = page_bytes(Page("t", sections=(Section("s", "S", tables=(table,)),))).decode()
    assert '<td><a href="a.html">a</a></td>' in text
    assert "<td>b</td>" in text
