"""Build the prompt of one call: stable parts first, for the provider's cache, and foreign text as data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

from repoagent.agent.parse_reply import protocol_text
from repoagent.agent.state import Tool
from repoagent.config.settings import user_file
from repoagent.edit.guards.off_limits import WhyNot
from repoagent.edit.prompt.blocks import Prompt, named, quoted
from repoagent.edit.prompt.build import masked_prompt
from repoagent.edit.prompt.instruction_files import USER_FILE, collect, context_parts
from repoagent.errors import RepoagentError
from repoagent.git.files import read_source
from repoagent.history.file_history import prompt_block
from repoagent.history.neighbors import neighborhood
from repoagent.history.render import candidates_block
from repoagent.llm.model import Part, fence, printable
from repoagent.memory.identity.store import resolve
from repoagent.memory.notes import older_texts
from repoagent.memory.prompt import notes_block
from repoagent.review.change import Change
from repoagent.review.dismissals import Verdict
from repoagent.review.llm.chunks import Block

if TYPE_CHECKING:
    from repoagent.review.llm.review import ReviewSession

NOTES_TOKENS = 600  # for the notes on one file
HISTORIES, COMMITS = 5, 4  # files of a call whose last commits are included, and how many of each
NEIGHBORS = 8
NAMED, MESSAGE = 60, 4_000  # files of the change that are listed; characters of its message
DISMISSED, REASON = 20, 200  # most recent dismissals that are included; characters of a reason
REQUEST = "Review the lines that changed."


def instructions(rules: Sequence[str], tools: Sequence[Tool]) -> str:
    """How to review and how to answer; the same for all calls of all reviews."""
    folder = files("repoagent.review.llm") / "prompts"
    names = ("review", *rules, "form")
    texts = {name: (folder / f"{name}.md").read_text(encoding="utf-8") for name in names}
    kinds = [f"- {texts[rule].strip()}" for rule in rules]
    return "\n".join([texts["review"].rstrip(), *kinds, "", protocol_text(tools), texts["form"]])


def repository(
    session: ReviewSession, paths: Sequence[str], why_not: WhyNot
) -> tuple[list[Part], tuple[str, ...]]:
    """The context files of the user and the repository, and warnings about them."""
    settings, user = session.settings, user_file(os.environ).with_name(USER_FILE)
    collected = collect(
        session.worktree.top, session.layout.root, settings.texts("context"), paths, why_not,
        user=user, budget=settings.whole("context_limit"),
    )  # fmt: skip
    return context_parts(collected), collected.warnings


def prompt_for(
    change: Change, session: ReviewSession, blocks: Sequence[Block], *,
    protocol: str, context: Sequence[Part], dismissed: Sequence[Verdict] = (),
) -> Prompt:  # fmt: skip
    """The prompt that asks about `blocks`."""
    system = [Part(protocol, "protocol", cache=True), *context]
    system[-1] = replace(system[-1], cache=True)
    paths = list(dict.fromkeys(block.path for block in blocks))
    present = [path for path in paths if os.path.lexists(session.worktree.top / path)]
    neighbors = neighborhood(session.worktree, present, limit=NEIGHBORS) if present else None
    message = printable(change.message.replace("\r\n", "\n"))[:MESSAGE]
    dismissals = _dismissals(dismissed[-DISMISSED:])
    opening = [
        replace(_section("The whole change touches these files", "files", _files(change)), cache=True),
        _section("The commit message (unverified)", "message", message),
        _section(
            "Files that changed along with these files",
            "neighbors",
            candidates_block(neighbors) if neighbors else "",
        ),
        _section("Their last commits", "history", _histories(session, present)),
        _section("Notes about these files", "memory", _notes(session, present)),
        _section("Findings that the user dismissed; do not report them again", "dismissed", dismissals),
    ]
    opening = [part for part in opening if part.text]
    for path in paths:
        opening.append(Part(_file(path, [block for block in blocks if block.path == path]), f"file {path}"))
    return masked_prompt(Prompt(tuple(system), (*opening, Part(f"{REQUEST}\n", "request"))))


def _section(title: str, name: str, text: str) -> Part:
    """A section of foreign text as data; an empty one for an empty text."""
    body = f"{text.strip()}\n"
    return Part(f"{title}:\n{fence(body, name)}\n\n" if text.strip() else "", name)


def _files(change: Change) -> str:
    """The files of the whole change with their status."""
    lines = []
    for file in change.files[:NAMED]:
        was = f" (was {named(file.old_path)})" if file.old_path not in ("", file.path) else ""
        lines.append(f"{file.status}: {named(file.path)}{was}")
    if len(change.files) > NAMED:
        lines.append(f"and {len(change.files) - NAMED} more files")
    return "\n".join(lines)


def _file(path: str, blocks: Sequence[Block]) -> str:
    """The blocks of one file. Its name is quoted in the tag only, since it too may contain instructions."""
    view = blocks[0].view
    lines = len(view.new) if view.data is not None else 0
    properties = f"{view.file.status}{f', {lines:,} lines now' if lines else ''}"
    parts = []
    for block in blocks:
        scope = f"(in: {' '.join(printable(block.scope).split())})\n" if block.scope else ""
        parts.append(scope + block.text)
    body = fence("...\n".join(parts), f"change path={quoted(path)}")
    return f"A file ({properties}):\n{body}\n\n"


def _histories(session: ReviewSession, paths: Sequence[str]) -> str:
    def block(path: str) -> str:
        return prompt_block(session.worktree, path, COMMITS, summaries=session.layout.summaries).strip()

    paths = paths[:HISTORIES]
    with ThreadPoolExecutor(HISTORIES) as executor:
        histories = dict(zip(paths, executor.map(block, paths), strict=True))
    return "\n\n".join(f"{named(path)}:\n{block}" for path, block in histories.items() if block)


def _notes(session: ReviewSession, paths: Sequence[str]) -> str:
    """The notes in the memory of each file; a memory that cannot be read is skipped with a warning."""
    if not session.settings.switch("memory.enabled") or not session.layout.memory.is_dir():
        return ""
    older = older_texts(session.worktree)
    blocks = []
    for path in paths:
        try:
            data = read_source(session.worktree, path).data
            if data is None:
                continue
            memory = resolve(session.layout, session.worktree, path, data, warn=session.warn)
        except RepoagentError as error:
            session.warn(f"skipping the notes on {path}: {error}")
            continue
        if memory is not None:
            notes = notes_block(memory, NOTES_TOKENS, data=data, older=older).strip()
            blocks += [f"{named(path)}:\n{notes}"] if notes else []
    return "\n\n".join(blocks)


def _dismissals(dismissed: Sequence[Verdict]) -> str:
    lines = []
    for verdict in dismissed:
        reason = f" ({' '.join(verdict.reason.split())[:REASON]})" if verdict.reason else ""
        title = " ".join(verdict.title.split())
        lines.append(printable(f"{verdict.rule} in {named(verdict.path)}: {title}{reason}"))
    return "\n".join(lines)
