"""The published times of kernels, and the losses that follow from them."""

from __future__ import annotations

from tools.reproduce.machines import kernel_times, measured_losses


def test_published_times_have_whole_columns() -> None:
    records = kernel_times.kept()
    assert len(records) >= 40
    assert kernel_times.DATA.stat().st_size < 5_000_000
    for one in records:
        columns = [one[name] for name in ("names", "kind", "seconds", "spread")]
        assert len({len(column) for column in columns}) == 1
        assert set(one["kind"]) == set(range(len(one["distinct"])))
        assert {len(row) for row in one["distinct"]} == {len(kernel_times.FEATURES)}
        assert abs(sum(one["seconds"]) / one["session_s"] - 1) < 0.3
        assert one["machine"]["cpu"]


def test_losses_are_shares_above_the_best_period() -> None:
    periods = {case: [2.0, 1.5, 1.0, 1.0] for case in measured_losses.CASES}
    records = [{"chips": 4, "best_s": 1.0, "periods": periods}] * 3
    found = dict(measured_losses.summary(records, 4))
    assert len(found) == 3 * len(periods)
    loss, change, over_known = list(found.values())[:3]
    assert loss[:2] == ["100.0 [100.0, 100.0]", "50.0 [50.0, 50.0]"]
    assert change[:2] == ["0.0 [0.0, 0.0]", "-50.0 [-50.0, -50.0]"]
    assert over_known == ["0.0 [0.0, 0.0]"] * 4
