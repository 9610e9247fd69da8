from itertools import pairwise

import numpy as np
import pytest

from mcm_compiler.page.contents import Compiled
from mcm_compiler.page.timeline_view import timeline_section
from mcm_compiler.report.sentences import round_of
from tests.oracles.unpacked import unpacked


def drawn(compiled):
    section = timeline_section(compiled)
    assert section is not None
    data = section.view.data
    keys = ("ptr", "begin", "length", "label", "group", "labels")
    return data, *(unpacked(data[key]) for key in keys)


@pytest.mark.parametrize("which", ["chain", "pair"])
def test_a_period_of_the_steady_state_has_each_kernel_once(which, request):
    compiled = request.getfixturevalue(which)
    data, ptr, _, length, label, _, labels = drawn(compiled)
    periods = round(data["span"] / data["period"])
    assert periods >= 1
    by_name = {row["name"]: i for i, row in enumerate(data["rows"])}
    for chip in compiled.program.chips:
        row = slice(*ptr[by_name[f"chip {chip.chip}"] :][:2])
        for kernel in chip.kernels:
            own = [i for i in range(*row.indices(len(length))) if labels[label[i]] == kernel.name]
            # Those that the window cuts count for the part that is seen.
            assert length[own].sum() == pytest.approx(periods * kernel.duration_s, rel=1e-3)


@pytest.mark.parametrize("which", ["chain", "pair"])
def test_no_resource_does_two_things_at_once_and_all_lies_in_the_window(which, request):
    data, ptr, begin, length, *_ = drawn(request.getfixturevalue(which))
    assert begin.min() >= 0
    assert (begin + length).max() <= data["span"] * (1 + 1e-6)
    for a, b in pairwise(ptr):
        assert (begin[a + 1 : b] - (begin + length)[a : b - 1]).min(initial=0) > -2e-9


def test_inferences_follow_each_other_on_every_row(chain):
    _, ptr, _, _, label, group, _ = drawn(chain)
    steps = {1, round_of(chain.report)}
    for a, b in pairwise(ptr):
        for one in np.unique(label[a:b]):
            assert set(np.diff(group[a:b][label[a:b] == one]).tolist()) <= steps


def test_without_a_folder_there_is_no_timeline(chain):
    assert timeline_section(Compiled(chain.report)) is None
