"""The matrix of a project, and what cannot be one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcm_compiler.artifact import layout
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.project.cells import cells_of, only
from mcm_compiler.project.reader import parse_project
from mcm_compiler.project.records import Cell


@pytest.fixture
def files(tmp_path):
    """Makes files of a project."""

    def make(*names: str) -> None:
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"")

    return make


def cells(root: Path, text: str) -> tuple[Cell, ...]:
    return cells_of(
        parse_project(root / "mcmc.toml", text), {"mcm4", "mcm16", "mcm36"}.__contains__
    )


def faults(root: Path, text: str) -> list[tuple[str, str]]:
    with pytest.raises(CompileError) as caught:
        cells(root, text)
    return [(d.code, f"{d.at}: {d.message}") for d in caught.value.diagnostics]


def test_models_times_profiles_times_targets_times_levels(tmp_path, files) -> None:
    files("m/a.onnx", "m/b.onnx", "edge.toml")
    found = cells(
        tmp_path,
        'targets = ["mcm4", "./edge.toml"]\nseed = 3\n[[models]]\nfiles = "m/*.onnx"\n'
        "levels = [0, 1]\ndims = { batch = 2 }\n"
        '[[models.profiles]]\nname = "p"\n[[models.profiles]]\nname = "d"\ntargets = "mcm36"\n'
        'level = 2\nseed = 4\ndims = { seq = 1 }\nstate = [["a", "b"]]\n',
    )
    assert [cell.title for cell in found if cell.title.startswith("a/")] == [
        "a/p/mcm4/O0",
        "a/p/mcm4/O1",
        "a/p/edge/O0",
        "a/p/edge/O1",
        "a/d/mcm36",
    ]
    last = found[-1]
    assert (last.model, last.title) == ("m/b.onnx", "b/d/mcm36")
    assert last.options == {"seed": 4, "level": 2, "state": (("a", "b"),)}
    assert last.dims == {"batch": 2, "seq": 1}
    assert last.lenient == {"batch"}
    assert last.place == f"{tmp_path}/mcmc.toml:9: 'models.profiles'"


def test_a_model_that_is_named_alone_has_to_have_its_dimensions(tmp_path, files) -> None:
    files("a.onnx")
    (cell,) = cells(
        tmp_path,
        'dims = { batch = 1, seq = 1 }\n[[models]]\nfiles = "a.onnx"\ndims = { seq = 2 }\n',
    )
    assert (cell.dims, cell.lenient) == ({"batch": 1, "seq": 2}, {"batch"})


def test_what_is_selected(tmp_path, files) -> None:
    files("m/b.onnx", "m/x/a.onnx", "m/.hidden.onnx", "m/.git/c.onnx", "m/notes.txt")
    files("build/mcmc/q.onnx", f"old/{layout.MANIFEST}", "old/chip_00.onnx", "m/x/skip.onnx")

    def names(patterns: str) -> list[str]:
        return [cell.title for cell in cells(tmp_path, f"[[models]]\n{patterns}\n")]

    assert names('files = "**/*.onnx"\nexclude = "m/**/skip*"') == ["m/b/mcm36", "m/x/a/mcm36"]
    assert names('files = "m/**"\nexclude = ["**/skip.onnx", "*/*.txt"]') == [
        "b/mcm36",
        "x/a/mcm36",
    ]
    assert names('files = "m"\nexclude = "m/x/*"') == ["b/mcm36"]
    assert names('files = "m/[!a].onnx"') == ["b/mcm36"]
    assert names('files = ["m/x/a.onnx", "zoo:plain-cnn{blocks=1}"]') == [
        "a/mcm36",
        "plain-cnn/mcm36",
    ]
    assert names('files = "m/x/a.onnx"\nname = "vision/net"') == ["vision/net/mcm36"]


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ('[[models]]\nfiles = "x/*.onnx"', "MCM-B007", ":2: 'models.files': 'x/*.onnx' stands for"),
        ('[[models]]\nfiles = ["m/a.onnx", "m/z.onnx"]', "MCM-B007", "'m/z.onnx' stands for no"),
        ('[[models]]\nfiles = "m/*"\nexclude = "**"', "MCM-B007", ":3: 'models.exclude': all"),
        ('[[models]]\nfiles = "m/*.onnx"\nname = "n"', "MCM-B008", ":3: 'models.name': 2 models"),
        ('[[models]]\nfiles = ["m/a.onnx", "k/A.onnx"]', "MCM-B008", "both be called 'A'"),
        (
            '[[models]]\nfiles = "m/*.onnx"\n[[models]]\nfiles = "m/a.onnx"',
            "MCM-B008",
            ":4: 'models.files': the model 'm/a.onnx' is selected twice, also by",
        ),
        ('targets = "mcm4x"\n[[models]]\nfiles = "m/a.onnx"', "MCM-B009", ":1: 'targets': there"),
        ('[[models]]\nfiles = "m/a.onnx"\ntargets = ["mcm4", "no.toml"]', "MCM-B009", "no file"),
        (
            '[[models]]\nfiles = "m/a.onnx"\n'
            'expected_failure = { code = "MCM-P016", reason = "x", targets = "mcm4" }',
            "MCM-B009",
            "not compiled for 'mcm4'",
        ),
        ('plugins = "p.py"\n[[models]]\nfiles = "m/a.onnx"', "MCM-B010", ":1: 'plugins': there is"),
        ('[[models]]\nfiles = "m/a.onnx"\ninputs = "i.npz"', "MCM-B010", ":3: 'models.inputs'"),
        ('[[models]]\nfiles = "m/a.onnx"\ntargets = ["e/t.toml", "t.toml"]', "MCM-B008", "a/t"),
        (
            '[[models]]\nfiles = "m/a.onnx"\n[[models.profiles]]\nname = "mcm36"\ntargets = "mcm4"'
            '\n[[models]]\nfiles = "m/b.onnx"\nname = "a"\n',
            "MCM-B008",
            "both",
        ),
    ],
)
def test_faults(tmp_path, files, text: str, code: str, told: str) -> None:
    files("m/a.onnx", "m/b.onnx", "k/A.onnx", "t.toml", "e/t.toml")
    found = faults(tmp_path, text)
    assert [c for c, _ in found] == [code], found
    assert told in found[0][1]


def test_a_cell_within_another_one(tmp_path, files) -> None:
    files("a.onnx", "b.onnx")
    found = faults(
        tmp_path, '[[models]]\nfiles = "a.onnx"\n[[models]]\nfiles = "b.onnx"\nname = "a/mcm36"\n'
    )
    assert [code for code, _ in found] == ["MCM-B008"]
    assert "would both lie in 'a/mcm36'" in found[0][1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('cache = "build/mcmc"', ":1: 'cache': the cache 'build/mcmc' is the folder of the output"),
        ('output = "./.mcmc-cache/"', ":1: 'output': the cache '.mcmc-cache' is the folder of"),
        (
            'cache = "."',
            ":1: 'cache': the cache '.' holds the folder of the output folders, 'build",
        ),
        ('[defaults]\noutput = "b"\ncache = "b/c/.d"', ":3: 'defaults.cache': the cache 'b/c/.d'"),
        ('baseline = "build/mcmc/a"', ":1: 'baseline': the baseline 'build/mcmc/a' is inside the"),
        (
            'baseline = ".mcmc-cache/b"',
            ":1: 'baseline': the baseline '.mcmc-cache/b' is inside the",
        ),
        ('baseline = "x"\ncache = "x"', ":1: 'baseline': the baseline 'x' is the cache, too"),
        (
            'output = "b"\ncache = "link/c"',
            ":2: 'cache': the cache 'link/c' is inside the folder of",
        ),
    ],
)
def test_folders_that_overlap(tmp_path, files, text: str, told: str) -> None:
    files("a.onnx")
    (tmp_path / "link").symlink_to("b")
    ((code, found),) = faults(tmp_path, f'{text}\n[[models]]\nfiles = "a.onnx"\n')
    assert code == "MCM-B021"
    assert told in found


def test_a_cache_apart_from_cells(tmp_path, files) -> None:
    files("a.onnx", ".keep.onnx")
    models = '[[models]]\nfiles = ["a.onnx", ".keep.onnx"]\n'
    assert len(cells(tmp_path, f'output = "."\n{models}')) == 2
    ((code, told),) = faults(tmp_path, f'output = "."\ncache = ".keep"\n{models}')
    assert code == "MCM-B021"
    assert "'.keep/mcm36', would take the place of the cache, '.keep'" in told


@pytest.mark.parametrize(
    ("targets", "name", "told"),
    [
        ("mcm4", "Index.html", "'Index.html/mcm4', would take the place of the index"),
        ("mcm4", "a/mcm4.HTML", "'a/mcm4.HTML/mcm4', would take the place of the page of 'a/mcm4'"),
        ("mcm4", "a/mcm4.html/b", "'a/mcm4.html/b/mcm4', would take the place of the page of 'a/m"),
        (["mcm4", "mcm4.html.toml"], "b", "'a/mcm4.html', would take the place of the page of"),
    ],
)
def test_a_cell_with_the_name_of_a_page(
    tmp_path, files, targets: str | list[str], name: str, told: str
) -> None:
    files("a.onnx", "b.onnx", "mcm4.html.toml")
    found = faults(
        tmp_path,
        f'targets = {json.dumps(targets)}\n[[models]]\nfiles = "a.onnx"\n'
        f'[[models]]\nfiles = "b.onnx"\nname = "{name}"\n',
    )
    assert {code for code, _ in found} == {"MCM-B021"}
    assert told in found[0][1]


def test_only_some_cells(tmp_path, files) -> None:
    files("m/a.onnx", "m/b.onnx")
    found = cells(tmp_path, 'targets = ["mcm4", "mcm16"]\n[[models]]\nfiles = "m/*.onnx"\n')

    def titles(*patterns: str) -> list[str]:
        return [cell.title for cell in only(found, patterns)]

    assert len(titles()) == 4
    assert titles("a") == titles("m/a.onnx") == titles("a/*") == ["a/mcm4", "a/mcm16"]
    assert titles("mcm4") == ["a/mcm4", "b/mcm4"]
    with pytest.raises(CompileError) as caught:
        only(found, ["a", "c*"])
    assert caught.value.diagnostics[0].code == "MCM-B018"
    assert "'a/mcm4'" in (caught.value.diagnostics[0].hint or "")
