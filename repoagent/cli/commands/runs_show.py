"""`repoagent runs show`: the state, plan, files and last turns of a run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from repoagent.cli.commands.runs import VERSION, as_object, opened, run_argument
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.progress import Fold
from repoagent.cli.ui.sanitize import clean, one_line, paint
from repoagent.cli.ui.table import ago, columns
from repoagent.errors import Refused

if TYPE_CHECKING:
    from repoagent.cli.commands.runs import RunsCommand
    from repoagent.llm.conversation import Turn
    from repoagent.tasks.runs.list import Run

_LEAST, _MOST = 40, 120  # columns
_PLAN, _LINES = 40, 6  # lines of the plan, and of each turn
EXAMPLES = """\b
Examples:
  repoagent runs show last
  repoagent runs show last --turns 10
  repoagent runs show last --json | jq '.run.cost'

Print all turns with `repoagent conversation show NAME`."""


@click.command("show", epilog=EXAMPLES)
@run_argument
@click.option(
    "--turns", metavar="N", type=click.IntRange(min=0), default=4, show_default=True,
    help="Show the last N turns of the conversation.",
)  # fmt: skip
@json_option
@pass_session
def command(session: Session, /, *, run: str, turns: int, as_json: bool) -> None:
    """Show the progress of RUN: state, plan, delegated runs, costs and last turns."""
    from repoagent.tasks.runs.inbox import unread
    from repoagent.tasks.runs.list import children, chosen, runs

    here = opened(session)
    everything = runs(here.layout, warn=here.terminal.warn)
    found = chosen(everything, run)
    below = children(found, everything)
    said, problem = _said(found, turns)
    if as_json:
        content = {
            "version": VERSION,
            "run": as_object(found),
            "children": [as_object(child) for child in below],
            "plan": _plan(found),
            "unread": unread(found.run_dir),
            "turns": [{"role": turn.role, "text": turn.text, **turn.meta} for turn in said],
            "conversation_problem": problem or None,
        }
        here.terminal.result(json.dumps(content, indent=2) + "\n")
        return
    page = _Page(found, here)
    lines = [*page.head(below, unread(found.run_dir)), *page.plan(), *page.files(), *page.said(said, problem)]
    here.terminal.styled("".join(f"{line}\n" for line in lines))


def _said(run: Run, count: int) -> tuple[tuple[Turn, ...], str]:
    """The last turns, and why they cannot be read ("" if they can)."""
    from repoagent.llm.conversation import read

    try:
        found = read(run.run_dir.conversation)
    except Refused as error:
        return (), str(error)
    return (found.turns[-count:] if count else ()) if found else (), ""


def _plan(run: Run) -> str:
    """The text of the plan, "" without a readable one."""
    from repoagent.storage.atomic import read_regular

    try:
        return (read_regular(run.run_dir.plan) or b"").decode("utf-8", "replace")
    except Refused:
        return ""


class _Page:
    def __init__(self, run: Run, here: RunsCommand) -> None:
        from repoagent.cli.ui.terminal import has_utf8

        self._run, self._here = run, here
        self._wide = max(_LEAST, min(_MOST, here.terminal.width)) if here.terminal.shows else None
        self._color, self._utf8 = here.terminal.color, has_utf8(os.environ)

    def head(self, below: list[Run], unread: int) -> Iterator[str]:
        from repoagent.cli.commands.run_options import as_command_line
        from repoagent.cli.commands.runs import cost_of, state_of, status_line
        from repoagent.tasks.runs.directory import resume_command

        run, record = self._run, self._run.record
        state = state_of(run, utf8=self._utf8, color=self._color)
        now = status_line(run)
        yield f"{self._paint(one_line(run.name), 'bold')}  {state}"
        if record.prompt:
            yield from self._wrapped(one_line(record.prompt))
        if now:
            yield from self._pair("now" if run.alive else "problem" if run.problem else "end", now)
        yield from self._pair("started", self._times())
        spent = f"{record.turns:,} turn{'s' * (record.turns != 1)}, {record.tokens:,} tokens"
        yield from self._pair("spent", f"{spent}, {cost_of(run)}")
        limits = ", ".join(f"{name} {value}" for name, value in record.limits.items() if value is not None)
        where = f"{record.pid} on {record.host}" if record.pid else ""
        kind = record.kind if record.kind != "run" else ""
        commits = ", ".join(commit[:12] for commit in record.commits)
        for name, value in (
            ("limits", limits), ("kind", kind), ("model", record.model), ("mode", record.mode),
            ("options", as_command_line(record.said)),
            ("works in", record.worktree), ("branch", record.branch), ("commits", commits),
            ("parent", record.parent), ("process", where if run.alive or run.state == "elsewhere" else ""),
        ):  # fmt: skip
            if value:
                yield from self._pair(name, one_line(value))
        if unread:
            yield from self._pair("unread", f"{unread:,} message{'s' * (unread != 1)} in the inbox")
        for child in below:
            now = state_of(child, utf8=self._utf8, color=False)
            about = f"{now}  {child.record.tokens:,} tokens  {cost_of(child)}  {child.record.prompt}"
            yield from self._pair("child", one_line(f"{child.short}  {about}"))
        if run.state in ("killed", "stopped", "limit", "failed", "conversation"):
            yield from self._pair("resume", one_line(resume_command(run.name, record.kind)))

    def plan(self) -> Iterator[str]:
        found = _plan(self._run).splitlines()
        if found:
            yield ""
            yield self._paint("plan", "bold")
            for line in found[:_PLAN]:
                yield from self._wrapped(one_line(line.replace("\t", "    ")))
            if len(found) > _PLAN:
                yield from self._wrapped(f"and {len(found) - _PLAN:,} more lines")

    def files(self) -> Iterator[str]:
        at = self._run.run_dir
        every = (at.conversation, at.plan, at.checkpoint, at.output, at.changes, at.folder)
        found = [path for path in every if path.exists()]
        if found:
            yield ""
            yield self._paint("files", "bold")
            for path in found:
                yield f"  {one_line(self._here.shown(path))}{'/' if path.is_dir() else ''}"

    def said(self, turns: tuple[Turn, ...], problem: str) -> Iterator[str]:
        if not (turns or problem):
            return
        yield ""
        yield self._paint("last turns", "bold")
        if problem:
            yield from self._wrapped(one_line(f"unreadable: {problem}"))
        for turn in turns:
            about = " · ".join(turn.meta[key] for key in ("kind", "time") if key in turn.meta)
            yield from self._wrapped(self._dim(one_line(f"{turn.role} {about}".rstrip())))
            lines = [line for line in clean(turn.text).splitlines() if line.strip()]
            for line in lines[:_LINES]:
                yield from self._wrapped(one_line(line), "    ")
            if len(lines) > _LINES:
                yield f"    {self._dim(f'and {len(lines) - _LINES:,} more lines')}"

    def _times(self) -> str:
        run, record = self._run, self._run.record
        if not run.begun:
            return "unknown"
        first = datetime.fromtimestamp(run.begun).astimezone()
        from repoagent.tasks.runs.record import moment

        ended = moment(record.ended)
        took = f", took {_span(ended - run.begun)}" if ended > run.begun else ""
        again = ", resumed" if record.started and record.started != record.begun else ""
        return f"{first:%Y-%m-%d %H:%M} ({ago(max(0.0, time.time() - run.begun))}{took}{again})"

    def _pair(self, name: str, value: str) -> Iterator[str]:
        head = f"{name:9}"
        first, *rest = self._wrapped(value, " " * 11)
        yield f"  {self._dim(head)}{first[11:]}"
        yield from rest

    def _wrapped(self, text: str, indent: str = "  ") -> list[str]:
        if self._wide is None or columns(text) + len(indent) <= self._wide:
            return [indent + text]
        fold = Fold(self._wide - len(indent))
        return [indent + line for line in (fold.feed(text) + fold.rest()).split("\n")]

    def _paint(self, text: str, *styles: str) -> str:
        return paint(text, *styles) if self._color else text

    def _dim(self, text: str) -> str:
        return self._paint(text, "dim")


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
