"""The comparison with the source model, as a claim and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcm_compiler.report.storage_section import width_phrase
from mcm_compiler.text.units import count_text

if TYPE_CHECKING:
    from mcm_compiler.report.records.verdict import StoredWidth, VerdictLine, VerifiedClaim


def verified_of(verification: Mapping[str, Any] | None) -> VerifiedClaim:
    """The claim of a comparison; None is a comparison that was not run."""
    found = verification or {"outputs": [], "seeds": [], "skipped": None, "holds": True}
    proof = found.get("structure")  # reports of the first release lack it
    outputs = found["outputs"]
    if verification is None:
        state = "not run"
    elif found["skipped"] is not None:
        state = "skipped"
    elif not found["holds"]:
        state = "failed"
    else:
        exact = all(output["bit_equal"] for output in outputs)
        state = "bit-identical" if exact else "within tolerance"
    return {
        "state": state,
        "precision": "file",
        "outputs": len(outputs),
        "random_inputs": len(found["seeds"]),
        "data_sets": len(found.get("data_sets") or ()),  # likewise
        "ops_matched": proof["proven"] if proof else None,
        "ops": proof["ops"] if proof else None,
    }


def verified_line(
    verification: Mapping[str, Any] | None, claim: VerifiedClaim, widths: list[StoredWidth] | None
) -> VerdictLine:
    """The claim in words.

    Args:
        verification: of the report.
        claim: what `verified_of` makes of it.
        widths: types that chips store in another width than the file.
    """
    line: VerdictLine = {
        "label": "verified",
        "headline": claim["state"],
        "details": [],
        "tone": "warn",
    }
    if verification is not None:
        line["headline"], line["tone"] = _outcome(verification, claim)
        line["details"] = _conditions(verification, claim, widths)
    return line


def verification_sentence(
    verification: Mapping[str, Any] | None, widths: list[StoredWidth] | None = None
) -> str:
    """The line in one sentence."""
    line = verified_line(verification, verified_of(verification), widths)
    return "; ".join([line["headline"], *line["details"]])


def _outcome(verification: Mapping[str, Any], claim: VerifiedClaim) -> tuple[str, Any]:
    given = [count_text(n, "random input")] if (n := claim["random_inputs"]) else []
    given += [count_text(n, "data set")] if (n := claim["data_sets"]) else []
    inputs = " and ".join(given) or "no input"
    outputs = verification["outputs"]
    if claim["state"] == "skipped":
        return f"skipped: {verification['skipped']}", "warn"
    if claim["state"] == "failed":
        wrong = [output for output in outputs if not output["holds"]]
        first = f", first '{wrong[0]['output']}' by {_error(wrong[0])}" if wrong else ""
        count = f"{len(wrong)} of {len(outputs)} outputs wrong on {inputs}"
        return f"FAILED: {count}{first}", "bad"
    compared = f"({count_text(len(outputs), 'output')}, {inputs}, onnxruntime)"
    if claim["state"] == "bit-identical":
        return f"bit-identical to the source {compared}", "good"
    exact = sum(1 for output in outputs if output["bit_equal"])
    worst = max((output["max_abs_error"] or 0.0 for output in outputs), default=0.0)
    rest = f", {exact} of them bit-identical" if exact else ""
    return f"within tolerance of the source, error {worst:.3g}{rest} {compared}", "good"


def _conditions(
    verification: Mapping[str, Any], claim: VerifiedClaim, widths: list[StoredWidth] | None
) -> list[str]:
    """At which precision, and what was not compared."""
    details: list[str] = []
    if claim["state"] in ("bit-identical", "within tolerance"):
        stored = width_phrase(widths)
        details.append(
            "at the precision of the file"
            + (f"; {stored}, which is not part of the comparison" if stored else "")
        )
    # Reports of the first release lack the next and the random outputs.
    if verification.get("expected") and claim["state"] != "failed":
        details.append("as the data sets expect")
    if constant := verification.get("constant_outputs"):
        details.append(f"{count_text(len(constant), 'output')} did not change with the input")
    if random := verification.get("random_outputs"):
        details.append(f"{count_text(len(random), 'random output')} not compared")
    if steps := verification.get("steps"):
        details.append(f"{count_text(steps, 'step')} of a sequence with the states on the chips")
    if claim["ops"] is not None:
        matched = f"{claim['ops_matched']:,} of {count_text(claim['ops'], 'op')} on the chips"
        details.append(f"structure: {matched} proven (constants not counted)")
    return details


def _error(output: Mapping[str, Any]) -> str:
    error = output["max_abs_error"]
    return "more than any number" if error is None else f"{error:.3g}"
