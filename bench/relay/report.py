"""What the runs of a relay took, and what they were refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.relay.server import blocks_of, text_of

_OBSERVATION = re.compile(r"(?s)<observation-(\w+)(?: kind=\"([\w.-]+)\")?>\n(.*?)\n</observation-\1>")
# Kinds of observations that always say no, and how the others begin that do.
_NO = {
    "correction",
    "repeated",
    "objection",
    "unfinished",
    "before_finish",
    "check",
    "hook",
    "reminder",
    "skipped",
}
_BEGINS = re.compile(
    r"(?i)(there is no |not |nothing |say what|skipped|.*\b(?:was|were) not (?:run|done|started|performed))"
)


def report(folder: Path, run: str = "", *, whole: bool = False) -> str:
    """A line for each run, below it one for each refusal in it (all of its text with `whole`)."""
    lines = [f"{'run':24}{'calls':>6}{'fresh':>9}{'cached':>9}{'out':>8}{'seconds':>9}{'refusals':>10}"]
    for log in sorted(folder.glob(f"{run or '*'}/log.jsonl")):
        calls = [json.loads(line) for line in log.read_text().splitlines()]
        fresh, cached, out, seconds = (
            sum(call[name] for call in calls) for name in ("fresh", "cached", "out", "seconds")
        )
        refused = list(refusals(log.parent))
        lines.append(
            f"{log.parent.name:24}{len(calls):>6}{fresh:>9,}{cached:>9,}{out:>8,}{seconds:>9,.0f}{len(refused):>10}"
        )
        lines += [
            f"    {where}: {said if whole else said.partition(chr(10))[0][:160]}" for where, said in refused
        ]
    return "\n".join(lines)


def refusals(run: Path) -> Iterator[tuple[str, str]]:
    """("003 edit", what it says) for each observation that was new in a request and says no."""
    seen: Counter[tuple[str, str]] = Counter()
    for path in sorted(run.glob("*.request.json")):
        now = Counter(_observations(json.loads(path.read_text())))
        for kind, text in (now - seen).elements():
            if _says_no(kind, text):
                yield f"{path.name[:3]} {kind or 'result'}", text
        seen |= now


def _observations(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for role, block in blocks_of(body):
        if role == "user" and block["type"] == "tool_result":
            content = block.get("content") or ""
            said = content if isinstance(content, str) else "\n".join(map(text_of, content))
            yield ("is_error" if block.get("is_error") else ""), said
        elif role == "user" and block["type"] == "text":
            yield from ((found[2] or "", found[3]) for found in _OBSERVATION.finditer(block["text"]))


def _says_no(kind: str, text: str) -> bool:
    if kind == "edit":
        return not text.startswith(("Applied", "applied"))
    return kind == "is_error" or kind in _NO or bool(_BEGINS.match(text))
