"""The headline of the page is the verdict's."""

from mcm_compiler.page.contents import answers_of
from mcm_compiler.report.verdict.claims import verdict_of


def test_the_answers_are_the_lines_of_the_verdict_as_they_are(chain):
    *found, deploy = answers_of(chain)
    shown = [(a.question, a.answer, list(a.details), a.tone) for a in found]
    lines = verdict_of(chain.report)["lines"]
    assert shown == [(x["label"], x["headline"], x["details"], x["tone"]) for x in lines]
    files = [entry.file for entry in chain.folder.manifest.chips]
    assert deploy.answer == f"{files[0]} to {files[-1]}"
