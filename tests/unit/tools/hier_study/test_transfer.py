"""Devices of weights from another placement: a plug-in that starts a local search from them."""

import dataclasses
import json
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.registry import PLACERS
from mcm_compiler.text import spec_text
from mcm_hardware.families.box.step_simulator import StepSimulator
from tests.generators.unrolled_steps import UnrolledSize, unrolled_box, unrolled_step

PLUGIN = Path(__file__).parents[4] / "tools" / "reproduce" / "hier_study" / "transfer.py"
SIZE = UnrolledSize(layers=2, steps=5, hidden=1024, batch=64, vocabulary=8000)


@pytest.fixture(autouse=True)
def plugin() -> Generator[None]:
    load_plugin(PLUGIN)
    yield
    PLACERS.remove("transfer")
    for module in [one for one in sys.modules if one.startswith("mcm_plugin_transfer")]:
        del sys.modules[module]


@pytest.fixture(scope="module")
def network() -> tuple[StepProblem, Box]:
    box = unrolled_box(2)
    return unrolled_step(SIZE, box), box


def placed(text: str, problem: StepProblem, box: Box, evaluations: int = 40) -> PlacerAnswer:
    spec = spec_text.parse_one(text)
    simulator = StepSimulator(problem, box, StepConditions())
    request = PlacerRequest(problem, box, simulator, evaluations=evaluations)
    return spec_text.instantiate(PLACERS.get(spec.name), spec).place(request)


def test_devices_of_weights_carry_over_to_another_length(
    network: tuple[StepProblem, Box], tmp_path: Path
) -> None:
    carried = sys.modules[PLACERS.get("transfer").__module__].carried_over
    problem, box = network
    short = unrolled_step(dataclasses.replace(SIZE, steps=2), box)
    place = placed("expert", short, box).device_of
    # Variables stand first in both, and have equal names by that.
    holder = zip(short.value_names, short.holder.tolist(), strict=True)
    devices = {name: box.devices[int(place[op])] for name, op in holder if op >= 0}
    longer = carried(problem, box, {f"value{n}": devices[f"value{n}"] for n in range(1, 7)})
    assert longer[1:7].tolist() == place[1:7].tolist()
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(devices))
    answer = placed(f"transfer{{weights={path},robust=false}}", short, box, evaluations=30)
    found = StepSimulator(short, box, StepConditions()).evaluate(answer.device_of[None])
    assert float(found.score[0]) <= dict(answer.figures)["start"]


@pytest.mark.parametrize(
    ("text", "content", "message"),
    [
        ("transfer", None, "names no file"),
        ("transfer{weights=PATH}", "{", "cannot be read"),
        ("transfer{weights=PATH}", "[]", "no object"),
        ("transfer{weights=PATH}", '{"value1": 3}', "other things"),
        ("transfer{weights=PATH}", '{"value1": "gpu:7"}', "none of this box"),
        ("transfer{weights=PATH}", '{"w": "gpu:0"}', "no weight"),
    ],
)
def test_files_that_cannot_be_carried_over(
    network: tuple[StepProblem, Box], tmp_path: Path, text: str, content: str | None, message: str
) -> None:
    path = tmp_path / "weights.json"
    path.write_text(content or "")
    with pytest.raises(CompileError, match=message) as caught:
        placed(text.replace("PATH", str(path)), *network)
    assert caught.value.diagnostics[0].code == "MCM-U002"
