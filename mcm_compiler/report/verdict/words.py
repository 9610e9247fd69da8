"""Sentences of a verdict that several surfaces render."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcm_compiler.report.records import verdict as records
from mcm_compiler.text.headline import line_text
from mcm_compiler.text.units import count_text, percent_text

VERDICT: Final = "verdict"
"""Name of the field of a report; those of earlier releases lack it."""

NEAR = 0.05
"""A gap below which a better result can gain little."""


def verdict_lines(verdict: Mapping[str, Any]) -> list[str]:
    """The verdict where there is no column for labels: a text per line."""
    return [f"{line['label']}: {line_text(line)}" for line in verdict["lines"]]


def line_of(
    label: str, headline: str, details: list[str], tone: records.Tone = "plain"
) -> records.VerdictLine:
    """A line of a verdict."""
    return {"label": label, "headline": headline, "details": details, "tone": tone}


def optimality_line(claim: records.OptimalityClaim) -> records.VerdictLine:
    """The claim in words."""
    share = claim["gap"]
    if claim["status"] == "none" or share is None:
        details = [*(claim["scope"] or ["no bound is proven"]), *_played(claim)]
        return line_of("optimality", "unknown", details, "warn")
    model = claim["model"] or ""
    # Verdicts in caches of earlier releases lack the kind.
    simulated = claim.get("model_kind") == "simulator"
    under = f"the {model}" if simulated else f"the analytic cost model '{model}'"
    how = f"{claim['status']} under {under}"
    if share <= 0.0:
        headline = f"optimal {claim['of']} ({how})"
    else:
        headline = f"{at_most_text(share)} above the optimal {claim['of']} ({how})"
    details = [f"among {', '.join(claim['scope'])}", *_played(claim)]
    return line_of("optimality", headline, details, "good" if share <= NEAR else "plain")


def at_most_text(share: float | None) -> str:
    """A gap as a claim: `at most 0.4 %`; a small one is not called none."""
    if share is not None and 0.0 < share < 0.0005:
        return "less than 0.1 %"
    return f"at most {percent_text(share)}"


def gap_text(claim: records.OptimalityClaim) -> str:
    """The same for tables, where the head names it: `0.4 %`, `< 0.1 %`, or `-`."""
    share = claim["gap"]
    if claim["status"] == "none" or share is None:
        return "-"
    return "< 0.1 %" if 0.0 < share < 0.0005 else percent_text(share)


def _played(claim: records.OptimalityClaim) -> list[str]:
    """How the simulated period compares with the analytic one."""
    over = claim["simulated_over_model"]
    if over is None:
        return []
    if abs(over) < 0.0005:
        return ["simulation agrees with the analytic model within 0.1 %"]
    side = "slower" if over > 0 else "faster"
    return [f"simulation is {percent_text(abs(over))} {side} than the analytic model"]


def verified_of(verification: Mapping[str, Any] | None) -> records.VerifiedClaim:
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
    verification: Mapping[str, Any] | None,
    claim: records.VerifiedClaim,
    widths: list[records.StoredWidth] | None,
) -> records.VerdictLine:
    """The claim in words.

    Args:
        verification: of the report.
        claim: what `verified_of` makes of it.
        widths: types that chips store in another width than the file.
    """
    if verification is None:
        return line_of("verified", claim["state"], [], "warn")
    headline, tone = _outcome(verification, claim)
    return line_of("verified", headline, _conditions(verification, claim, widths), tone)


def verification_sentence(
    verification: Mapping[str, Any] | None, widths: list[records.StoredWidth] | None = None
) -> str:
    """The line in one sentence."""
    return line_text(verified_line(verification, verified_of(verification), widths))


def _outcome(verification: Mapping[str, Any], claim: records.VerifiedClaim) -> tuple[str, Any]:
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
    verification: Mapping[str, Any],
    claim: records.VerifiedClaim,
    widths: list[records.StoredWidth] | None,
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
    if (classes := verification.get("classes", 1)) > 1:
        details.append(f"each of {classes} classes; those with the ops of another do not run")
    if steps := verification.get("steps"):
        details.append(f"{count_text(steps, 'step')} of a sequence with the states on the chips")
    if claim["ops"] is not None:
        matched = f"{claim['ops_matched']:,} of {count_text(claim['ops'], 'op')} on the chips"
        details.append(f"structure: {matched} proven (constants not counted)")
    return details


def _error(output: Mapping[str, Any]) -> str:
    error = output["max_abs_error"]
    return "more than any number" if error is None else f"{error:.3g}"


def width_phrase(rows: list[records.StoredWidth] | None) -> str | None:
    """Such as `FLOAT stored as 16 bits`; None where all types keep their width."""
    if not rows:
        return None
    shown = [f"{row['type'].upper()} as {row['stored_bits']:g} bits" for row in rows]
    return f"chips store {', '.join(shown)}"
