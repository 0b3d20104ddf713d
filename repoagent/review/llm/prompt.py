"""The prompts of a review: first the part that all calls share, then the part for one call, with foreign text marked as
data."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

from repoagent.agent.describe_tools import protocol_text
from repoagent.agent.state import Tool
from repoagent.edit.guards.off_limits import WhyNot
from repoagent.edit.prompt.blocks import Prompt, name_in_prose, quote_path
from repoagent.edit.prompt.build import masked_prompt
from repoagent.edit.prompt.instruction_files import collect_instructions
from repoagent.errors import Refused, RepoagentError
from repoagent.git.files import read_source
from repoagent.history.file_history import prompt_block
from repoagent.history.neighbors import neighborhood
from repoagent.history.render import candidates_block
from repoagent.llm.model import Part, fence, printable
from repoagent.memory.identity.store import resolve_memory
from repoagent.memory.notes import older_texts
from repoagent.memory.prompt import notes_block
from repoagent.review.change import Change
from repoagent.review.dismissals import verdicts_on
from repoagent.review.llm.chunks import ReviewBlock

if TYPE_CHECKING:
    from repoagent.review.review import ReviewSession

NOTES_TOKENS = 600  # for the notes on one file
HISTORIES, COMMITS = 5, 4  # files of a call whose last commits are included, and how many of each
NEIGHBORS = 8
NAMED, MESSAGE = 60, 4_000  # files of the change that are listed; characters of its message
DISMISSED, REASON = 20, 200  # most recent dismissals that are included; characters of a reason
REQUEST = "Review the lines that changed."


def review_instructions(rules: Sequence[str], tools: Sequence[Tool]) -> str:
    """The part of a prompt that says how to review and how to answer. It is the same for every call."""
    folder = files("repoagent.review.llm") / "prompts"
    texts = {name: (folder / f"{name}.md").read_text(encoding="utf-8") for name in ("review", *rules, "form")}
    kinds = [f"- {texts[rule].strip()}" for rule in rules]
    return "\n".join([texts["review"].rstrip(), *kinds, "", protocol_text(tools), texts["form"]])


class Prompts:
    """The prompts for a review of the files `paths`. `warnings` concern the context files and the dismissals."""

    def __init__(
        self, change: Change, session: ReviewSession, protocol: str, paths: Sequence[str], why_not: WhyNot
    ) -> None:
        self.change, self.session, self.why_not = change, session, why_not
        context_files, warnings = collect_instructions(
            session.worktree.top, session.layout.root, session.settings, paths, why_not
        )
        self.warnings = list(warnings)
        self.system = [Part(protocol, "protocol", cache=True), *context_files]
        self.system[-1] = replace(self.system[-1], cache=True)
        try:
            verdicts = verdicts_on(change, session.worktree, session.layout, warn=session.warn)
        except Refused as error:
            verdicts = {}
            self.warnings.append(f"could not read the dismissals: {error}")
        self.dismissed = [verdict for verdict in verdicts.values() if verdict.state == "dismissed"]

    def about(self, blocks: Sequence[ReviewBlock]) -> Prompt:
        """The prompt that asks about `blocks`."""
        session, top = self.session, self.session.worktree.top
        paths = list(dict.fromkeys(block.path for block in blocks))
        present = [path for path in paths if os.path.lexists(top / path)]
        neighbors = ""
        if present:
            neighbors = candidates_block(
                neighborhood(session.worktree, present, limit=NEIGHBORS), self.why_not
            )
        dismissals = self._dismissals(paths)
        message = printable(self.change.message.replace("\r\n", "\n"))[:MESSAGE]
        sections = (
            ("The whole change touches these files", "files", self._files()),
            ("The commit message (unverified)", "message", message),
            ("Files that changed along with these files", "neighbors", neighbors),
            ("Their last commits", "history", self._histories(present)),
            ("Notes about these files", "memory", "\n\n".join(self._notes(present))),
            ("Findings that the user dismissed; do not report them again", "dismissed", dismissals),
        )
        opening = []
        for title, name, text in sections:
            if text.strip():
                body = fence(f"{text.strip()}\n", name)
                opening.append(Part(f"{title}:\n{body}\n\n", name, cache=name == "files"))
        for path in paths:
            # its name is quoted in the tag only, since it too may contain instructions
            own = [block for block in blocks if block.path == path]
            view, texts = own[0].view, []
            lines = f", {len(view.new):,} lines now" if view.data is not None and view.new else ""
            for block in own:
                scope = f"(in: {' '.join(printable(block.scope).split())})\n" if block.scope else ""
                texts.append(scope + block.text)
            body = fence("...\n".join(texts), f"change path={quote_path(view.path)}")
            opening.append(Part(f"A file ({view.file.status}{lines}):\n{body}\n\n", f"file {path}"))
        return masked_prompt(Prompt(tuple(self.system), (*opening, Part(f"{REQUEST}\n", "request"))))

    def _files(self) -> str:
        """The files of the whole change with their status."""
        lines = []
        for file in self.change.files[:NAMED]:
            was = f" (was {name_in_prose(file.old_path)})" if file.old_path not in ("", file.path) else ""
            lines.append(f"{file.status}: {name_in_prose(file.path)}{was}")
        if (omitted := len(self.change.files) - NAMED) > 0:
            lines.append(f"and {omitted} more")
        return "\n".join(lines)

    def _histories(self, paths: Sequence[str]) -> str:
        worktree, summaries = self.session.worktree, self.session.layout.summaries
        blocks = []
        for path in paths[:HISTORIES]:
            text = prompt_block(worktree, path, COMMITS, self.why_not, summaries=summaries).strip()
            blocks += [f"{name_in_prose(path)}:\n{text}"] if text else []
        return "\n\n".join(blocks)

    def _notes(self, paths: Sequence[str]) -> Iterator[str]:
        """The notes on each file; a memory that cannot be read is skipped with a warning."""
        session = self.session
        if not session.settings.switch("memory.enabled") or not session.layout.memory.is_dir():
            return
        older = older_texts(session.worktree)
        for path in paths:
            try:
                data = read_source(session.worktree, path).data
                if data is None:
                    continue
                memory = resolve_memory(session.layout, session.worktree, path, data, warn=session.warn)
            except RepoagentError as error:
                session.warn(f"skipping the notes on {path}: {error}")
                continue
            notes = notes_block(memory, NOTES_TOKENS, data=data, older=older).strip() if memory else ""
            if notes:
                yield f"{name_in_prose(path)}:\n{notes}"

    def _dismissals(self, paths: Sequence[str]) -> str:
        lines = []
        for verdict in [verdict for verdict in self.dismissed if verdict.path in paths][-DISMISSED:]:
            reason = f" ({' '.join(verdict.reason.split())[:REASON]})" if verdict.reason else ""
            title = " ".join(verdict.title.split())
            lines.append(printable(f"{verdict.rule} in {name_in_prose(verdict.path)}: {title}{reason}"))
        return "\n".join(lines)
