"""`mcmc view` as its user sees it: an address, a page that follows the folder, and a clean end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from tests.generators.browser import Watched, browser
from tests.generators.mlp_files import write_network

MCMC = Path(sys.executable).with_name("mcmc")


@pytest.fixture(scope="module")
def two_compiles(tmp_path_factory):
    """Folders of one network on one and on two chips."""
    root = tmp_path_factory.mktemp("viewed")
    write_network(root / "net.onnx", layers=8, width=64)
    one = ("compile", str(root / "net.onnx"), "--target", "mcm4", "--dim", "batch=1", "--replicas",
           "1", "--partitioner", "dp")  # fmt: skip
    for chips in ("1", "2"):
        done = CliRunner().invoke(cli, [*one, "--chips", chips, "-o", str(root / chips)])
        assert done.exit_code == 0, done.output
    return root / "1", root / "2"


@contextmanager
def viewed(folder, *options):
    """A running `mcmc view`, and its address."""
    process = subprocess.Popen(
        [MCMC, "view", folder, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    with process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_asked_to_end(two_compiles, number) -> None:
    with viewed(two_compiles[0]) as (process, address):
        with urllib.request.urlopen(f"{address}report.html") as answer:
            assert answer.read().startswith(b"<!doctype html>")
        process.send_signal(number)
        out, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == ""
    assert told.splitlines() == [
        f"shows {two_compiles[0]} and every new compile of it; Ctrl-C ends",
        "ended",
    ]


def test_the_browser_shows_a_new_compile_where_the_reader_was(two_compiles, tmp_path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(two_compiles[0], folder)
    with browser() as chromium, viewed(folder) as (process, address):
        watched = Watched(chromium, allowed=address)
        page = watched.page
        page.goto(address)
        page.wait_for_selector("iframe[data-shown]", timeout=60_000)
        inner = page.frame(url=f"{address}report.html")
        assert page.title() == "net.onnx on mcm4"
        assert "1 of 4 chips" in inner.locator(".answers").inner_text()
        inner.evaluate("scrollTo(0, 700)")
        first = page.locator("iframe").get_attribute("data-shown")
        # As a compile replaces a folder.
        shutil.copytree(two_compiles[1], tmp_path / "new")
        folder.rename(tmp_path / "old")
        (tmp_path / "new").rename(folder)
        page.wait_for_selector(f"iframe[data-shown]:not([data-shown='{first}'])", timeout=60_000)
        assert "2 of 4 chips" in inner.locator(".answers").inner_text()
        assert inner.evaluate("scrollY") == 700
        status = page.locator("[role=status]")
        assert status.inner_text().startswith("compiled again")
        shutil.rmtree(folder)
        page.wait_for_selector("footer.problem", timeout=60_000)
        assert status.inner_text().startswith("MCM-A00")
        shutil.copytree(two_compiles[1], folder)
        page.wait_for_selector("footer:not(.problem)", timeout=60_000)
        assert watched.complaints == []
        process.send_signal(signal.SIGTERM)
        page.wait_for_selector("footer.problem", timeout=60_000)
        assert "mcmc view has ended" in status.inner_text()
        assert "2 of 4 chips" in inner.locator(".answers").inner_text()


def test_no_other_site_can_show_or_ask_the_server(two_compiles, tmp_path) -> None:
    with browser() as chromium, viewed(two_compiles[0]) as (_, address):
        site = tmp_path / "site.html"
        site.write_text(
            f"<iframe src='{address}'></iframe><iframe src='{address}report.html'></iframe>"
        )
        page = chromium.new_page()
        page.goto(site.as_uri())
        page.wait_for_timeout(1000)
        assert all("mcm4" not in frame.title() for frame in page.frames)
        asked = page.evaluate(
            "(url) => fetch(url).then((answer) => answer.text(), (error) => 'refused')",
            f"{address}report.html",
        )
        assert asked == "refused"


def test_what_is_no_output_and_a_port_that_is_taken_are_told(two_compiles, tmp_path) -> None:
    done = CliRunner().invoke(cli, ["view", str(tmp_path)])
    assert done.exit_code == 1
    assert "MCM-A004" in done.output
    with viewed(two_compiles[0]) as (_, address):
        port = address.rsplit(":", 1)[1].strip("/")
        done = CliRunner().invoke(
            cli, ["view", str(two_compiles[0]), "--port", port, "--format", "json"]
        )
    assert done.exit_code == 1
    assert [d["code"] for d in json.loads(done.stdout)["diagnostics"]] == ["MCM-U090"]


def test_scripts_get_the_address_as_json(two_compiles) -> None:
    with viewed(two_compiles[0], "--format", "json") as (process, first):
        text = first
        while "}" not in text:
            text += process.stdout.readline()
    told = json.loads(text)
    assert told["folder"] == str(two_compiles[0])
    assert told["address"].startswith("http://127.0.0.1:")
