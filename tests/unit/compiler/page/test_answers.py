import pytest

from mcm_compiler.page.answers import answers_of
from mcm_compiler.page.sources import Compiled
from mcm_compiler.report.report_data import build_report
from tests.generators.example_result import bare_result, example_result


def asked(report, question):
    found = {answer.question: answer for answer in answers_of(Compiled(report))}
    return found.get(question)


@pytest.fixture
def report():
    return dict(build_report(example_result()))


def test_a_chip_that_holds_the_rest_back_is_named_with_its_cause(report):
    answer = asked(report, "What holds it back?")
    assert answer.answer == "chip 1"
    text = " ".join(answer.details)
    assert "99.9 %" in text
    assert "array of multipliers sets the pace of 50.0 %" in text
    assert "layer1.1" in text


def test_a_link_is_named_with_its_largest_tensor(report):
    worst = dict(report["bottleneck"], kind="link", chip=None, source=0, destination=1)
    worst["heaviest_tensors"] = [{"name": "h0", "bytes": 1 << 20}]
    answer = asked({**report, "bottleneck": worst}, "What holds it back?")
    assert answer.answer == "the link from chip 0 to chip 1"
    assert "'h0', has 1.0 MiB" in " ".join(answer.details)


def test_a_cycle_of_waits_is_told(report):
    worst = dict(report["bottleneck"], sets_period=False)
    answer = asked({**report, "bottleneck": worst}, "What holds it back?")
    assert "cycle of waits for buffers" in " ".join(answer.details)


def test_the_fullest_chip_says_whether_it_fits(report):
    assert asked(report, "Does it fit?").answer == "yes"
    assert "chip 2" in asked(report, "Does it fit?").details[0]
    row = dict(report["chips"][0], sram_high_water_bytes=65 << 20)
    over = asked({**report, "chips": [row, *report["chips"][1:]]}, "Does it fit?")
    assert (over.answer, over.tone) == ("no", "bad")


def test_a_small_gap_is_good_and_a_large_one_is_not(report):
    assert asked({**report, "gap": 0.01}, "How far from the optimum?").tone == "good"
    assert asked({**report, "gap": 0.2}, "How far from the optimum?").tone == "plain"
    unknown = asked({**report, "lower_bound_s": None}, "How far from the optimum?")
    assert unknown.answer == "not known"


def test_a_difference_of_outputs_is_bad(report):
    outputs = [dict(report["verification"]["outputs"][0], holds=False, bit_equal=False)]
    wrong = dict(report["verification"], holds=False, outputs=outputs)
    answer = asked({**report, "verification": wrong}, "Does it compute the same?")
    assert (answer.answer, answer.tone) == ("no", "bad")
    none = asked({**report, "verification": None}, "Does it compute the same?")
    assert (none.answer, none.tone) == ("not compared", "warn")


def test_a_pipeline_that_computed_next_to_nothing_says_so():
    report = dict(build_report(bare_result()))
    assert asked(report, "Does it fit?").answer == "not planned"
    assert asked(report, "How fast is it?").answer == "not simulated"
    assert asked(report, "What holds it back?") is None


QUESTION = "What would another chip bring?"


def row(resource, factor, speedup, key="chip.x"):
    return {"resource": resource, "factor": factor, "speedup": speedup, "faults": [],
            "keys": {key: 1.0}}  # fmt: skip


def test_the_change_of_the_chip_that_brings_most_is_told_then_what_else_and_what_nothing(report):
    rows = [
        row("lanes", 2.0, 1.01),
        row("lanes", 0.5, 0.999),
        row("array", 2.0, 1.62),
        row("array", 0.5, 0.55),
        row("SRAM", 2.0, 1.05),
        row("SRAM", 0.5, None),
        row("link", 2.0, 1.0),
        row("chips", 2.0, 2.0, "package.num_chips"),
        row("chips", 0.5, 0.5, "package.num_chips"),
    ]
    answer = asked({**report, "sensitivities": rows}, QUESTION)
    assert answer.answer == "1.62 x"
    assert answer.details == (
        "the throughput with twice the array",
        "2.00 x with twice the chips",
        "1.05 x with twice the SRAM",
        "twice the lanes or the link brings nothing",
        "it does not run with half the SRAM",
        "0.55 x with half the array",
        "half the lanes costs nothing",
    )
    assert asked(report, QUESTION) is None


def test_that_no_change_helps_is_told(report):
    rows = [row("lanes", 2.0, 1.01), row("lanes", 0.5, 0.8)]
    answer = asked({**report, "sensitivities": rows}, QUESTION)
    assert (answer.answer, answer.details) == ("nothing", ("0.80 x with half the lanes",))


def test_more_chips_are_told_first_where_no_change_of_the_chip_helps(report):
    rows = [row("lanes", 2.0, 1.01), row("chips", 2.0, 1.9, "package.num_chips")]
    answer = asked({**report, "sensitivities": rows}, QUESTION)
    assert answer.answer == "1.90 x"
    assert answer.details == (
        "the throughput with twice the chips",
        "twice the lanes brings nothing",
    )


def test_chips_that_are_hardly_less_busy_are_counted(report):
    first, second, *rest = [dict(row, utilisation=0.5) for row in report["chips"]]
    worst = report["bottleneck"]["chip"]
    for busy in (0, 1):
        rows = [dict(row, utilisation=1.0) if row["chip"] == worst else row
                for row in (first, second, *rest)]  # fmt: skip
        if busy:
            other = next(at for at, row in enumerate(rows) if row["chip"] != worst)
            rows[other] = dict(rows[other], utilisation=0.96)
        details = asked({**report, "chips": rows}, "What holds it back?").details
        told = [text for text in details if "other chip" in text]
        assert told == ["1 other chip is busy 95.0 % of the time or more"] * busy


def test_chips_of_equal_pipelines_hold_back_alike(report):
    question = "What holds it back?"
    pipelines = dict(report["replication"] or {}, replicas=4, chips_each=3, chips=[])
    with_pipelines = {**report, "replication": pipelines}
    assert asked(with_pipelines, question).answer == "chip 1 of each pipeline"
    pipelines["chips_each"] = 1
    assert asked(with_pipelines, question).answer == "every chip"


def test_the_files_to_deploy_are_those_of_the_folder(chain):
    answer = {a.question: a for a in answers_of(chain)}["What do I deploy?"]
    files = [entry.file for entry in chain.folder.manifest.chips]
    assert answer.answer == f"{files[0]} to {files[-1]}"
