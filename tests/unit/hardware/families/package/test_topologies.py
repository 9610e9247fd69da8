"""Packages of every topology: links, shortest routes, deadlocks, and faults of descriptions."""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcm_compiler.api import load_target
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.cli.main import cli
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import Machine, MachineError
from mcm_hardware.families.package.package_target import TopologyPackage, mesh36

HEAD, _, REST = mesh36().source_text.partition("[topology]")
REST = REST[REST.index("[chip]") :]


NAMES = ("program", "manifest")


def described(topology: str) -> str:
    return f"{HEAD}[topology]\n{topology}\n\n{REST}"


def machine(topology: str) -> Machine:
    return TopologyPackage.from_text("mine", described(topology)).machine


def links_by_hand(kind: str, size: list[int], two_way: bool) -> set[tuple[int, int]]:
    """Neighbours, from what the words mean."""
    places = list(itertools.product(*map(range, size)))
    found = set()
    for a, b in itertools.permutations(places, 2):
        differing = [(x, y, n) for x, y, n in zip(a, b, size, strict=True) if x != y]
        if len(differing) != 1:
            continue
        x, y, n = differing[0]
        forwards = y - x == 1 or (kind in ("ring", "torus") and (y - x) % n == 1)
        backwards = x - y == 1 or (kind in ("ring", "torus") and (x - y) % n == 1)
        if forwards or (backwards and two_way):
            found.add((places.index(a), places.index(b)))
    return found


def distances(links: set[tuple[int, int]], chips: int) -> dict[tuple[int, int], int]:
    """Hops of shortest routes, by relaxing all links again and again."""
    far = {(a, b): 0 if a == b else 10**6 for a in range(chips) for b in range(chips)}
    for _ in range(chips):
        for a in range(chips):
            for b, c in links:
                far[a, c] = min(far[a, c], far[a, b] + 1)
    return {pair: hops for pair, hops in far.items() if hops < 10**6}


def has_deadlock(machine: Machine) -> bool:
    """Whether virtual channels wait for each other in a circle, by colouring them."""
    count = machine.num_devices
    lanes = machine.route_lanes
    after: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for row in range(count * count):
        begin, end = int(machine.routes.begin[row]), int(machine.routes.end[row])
        way = [
            (int(machine.routes.channels[i]), 0 if lanes is None else int(lanes[i]))
            for i in range(begin, end)
        ]
        for one, two in itertools.pairwise(way):
            after.setdefault(one, set()).add(two)
    done: set[tuple[int, int]] = set()
    for start in after:
        on_way: list[tuple[int, int]] = []
        todo = [(start, False)]
        while todo:
            node, leaving = todo.pop()
            if leaving:
                on_way.remove(node)
                done.add(node)
            elif node in on_way:
                return True
            elif node not in done:
                on_way.append(node)
                todo.append((node, True))
                todo += [(nxt, False) for nxt in after.get(node, ())]
    return False


GRIDS = [
    ("line", [5], True),
    ("line", [4], False),
    ("ring", [1], True),
    ("ring", [2], True),
    ("ring", [3], False),
    ("ring", [6], True),
    ("ring", [7], True),
    ("mesh", [1, 4], True),
    ("mesh", [3, 4], True),
    ("torus", [2, 3], True),
    ("torus", [4, 5], True),
]


@pytest.mark.parametrize(("kind", "size", "two_way"), GRIDS)
@pytest.mark.parametrize("routing", ["xy", "yx"])
def test_grids_have_the_links_and_shortest_routes_that_their_words_mean(
    kind, size, two_way, routing
):
    text = f'kind = "{kind}"\nsize = {size}\nrouting = "{routing}"\nvirtual_channels = 2\n'
    made = machine(text + ("" if two_way else "two_way = false"))
    links = links_by_hand(kind, size, two_way)
    ends = [tuple(pair) for pair in made.channel_ends.tolist() if min(pair) >= 0]
    assert sorted(ends) == sorted(links)
    far = distances(links, made.num_devices)
    for a, b in itertools.product(range(made.num_devices), repeat=2):
        assert len(made.route(a, b)) == far.get((a, b), 0), (a, b)
    assert not has_deadlock(made)


def test_a_tensor_on_a_mesh_goes_along_its_row_first_or_along_its_column():
    rows = machine('kind = "mesh"\nsize = [2, 3]')
    columns = machine('kind = "mesh"\nsize = [2, 3]\nrouting = "yx"')
    assert rows.places(0, 5) == (0, 1, 2, 5)
    assert columns.places(0, 5) == (0, 3, 4, 5)


@pytest.mark.parametrize(
    "topology",
    [
        'kind = "ring"\nsize = [5]',
        'kind = "ring"\nsize = [4]\ntwo_way = false',
        'kind = "torus"\nsize = [2, 5]',
        'kind = "links"\nlinks = [[0, 1], [1, 2], [2, 0]]',
    ],
)
def test_circles_need_virtual_channels_and_the_refusal_says_so(tmp_path, topology):
    with pytest.raises(MachineError) as caught:
        _ = machine(topology)
    assert caught.value.circular
    path = tmp_path / "mine.toml"
    path.write_text(described(topology))
    with pytest.raises(CompileError) as refused:
        load_target(path)
    (fault,) = refused.value.diagnostics
    assert fault.code == "MCM-T014"
    assert "virtual_channels = 2" in (fault.hint or "")
    assert re.search(r"over the channels (\d+) to \d+ -> .* to \1\b", fault.message)
    assert not has_deadlock(machine(f"{topology}\nvirtual_channels = 2"))


def test_lists_of_links_have_shortest_routes_and_no_deadlock_that_is_not_refused():
    draw = random.Random(5)
    accepted = 0
    for _ in range(60):
        chips = draw.randint(2, 6)
        pairs = {(c, c + 1) for c in range(chips - 1)}
        pairs |= {tuple(draw.sample(range(chips), 2)) for _ in range(draw.randint(0, 6))}
        listed = draw.sample(sorted(pairs), len(pairs))
        lanes = draw.randint(1, 3)
        links = [list(pair) for pair in listed]
        text = f'kind = "links"\nlinks = {links}\nvirtual_channels = {lanes}'
        try:
            made = machine(text)
        except MachineError:
            continue
        accepted += 1
        assert not has_deadlock(made)
        far = distances(pairs, chips)
        for a, b in itertools.product(range(chips), repeat=2):
            assert len(made.route(a, b)) == far.get((a, b), 0)
    assert accepted > 20


FAULTS = [
    ('kind = "mesh"', "MCM-T003", "needs size"),
    ('kind = "links"', "MCM-T003", "needs links"),
    ('kind = "mesh"\nsize = [3]', "MCM-T008", "2 dimensions, not 1"),
    ('kind = "ring"\nsize = [3, 3]', "MCM-T008", "1 dimension, not 2"),
    ('kind = "mesh"\nsize = [3, 3, 3]', "MCM-T005", "3 entries"),
    ('kind = "mesh"\nsize = [3, "a"]', "MCM-T004", "found a text"),
    ('kind = "mesh"\nsize = [3, 0]', "MCM-T005", "not positive"),
    ('kind = "mesh"\nsize = [40, 40]', "MCM-T005", "1600 chips"),
    ('kind = "mesh"\nsize = [4, 4]\ntwo_way = false', "MCM-T008", "both ways"),
    ('kind = "mesh"\nsize = [4, 4]\nlinks = [[0, 1]]', "MCM-T008", "has no links"),
    ('kind = "links"\nlinks = [[0, 1]]\nsize = [2]', "MCM-T008", "has no size"),
    ('kind = "links"\nlinks = [[0, 1], [2, 3]]', "MCM-T008", "no links connect chip 2"),
    ('kind = "links"\nlinks = [[0, 1], [1, 3]]', "MCM-T008", "no link names chip 2"),
    ('kind = "links"\nlinks = [[0, 0], [0, 1]]', "MCM-T008", "chip 0 leads to itself"),
    ('kind = "links"\nlinks = [[0, 1], [0, 1]]', "MCM-T008", "chip 0 to chip 1 is listed before"),
    ('kind = "links"\nlinks = [[0, 1, 2]]', "MCM-T005", "3 entries, not 2"),
    ('kind = "links"\nlinks = [0, 1]', "MCM-T004", "expected a list"),
    ('kind = "star"\nsize = [4]', "MCM-T005", "torus"),
    ("size = [4]", "MCM-T003", "missing"),
]


@pytest.mark.parametrize(("topology", "code", "words"), FAULTS)
def test_faults_of_a_topology_are_named_with_their_line(topology, code, words):
    with pytest.raises(CompileError) as caught:
        TopologyPackage.from_text("mine.toml", described(topology))
    first = caught.value.diagnostics[0]
    assert first.code == code
    assert words in first.message
    assert (first.at or "").startswith("mine.toml:")


def test_an_entry_of_a_list_is_named_by_its_place() -> None:
    with pytest.raises(CompileError) as caught:
        machine('kind = "links"\nlinks = [[0, 1], [1, 0], [0, 1], [1, -1]]')
    assert [fault.at for fault in caught.value.diagnostics] == ["mine:11: 'topology.links[3][1]'"]
    with pytest.raises(CompileError) as caught:
        machine('kind = "links"\nlinks = [[0, 1], [1, 0], [0, 1]]')
    assert [fault.at for fault in caught.value.diagnostics] == ["mine:11: 'topology.links[2]'"]


@pytest.mark.parametrize("name", ["mesh36", "torus36", "simba36"])
def test_built_in_packages_have_36_chips_that_reach_each_other(name):
    target = load_target(name)
    assert target.machine.num_devices == 36
    assert target.machine.reaches.all()
    shown = CliRunner().invoke(cli, ["targets", "show", name])
    assert shown.exit_code == 0
    assert "6, 6" in shown.output
    assert load_target(name).details()["topology"]["routing"] == "xy"


@pytest.fixture(scope="module")
def torus9(tmp_path_factory) -> Path:
    """A folder of a model on a torus; `cut.csv` next to it has the chip of each op."""
    place = tmp_path_factory.mktemp("torus")
    path, out = place / "torus9.toml", place / "out"
    path.write_text(described('kind = "torus"\nsize = [3, 3]\nvirtual_channels = 2'))
    words = ["compile", "zoo:gpt2-tiny", "--target", str(path), "-o", str(out), "--replicas", "1"]
    words += ["-O0", "--assignment-out", str(place / "cut.csv")]
    made = CliRunner().invoke(cli, words)
    assert made.exit_code == 0, made.output
    return out


def test_a_model_on_a_torus_compiles_and_checks_with_its_virtual_channels(torus9, tmp_path):
    out = Path(shutil.copytree(torus9, tmp_path / "out"))
    assert CliRunner().invoke(cli, ["check", str(out)]).exit_code == 0
    description = out / "target.toml"
    description.write_text(
        description.read_text().replace("virtual_channels = 2", "virtual_channels = 1")
    )
    refused = CliRunner().invoke(cli, ["check", str(out)])
    assert refused.exit_code != 0
    assert "MCM-T014" in refused.output or "target.toml" in refused.output


def test_altered_start_times_are_named_with_what_they_should_wait_for(torus9, tmp_path):
    out = Path(shutil.copytree(torus9, tmp_path / "out"))
    program, manifest = (json.loads((out / f"{name}.json").read_text()) for name in NAMES)
    starts = program["start_s"]
    last = starts.index(max(starts))
    starts[last] = 0.0
    (out / "program.json").write_text(json.dumps(program))
    manifest["files"]["program.json"] = sha256_file(out / "program.json")
    (out / "manifest.json").write_text(json.dumps(manifest))
    refused = CliRunner().invoke(cli, ["simulate", str(out)]).output
    assert "error[MCM-T017]" in refused
    assert "starts at 0.0 s, too early after" in refused
    assert f"at: program.json: start_s[{last}]" in refused
    assert "re-run `mcmc compile`" in refused
    assert CliRunner().invoke(cli, ["check", str(out)]).exit_code == 1


PAIR = 'kind = "links"\nlinks = [[0, 1], [0, 2], [1, 3], [2, 4]]'


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("mcm4", "breaks the rule 'range': "),
        ("mcm36", "breaks the rule 'acyclic': "),
        (PAIR, "and no route leads there"),
    ],
)
def test_a_placement_file_for_another_topology_is_refused_by_rule(torus9, tmp_path, target, rule):
    cut, out = torus9.parent / "cut.csv", tmp_path / "out"
    if target == PAIR:
        (tmp_path / "pair.toml").write_text(described(PAIR))
        target = str(tmp_path / "pair.toml")
        names = [row.rsplit(",", 1)[0] for row in cut.read_text().splitlines()]
        rows = [f"{name},{1 + 2 * at // len(names)}" for at, name in enumerate(names[1:])]
        cut = tmp_path / "cut.csv"
        cut.write_text("\n".join(["name,chip", *rows]))
    words = ["compile", "zoo:gpt2-tiny", "--target", target, "-o", str(out), "--replicas", "1"]
    refused = CliRunner().invoke(cli, [*words, "-O0", "--assignment", str(cut)])
    assert refused.exit_code == 1
    assert "error[MCM-F014]" in refused.output
    assert rule in refused.output
    assert "cut.csv" in refused.output
    assert "hint: " in refused.output
    assert not out.exists()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    "topology",
    ['kind = "mesh"\nsize = [1, 1]', 'kind = "line"\nsize = [1]', 'kind = "ring"\nsize = [1]'],
)
def test_a_package_of_one_chip_compiles_without_warnings_and_checks(tmp_path, topology):
    path, out = tmp_path / "one.toml", tmp_path / "out"
    path.write_text(described(topology))
    made = CliRunner().invoke(
        cli,
        [
            "compile",
            "zoo:plain-cnn{stages=1,blocks=1,width=8,image_size=8}",
            "--target",
            str(path),
            "-o",
            str(out),
        ],
    )
    assert made.exit_code == 0, made.output
    assert "nan" not in made.output
    assert CliRunner().invoke(cli, ["check", str(out)]).exit_code == 0
