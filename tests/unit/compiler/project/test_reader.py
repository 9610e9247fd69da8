"""Project files: what they say, and every fault with its line."""

from __future__ import annotations

import os
import re
import typing
from pathlib import Path

import pytest

from mcm_compiler.contracts.objectives import ObjectiveKind
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.choices import Fallback, Routing
from mcm_compiler.options import CompileOptions
from mcm_compiler.project.reader import parse_project, read_project
from mcm_compiler.project.table_reader import DEFAULT_KEYS, FAILURE_KEYS, MODEL_KEYS, PROFILE_KEYS

ROOT = Path(__file__).parents[4]
MINIMAL = '[[models]]\nfiles = "a.onnx"\n'


def parsed(text: str):
    return parse_project(Path("mcmc.toml"), text)


def faults(text: str) -> list[tuple[str, str, str]]:
    with pytest.raises(CompileError) as caught:
        parsed(text)
    return [(d.code, d.at or "", f"{d.message}; {d.hint}") for d in caught.value.diagnostics]


def test_a_minimal_file_has_defaults() -> None:
    project = parsed(MINIMAL)
    assert (project.output, project.cache) == ("build/mcmc", ".mcmc-cache")
    assert project.cache_limit_bytes == 2 << 30
    (section,) = project.models
    assert section.files == ("a.onnx",)
    assert [profile.name for profile in section.profiles] == [""]
    assert project.root == Path(os.getcwd())


def test_settings_are_read_with_their_units_and_merged() -> None:
    project = parsed(
        """
        level = 1
        max_regression = "0%"
        [defaults]
        targets = ["mcm4", "edge.toml"]
        cache_limit = "1.5 MiB"
        seed = 3
        min_throughput = 10
        dims = { batch = 1 }
        [[models]]
        files = ["a/**/*.onnx", "zoo:plain-cnn{blocks=1}"]
        exclude = "a/b.onnx"
        levels = [0, "portfolio"]
        budget = "2 min"
        pins = { "/l0/*" = 0 }
        forbidden_chips = [3, 1, 3]
        state = [["in", "out"], ["in2", "out2"]]
        expected_failure = { code = "MCM-P016", reason = "known", targets = "mcm4" }
        max_latency = "500 us"
        [[models.profiles]]
        name = "decode"
        shapes = { ids = [1, 0] }
        dims = { seq = 1 }
        max_gap = "20 %"
        """
    )
    assert project.cache_limit_bytes == 3 << 19
    (section,) = project.models
    (profile,) = section.profiles
    settings = profile.settings.over(section.settings.over(project.defaults))
    assert settings.targets == ("mcm4", "edge.toml")
    assert settings.levels == (0, "portfolio")
    assert settings.dims == {"batch": 1, "seq": 1}
    assert settings.shapes == {"ids": (1, 0)}
    assert settings.state == (("in", "out"), ("in2", "out2"))
    asked = settings.thresholds
    assert (asked.min_throughput_per_s, asked.max_gap, asked.max_regression) == (10.0, 0.2, 0.0)
    assert asked.max_latency_s == pytest.approx(5e-4)
    assert settings.options == {
        "seed": 3,
        "budget_s": 120.0,
        "pins": (("/l0/*", 0),),
        "forbidden_chips": (1, 3),
    }
    assert section.expected is not None
    assert section.expected.code == "MCM-P016"
    assert section.expected.targets == ("mcm4",)
    assert section.expected.place == "mcmc.toml:18: 'models.expected_failure'"


@pytest.mark.parametrize(
    ("text", "code", "line", "told"),
    [
        ("max_regresion = '3%'\n" + MINIMAL, "MCM-B002", 1, "did you mean 'max_regression'?"),
        (MINIMAL + "filse = 'b'\n", "MCM-B002", 3, "did you mean 'files'?"),
        (MINIMAL + "zzzzzzzz = 'b'\n", "MCM-B002", 3, "keys are files"),
        (MINIMAL + "[[models.profiles]]\nnam = 'x'\n", "MCM-B002", 4, "'name'"),
        ("level = 1\n", "MCM-B003", 0, "no models"),
        ("[[models]]\nname = 'a'\n", "MCM-B003", 1, "'files' is missing"),
        (MINIMAL + "[[models.profiles]]\nlevel = 1\n", "MCM-B003", 3, "'name' is missing"),
        (MINIMAL + "expected_failure = { code = 'MCM-P016' }", "MCM-B003", 3, "'reason'"),
        (MINIMAL + "expected_failure = { code = 'P16', reason = 'x' }", "MCM-B004", 3, "'P16'"),
        (MINIMAL + "expected_failure = 3", "MCM-B004", 3, "a table is needed"),
        (MINIMAL + "max_latency = 3\n", "MCM-B004", 3, "'500 us'"),
        (MINIMAL + "max_regression = '100%'\n", "MCM-B004", 3, "not below 100 %"),
        (MINIMAL + "max_gap = '300%'\n", None, 0, ""),
        (MINIMAL + "max_gap = 'nan%'\n", "MCM-B004", 3, "not a text such as"),
        (MINIMAL + "min_throughput = '3'\n", "MCM-B004", 3, "inferences per second"),
        (MINIMAL + "min_throughput = inf\n", "MCM-B004", 3, "not more than nothing"),
        (MINIMAL + "cache_limit = '2 GiB'\n", "MCM-B002", 3, "no key 'cache_limit'"),
        ("cache_limit = '0 GiB'\n" + MINIMAL, "MCM-B004", 1, "not more than nothing"),
        (MINIMAL + "level = -1\n", "MCM-B004", 3, "-1"),
        (MINIMAL + "levels = [1, '1']\n", "MCM-B004", 3, "twice"),
        (MINIMAL + "routing = 'lax'\n", "MCM-B004", 3, "'relay' or 'strict'"),
        (MINIMAL + "dims = { b = -1 }\n", "MCM-B004", 3, "['b'] is -1, not from 0"),
        (MINIMAL + "shapes = { b = 3 }\n", "MCM-B004", 3, "['b'] is 3, not a list"),
        (MINIMAL + "state = [['a', '']]\n", "MCM-B004", 3, "a pair of two names"),
        (MINIMAL + "state = [['a', 'b'], ['a', 'c']]\n", "MCM-B004", 3, "'a' is in two pairs"),
        (MINIMAL + "targets = []\n", "MCM-B004", 3, "empty"),
        (MINIMAL + "targets = ['a', 'a']\n", "MCM-B004", 3, "twice"),
        (MINIMAL + "test_data = 1\n", "MCM-B004", 3, "true or false"),
        (MINIMAL + "seed = 1979-05-27\n", "MCM-B004", 3, "a date, not a whole number"),
        ("models = 3\n", "MCM-B004", 1, "tables [[models]]"),
        ("models = [3]\n", "MCM-B004", 1, "a table is needed"),
        (MINIMAL + "[defaults]\nlevel = 1\n", None, 0, ""),
        ("level = 1\n" + MINIMAL + "[defaults]\nlevel = 1\n", "MCM-B005", 5, "'level'"),
        (MINIMAL + "level = 1\nlevels = [2]\n", "MCM-B005", 4, "both given"),
        (
            MINIMAL + "[[models.profiles]]\nname = 'x'\n[[models.profiles]]\nname = 'x'\n",
            "MCM-B005",
            6,
            "profile 'x'",
        ),
        (
            MINIMAL + "dims = { seq = 128 }\n[[models.profiles]]\nname = 'x'\ndims = { seq = 1 }\n",
            "MCM-B006",
            6,
            "'seq' the size 1, and its model gives it 128",
        ),
        ("= 3\n", "MCM-B001", 1, "not TOML"),
    ],
)
def test_faults_have_their_line_and_a_hint(
    text: str, code: str | None, line: int, told: str
) -> None:
    if code is None:
        parsed(text)
        return
    found = faults(text)
    place = f"mcmc.toml:{line}" if line else "mcmc.toml: "
    assert [(c, at.startswith(place)) for c, at, _ in found] == [(code, True)], found
    assert told in found[0][2]


def test_a_size_may_be_repeated_and_defaults_may_be_replaced() -> None:
    text = "dims = { seq = 4 }\n" + MINIMAL + "[[models.profiles]]\nname = 'x'\ndims = { seq = 1 }"
    (section,) = parsed(text).models
    assert section.profiles[0].settings.dims == {"seq": 1}


def test_all_faults_are_told_in_order() -> None:
    found = faults(MINIMAL + "level = -1\nfoo = 1\nseed = 'x'\n")
    assert [(code, at.partition(": ")[0]) for code, at, _ in found] == [
        ("MCM-B004", "mcmc.toml:3"),
        ("MCM-B002", "mcmc.toml:4"),
        ("MCM-B004", "mcmc.toml:5"),
    ]


def test_very_many_faults_are_cut_short() -> None:
    assert len(faults(MINIMAL + "".join(f"k{i} = 1\n" for i in range(1000)))) == 50


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        read_project(tmp_path / "mcmc.toml")
    assert caught.value.diagnostics[0].code == "MCM-B001"
    assert "No such file" in caught.value.diagnostics[0].message


def test_keys_are_those_of_the_options_and_of_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "project-file.md").read_text(encoding="utf-8")
    for keys in (DEFAULT_KEYS, MODEL_KEYS, PROFILE_KEYS, FAILURE_KEYS):
        assert [name for name in keys if f"`{name}`" not in page] == []
    settable = {key.option for key in MODEL_KEYS.values() if key.option}
    said_otherwise = {"level", "dims", "shapes", "input", "state", "sources"}
    settable.remove("sensitivities")  # of what is told beside a compile
    assert settable | said_otherwise == CompileOptions.__dataclass_fields__.keys()
    choices = {
        key.name: key.rule.words for key in MODEL_KEYS.values() if '" or "' in key.rule.words
    }
    for name, kind in (("routing", Routing), ("fallback", Fallback), ("objective", ObjectiveKind)):
        assert set(re.findall(r'"(\w+)"', choices[name])) == set(typing.get_args(kind))


def test_the_example_of_the_reference_is_a_project_file() -> None:
    page = (ROOT / "docs" / "reference" / "project-file.md").read_text(encoding="utf-8")
    example = page.partition("```toml\n")[2].partition("```")[0]
    assert len(parsed(example).models) == 3
