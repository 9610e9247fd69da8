"""Chromium without a window, for tests of pages; they are skipped where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def browser() -> Iterator[Any]:
    """A running browser that reaches no network."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        # .ci/run installs it.
        assert not os.environ.get("MCMC_CI"), "Chromium is missing"
        pytest.skip("Chromium is not installed")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-gpu"]
        running = driver.chromium.launch(executable_path=found, args=options)
        try:
            yield running
        finally:
            running.close()


class Watched:
    """A page, and what it complained of or asked the network for.

    Attributes:
        page: of playwright.
        complaints: messages of its console, errors of its script, and addresses that it asked for.

    Args:
        running: the browser.
        allowed: what an address may begin with beside those that need no network.
        options: of the page.
    """

    def __init__(self, running: Any, allowed: str | None = None, **options: Any) -> None:
        self.complaints: list[str] = []
        self._allowed = ("file:", "blob:", *([allowed] if allowed else []))
        self.page = running.new_page(viewport={"width": 1280, "height": 900}, **options)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(self._allowed):
            self.complaints.append(request.url)

    def open(self, path: Any) -> Any:
        """Opens a file, waits until all is drawn, and gives the page."""
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
        return self.page
