from mcm_compiler.page.contents import Answer, Section, linked


def test_links_to_sections_that_are_not_there_are_dropped():
    answers = (
        Answer("a", "1", section="there"),
        Answer("b", "2", section="gone"),
        Answer("c", "3"),
    )
    found = linked(answers, [Section("there", "There")])
    assert [answer.section for answer in found] == ["there", "", ""]
    assert [answer.question for answer in found] == ["a", "b", "c"]
