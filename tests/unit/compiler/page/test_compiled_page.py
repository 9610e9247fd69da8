from mcm_compiler.page.compiled_page import compiled_page
from mcm_compiler.page.contents import Compiled, page_bytes
from mcm_compiler.report.report_data import build_report
from tests.generators.example_result import bare_result


def test_sections_come_in_the_order_in_which_one_asks(chain):
    keys = [section.key for section in compiled_page(chain).sections]
    assert keys == [
        "package", "bottleneck", "timeline", "bound", "memory", "graph", "verification", "files",
    ]  # fmt: skip


def test_answers_lead_to_sections_that_are_there(chain):
    for compiled in (chain, Compiled(chain.report)):
        page = compiled_page(compiled)
        keys = {section.key for section in page.sections}
        assert {answer.section for answer in page.answers} <= keys | {""}
        text = page_bytes(page).decode()
        assert all(f'id="{key}"' in text for key in keys)


def test_a_pipeline_that_computed_next_to_nothing_has_a_page():
    page = compiled_page(Compiled(dict(build_report(bare_result()))))
    assert page.title == "zoo:example on example3"
    assert page_bytes(page)
