"""The child of the kind `review`: the review of the program itself, of what is not committed yet."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from repoagent.agent import Observation, fence
from repoagent.history.index.background import ITSELF
from repoagent.llm.usage import cost_text
from repoagent.work.kinds import Budget

MOST = 40  # findings


def review(top: str, model: str, budget: Budget, seconds: float | None) -> Observation:
    """Review the work tree against HEAD with `model`, and tell the findings."""
    arguments = ["review", "--worktree", "--json", "--ask", "--model", model]
    if budget.cost is not None:
        arguments += ["--max-cost", str(budget.cost)]
    try:
        done = subprocess.run(
            [sys.executable, *ITSELF, *arguments],
            cwd=top,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return Observation("delegate", f"The review took more than {seconds:g} s and was ended.", ok=False)
    try:
        report = json.loads(done.stdout)
        findings = list(report["findings"])
    except (ValueError, KeyError, TypeError):
        said = (
            done.stderr.decode("utf-8", "replace").strip() or done.stdout.decode("utf-8", "replace").strip()
        )
        return Observation("delegate", f"The review failed: {said[:500]}", ok=False)
    lines = [_line(finding) for finding in findings[:MOST]]
    notes = [str(note) for note in report.get("notes") or ()]
    text = fence("\n".join(lines), "findings") if lines else "The review found nothing."
    tokens, cost = report.get("tokens") or 0, report.get("cost")
    price = f", {cost_text(cost)}" if isinstance(cost, (int, float)) else ""
    head = f"The child finished, {tokens:,} tokens{price}:"
    data = {"kind": "review", "findings": len(findings), "ended": "done", "tokens": tokens, "cost": cost}
    return Observation("delegate", "\n".join([head, text, *notes]), data=data)


def _line(finding: dict[str, Any]) -> str:
    place = f"{finding.get('path')}:{finding.get('line') or finding.get('start') or ''}".rstrip(":")
    why = finding.get("why") or finding.get("message") or ""
    return f"{place} [{finding.get('level')}, {finding.get('rule')}] {finding.get('title')}: {why}"
