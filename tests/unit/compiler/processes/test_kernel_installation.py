"""Names of installations."""

from __future__ import annotations

from mcm_compiler.processes.kernel_folders import HOME, PREFIX, installation_name


def test_a_checkout_has_no_name():
    assert installation_name(HOME) == ""


def test_a_name_is_that_of_the_files(tmp_path):
    names = []
    for digest in ("aa", "bb"):
        home = tmp_path / digest
        (folder := home / "mcm_compiler-0.1.0.dist-info").mkdir(parents=True)
        (folder / "RECORD").write_text(f"mcm_compiler/__init__.py,sha256={digest},7\n")
        names.append(installation_name(home))
    assert names[0] != names[1]
    assert all(name.startswith(PREFIX) for name in names)
