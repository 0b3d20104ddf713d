"""The figures of `bench.edit` beside their baselines and limits, as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Figures = dict[str, float]


@dataclass(frozen=True)
class Row:
    """`figure` of each subject; `beside` is the subject that it is compared with, `limit` what repoagent may take: in
    all, or (`more`) more than that subject."""

    label: str
    figure: str
    unit: str
    beside: str = "aider"
    limit: float | None = None
    more: bool = False


ROWS = (
    Row("command to request", "request", "ms", "import", 400, more=True),
    Row("last byte to commit", "commit", "ms", "git", 300),
    Row("last byte to end", "end", "ms", "aider"),
    Row("in all", "total", "ms", "aider"),
    Row("processor time", "cpu", "ms", "aider"),
    Row("peak memory", "peak", "MiB", "aider", 150),
    Row("  its git processes too", "peak of all", "MiB"),
    Row("tokens sent (bytes / 4)", "tokens", "", "aider"),
    Row("requests", "calls", "", "aider"),
)
NAMES = {"repoagent": "repoagent", "import": "import anthropic", "git": "git commit", "aider": "aider"}


def table(found: Mapping[str, Figures]) -> str:
    """A line for each row: what every subject took, the ratio of repoagent to its baseline, and the limit."""
    columns = [name for name in NAMES if name in found]
    lines = [_line("", [NAMES[name] for name in columns], "ratio", "limit")]
    for row in ROWS:
        cells = [_cell(found[name].get(row.figure), row.unit) for name in columns]
        lines.append(_line(row.label, cells, _ratios(row, found), _verdict(row, found)))
    return "\n".join(lines)


def _line(label: str, cells: list[str], ratio: str, verdict: str) -> str:
    return (f"  {label:24}" + "".join(f"{cell:>18}" for cell in cells) + f"   {ratio:44}{verdict}").rstrip()


def _cell(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.0f} {unit}".rstrip()


def _ratios(row: Row, found: Mapping[str, Figures]) -> str:
    """repoagent as a multiple of each baseline of the row."""
    ours = found["repoagent"][row.figure]
    others = [name for name in dict.fromkeys((row.beside, "aider")) if found.get(name, {}).get(row.figure)]
    return ", ".join(f"{ours / found[name][row.figure]:.2f} x {NAMES[name]}" for name in others)


def _verdict(row: Row, found: Mapping[str, Figures]) -> str:
    if row.limit is None:
        return ""
    taken = found["repoagent"][row.figure] - (found[row.beside][row.figure] if row.more else 0)
    sign = "+" if row.more else ""
    return f"{taken:{sign},.0f} of {sign}{row.limit:,.0f} {row.unit}: {'kept' if taken <= row.limit else 'MISSED'}"
