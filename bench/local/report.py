"""What happened, as a table: a line for each run as it ends, and what became of all runs of a format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.local.runs import OUTCOMES, PASTE, Result

HEAD = (
    f"{'task':20}{'language':11}{'lines':>6}  {'format':8}{'loop':5}{'outcome':9}"
    f"{'calls':>6}{'tokens':>15}{'seconds':>9}"
)


def row(result: Result) -> str:
    tokens = f"{result.tokens_in:,} + {result.tokens_out:,}"
    loop = "on" if result.loop else "off"
    line = (
        f"{result.task:20}{result.language:11}{result.lines:>6}  {result.format:8}{loop:5}{result.outcome:9}"
        f"{result.calls:>6}{tokens:>15}{result.seconds:>9.0f}"
    )
    return (
        line
        if result.outcome == "solved" or not result.note
        else f"{line}  {' '.join(result.note.split())[:90]}"
    )


def summary(results: Iterable[Result]) -> str:
    """A line for each format with and without the loop, and how many times as many were solved as by the baseline in
    the same tasks."""
    groups: dict[tuple[str, bool], list[Result]] = {}
    for result in results:
        groups.setdefault((result.format, result.loop), []).append(result)
    heads = "".join(f"{name:>9}" for name in OUTCOMES)
    lines = [f"{'format':9}{'loop':5}{'tasks':>6}{heads}{'tokens':>19}{'seconds':>9}  solved, x paste"]
    base = {result.task: result for result in groups.get((PASTE, False), [])}
    for (kind, loop), found in sorted(groups.items()):
        counts = "".join(f"{sum(result.outcome == name for result in found):>9}" for name in OUTCOMES)
        spent = f"{sum(r.tokens_in for r in found):,} + {sum(r.tokens_out for r in found):,}"
        seconds = sum(result.seconds for result in found)
        ratio = "" if kind == PASTE else _ratio(found, base)
        switch = "on" if loop else "off"
        line = f"{kind:9}{switch:5}{len(found):>6}{counts}{spent:>19}{seconds:>9.0f}  {ratio}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def _ratio(found: Sequence[Result], base: dict[str, Result]) -> str:
    both = [result for result in found if result.task in base]
    if not both:
        return ""
    ours = sum(result.outcome == "solved" for result in both)
    theirs = sum(base[result.task].outcome == "solved" for result in both)
    return f"{ours} / {theirs} in {len(both)}" + (f" = {ours / theirs:.2f}" if theirs else "")
