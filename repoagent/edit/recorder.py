"""What an edit records: the commit message with its trailers, the memory of each file, and the requests sent.

Requests, and reply blocks other than text, are in `.repoagent/sent/`, by hash, for some days."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from repoagent.agent.loop import account
from repoagent.agent.state import State, open_state
from repoagent.dataclass import dataclass
from repoagent.edit.commit import CommitOutcome, compose, trailers_of, with_trailers
from repoagent.edit.memory import Story, remember
from repoagent.edit.model_setup import ModelSetup
from repoagent.edit.pending_memory import Pending, to_remember
from repoagent.edit.prompt.build import Prepared
from repoagent.edit.ui import UserInterface
from repoagent.edit.unfinished import conversation_file, forget, set_aside
from repoagent.errors import RepoagentError
from repoagent.git.files import FileChange
from repoagent.git.process import uninterrupted
from repoagent.git.worktree import layout
from repoagent.llm.client import holds_secret, masked
from repoagent.llm.conversation import Turn
from repoagent.llm.model import Blocks, Reply, Request, public, render
from repoagent.llm.registry import provider_of
from repoagent.llm.usage import estimate_tokens
from repoagent.storage.atomic import read_regular, write_whole
from repoagent.storage.layout import Layout
from repoagent.storage.secrets import mask, without_secrets

DAY_SECONDS = 86_400
PLAIN = 65_536  # bytes of a request that is kept as it is
VERSION = 1


def keep_sent(dirs: Layout, request: Request) -> str:
    """Store the text of a request in `sent/` and return its name there, a hash of the text.

    Long requests are gzipped: in a long run each repeats the one before.
    """
    text = render(masked(request)).encode("utf-8", "surrogateescape")
    name = sha256(text).hexdigest()[:24]
    path = dirs.sent / (f"{name}.txt" if len(text) <= PLAIN else f"{name}.txt.gz")
    if not path.exists():
        write_whole(path, text if len(text) <= PLAIN else gzip.compress(text, mtime=0))
    return name


def keep_blocks(dirs: Layout, reply: Reply) -> dict[str, str]:
    """Store the thinking and the tool calls of a reply, to be sent back with its turn.

    Returns metadata for the turn: `blocks`, the file name, and `thought`, about how many tokens the thinking adds to a
    request. Nothing is stored of a reply whose thinking contains a key.
    """
    blocks = reply.blocks
    if blocks is None or holds_secret(blocks.items):
        return {}
    record = {
        "version": VERSION,
        "text": _hash(reply.text),
        "spec": blocks.spec,
        "prefix": blocks.prefix,
        "calls": blocks.calls,
        "items": blocks.items,
    }
    data = json.dumps(record).encode()
    name = sha256(data).hexdigest()[:24]
    write_whole(dirs.sent / f"{name}.json", data)
    thought = estimate_tokens(blocks.unseen)
    return {"blocks": name, **({"thought": str(thought)} if thought else {})}


def blocks_of(dirs: Layout, turn: Turn) -> Blocks | None:
    """What `keep_blocks` stored for a turn; None if the file is gone or the turn was edited."""
    name = turn.meta.get("blocks", "")
    if not name.isalnum():
        return None
    record = _read(dirs.sent / f"{name}.json")
    if record is None or record["text"] != _hash(turn.text):
        return None
    calls = tuple((call, tag) for call, tag in record["calls"])
    return Blocks(record["spec"], tuple(record["items"]), record["prefix"], calls)


def forget_sent(dirs: Layout, days: int) -> None:
    """Remove requests older than `days` days; at most once a day, since there may be many."""
    present = time.time()
    looked = dirs.sent / "looked-through"
    if looked.exists() and 0 <= present - looked.stat().st_mtime < DAY_SECONDS:
        return
    if not dirs.sent.is_dir():
        return
    write_whole(looked, b"")
    for path in dirs.sent.glob("*.*"):  # requests, what came back besides the text, images and PDFs
        try:
            if path.stat().st_mtime < present - days * DAY_SECONDS:
                path.unlink()
        except FileNotFoundError:  # another process was quicker
            continue


def _read(path: Path) -> dict[str, Any] | None:
    data = read_regular(path)
    try:
        record = json.loads(data or b"null")
    except ValueError:  # cut short by a crash, or changed by hand: the text says enough
        return None
    return record if isinstance(record, dict) and record.get("version") == VERSION else None


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def model_of_record(spec: str, turns: Sequence[Turn]) -> str:
    """The model to record: for a replay the recorded one, for a command the one that it reports."""
    if provider_of(spec).reports_model:
        spec = next((turn.meta.get("model", spec) for turn in turns[::-1] if turn.role == "assistant"), spec)
    return public(spec)


@dataclass
class EditLog:
    """Writes the record of an edit when it ends; `pending` has it until it is in the memory of its files."""

    prepared: Prepared
    model_setup: ModelSetup
    ui: UserInterface
    pending: Pending

    @property
    def edit_id(self) -> str:
        return self.pending.name

    def message(self, state: State, changes: Sequence[FileChange]) -> str:
        """The whole commit message with its trailers."""
        tool_context, settings = self.prepared.tool_context, self.model_setup.settings
        words, _ = account(self.prepared.tools, state)
        text = compose(words, tool_context.request.instruction, settings.text("commit.trailer"))
        model = model_of_record(self.model_setup.model.spec, state.turns)
        worktree = tool_context.worktree
        return with_trailers(
            text, trailers_of(worktree, settings, model, self.edit_id, changes), worktree.top
        )

    def save_pending(self, state: State) -> None:
        """Save what has to be recorded once the change is made: a kill after that must not lose it."""
        tool_context = self.prepared.tool_context
        if self.model_setup.settings.switch("memory.enabled"):
            story = self._story(state, "answered", "")
            content = to_remember(story, tool_context.draft.edits, tool_context.placements)
            self.pending.keep(self.prepared.memories, content)

    def remember(self, result: CommitOutcome | None, ended: str, answer: str) -> None:
        """Record how the edit ended in the memory of each file, and its conversation with it.

        The edit is done: neither ^C nor a memory that cannot be written makes it look undone.
        """
        tool_context, settings = self.prepared.tool_context, self.model_setup.settings
        dirs = layout(tool_context.worktree)
        with uninterrupted():
            try:
                if settings.switch("memory.enabled"):
                    state = open_state(conversation_file(dirs, self.edit_id))
                    remember(
                        tool_context.worktree, self._story(state, ended, answer), tool_context.draft.sources,
                        self.prepared.memories, tool_context.request.paths,
                        result=result, limit=settings.whole("memory.limit"),
                    )  # fmt: skip
            except (RepoagentError, OSError) as error:
                if result is not None and self.pending.descriptor is not None:
                    forget(dirs, self.edit_id)
                    what = "the next command will retry"
                else:
                    what = f"its conversation is saved in {set_aside(dirs, self.edit_id)}"
                self.ui.say(f"warning: could not record this edit in memory ({error}); {what}")
                return
            if result is not None:
                self.pending.drop()
            try:
                forget(dirs, self.edit_id)
                forget_sent(dirs, settings.whole("sent.keep_days"))
                days = settings.whole_or_none("conversations.keep_days")
                if days is not None:
                    from repoagent.memory.archive.gc import forget_daily

                    forget_daily(dirs, days)
            except (RepoagentError, OSError) as error:
                self.ui.say(f"warning: could not remove old files ({error})")

    def _story(self, state: State, ended: str, answer: str) -> Story:
        _, notes = account(self.prepared.tools, state)
        return Story(
            edit_id=self.edit_id,
            request=self.prepared.tool_context.request.instruction,
            turns=state.turns,
            notes=notes,
            ended=ended,
            answer=mask(without_secrets(answer)),
            model=model_of_record(self.model_setup.model.spec, state.turns),
            usage=self.model_setup.meter.usage,
            cost=self.model_setup.meter.cost,
        )
