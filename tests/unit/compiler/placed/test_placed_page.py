import numpy as np
import pytest

from mcm_compiler.page.contents import page_bytes
from mcm_compiler.placed.folder_reading import open_placement
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placed_page import (
    devices_section,
    placed_graph_section,
    placed_page,
    search_section,
    segments_section,
    step_section,
)
from mcm_compiler.placed.placement_checks import ReadPlacement
from mcm_compiler.placed.placing import place_model
from tests.oracles.unpacked import unpacked


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    folder = tmp_path_factory.mktemp("placed") / "out"
    options = PlaceOptions(placer="expert", pins=(("*layer.1*", "gpu:0"),))
    place_model("zoo:bert-tiny", "box-2gpu", options, output=folder)
    return ReadPlacement(open_placement(folder))


def test_devices_are_as_busy_as_the_record_says(read):
    data = devices_section(read).view.data
    record = read.opened.record
    assert data["names"] == [device.device for device in record.devices]
    for drawn, device in zip(data["chips"], record.devices, strict=True):
        share = device.busy_s / record.step.seconds
        assert drawn["busy"] == (pytest.approx(share) if device.ops else None)


def test_copies_are_arrows_that_carry_all_of_them(read):
    links = devices_section(read).view.data["links"]
    took = float((read.trace.copy_end_s - read.trace.copy_start_s).sum())
    seconds = read.opened.record.step.seconds
    assert sum(link["busy"] for link in links) * seconds == pytest.approx(took)
    assert {(k["from"], k["to"]) for k in links} == {
        *zip(read.trace.copy_from.tolist(), read.trace.copy_to.tolist(), strict=True)
    }


def test_the_timeline_has_every_op_that_takes_time(read):
    data = step_section(read).view.data
    labels, label = unpacked(data["labels"]), unpacked(data["label"])
    took = read.trace.end_s > read.trace.start_s
    ops = [labels[i] for i in label if i < read.problem.num_ops]
    assert sorted(ops) == sorted(np.array(read.problem.names)[took].tolist())
    assert unpacked(data["length"]).sum() > 0


def test_the_graph_has_every_op_on_its_device(read):
    data = placed_graph_section(read).view.data
    assert unpacked(data["names"]) == list(read.problem.names)
    assert unpacked(data["places"]).tolist() == read.device_of.tolist()


def test_search_and_segments_are_those_of_the_folder(read):
    search = read.opened.record.search
    section = search_section(read)
    if len(search.history) > 1:
        assert section.view.data["y"] == [score for _, score in search.history]
    files = [entry.file for entry in read.opened.schedule.segments]
    assert [row[0] for row in segments_section(read).tables[0].rows] == files


def test_the_page_answers_what_one_asks(read):
    page = placed_page(read)
    answers = {answer.question: answer for answer in page.answers}
    assert answers["fits"].answer.endswith("of 3 devices")
    assert "step simulator" in answers["optimality"].answer
    assert answers["to deploy"].answer.startswith("segment_000.onnx")
    assert {answer.section for answer in page.answers} <= {s.key for s in page.sections} | {""}
    assert page_bytes(page) == page_bytes(placed_page(read))
