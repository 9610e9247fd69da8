"""The page's bundle is what its source gives."""

from __future__ import annotations

import shutil
import subprocess

from tests.generators.page_packages import ROOT, SOURCE, npm_folder

ASSETS = ROOT / "mcm_compiler" / "page" / "assets"


def test_the_bundle_is_what_its_source_gives(tmp_path):
    packages = npm_folder()
    work = tmp_path / "report_page"
    shutil.copytree(SOURCE, work, ignore=shutil.ignore_patterns("node_modules"))
    (work / "node_modules").symlink_to(packages / "node_modules")
    subprocess.run(["node", "build.mjs", str(tmp_path / "made")], cwd=work, check=True)
    made = sorted(path.name for path in (tmp_path / "made").iterdir())
    assert made == ["page.css", "page.js"]
    for name in made:
        assert (tmp_path / "made" / name).read_bytes() == (ASSETS / name).read_bytes()


def test_the_lock_names_no_address():
    assert "http" not in (SOURCE / "package-lock.json").read_text()
    assert "http" not in (SOURCE / "package.json").read_text()
