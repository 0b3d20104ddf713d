"""The state of one edit: the draft of its files and the files it may change.

A draft never touches the disk. Each accepted answer is merged into it, so that several rounds become one change from
the bytes that were read to the bytes to write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.guards.off_limits import WhyNot, why_content_is_off_limits
from repoagent.edit.prompt.formats import LOOSE, Form, form_after, reminder
from repoagent.edit.request import EditRequest
from repoagent.errors import Refused, UsageError
from repoagent.git.files import Content, FileChange, Source, is_ignored, read_source
from repoagent.git.worktree import WorkTree

if TYPE_CHECKING:
    from repoagent.edit.small_models.excerpts import FilePart
    from repoagent.llm.conversation import Turn
    from repoagent.llm.media import Attachments, Media
    from repoagent.patch.locate.exact import Placement

READ_LIMIT = 24 * 1024  # characters of one `read`, so that a few of them do not fill the context window


def read_limit(window: int | None) -> int:
    """The maximum number of characters that one `read` returns to a model with this context window (in tokens)."""
    return READ_LIMIT if window is None else max(1_000, min(READ_LIMIT, window * 3 // 8))


@dataclass(frozen=True)
class Draft:
    sources: Mapping[str, Source]  # the files as read, by path
    edits: tuple[FileChange, ...] = ()  # one per file, in the order of the first change

    def texts(self) -> dict[str, Content]:
        """All files that exist in the draft, by current path."""
        texts = {path: source.content for path, source in self.sources.items() if source.content is not None}
        for edit in self.edits:
            texts.pop(edit.old_path or "", None)
        for edit in self.edits:
            if edit.path is not None and edit.new is not None:
                texts[edit.path] = edit.new
        return texts

    def with_source(self, source: Source) -> Draft:
        if source.path in self.sources:
            return self
        return replace(self, sources={**self.sources, source.path: source})

    def with_changes(self, changes: Iterable[FileChange]) -> Draft:
        """The draft with `changes`, which are relative to this draft."""
        edits = list(self.edits)
        for change in changes:
            for number, earlier in enumerate(edits):
                continues = change.old_path is not None and earlier.path == change.old_path
                recreates = (
                    change.old_path is None and earlier.path is None and earlier.old_path == change.path
                )
                if continues or recreates:
                    edits[number] = replace(change, old_path=earlier.old_path, old=earlier.old)
                    break
            else:
                edits.append(change)
        return replace(self, edits=tuple(change for change in edits if not change.is_noop))

    def blobs(self) -> dict[str, str]:
        """The blob id of each file as read; "" if it did not exist."""
        return {path: source.blob for path, source in self.sources.items()}


@dataclass
class EditSession:
    """The state of one edit until it is committed. An edit without a model uses only the fields up to `resume_hint`."""

    worktree: WorkTree
    request: EditRequest
    draft: Draft
    editable: set[str] = field(default_factory=set)
    why_not: WhyNot = lambda path: None
    placements: list[Placement] = field(default_factory=list)
    resume_hint: str = ""  # how to resume if the change cannot be committed now
    form: Form = "diff"
    short: bool = False  # prompts without the protocol, and short observations, for a small model
    windows: Mapping[str, tuple[FilePart, ...]] = field(default_factory=dict)
    fits: bool = False  # the files are short enough to be rewritten as a whole
    reminder: str = ""
    refusals: int = 0  # in a row
    owed: int = 0  # hunks of a refused edit that the model was asked to send again
    read_limit: int = READ_LIMIT
    seen: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # line ranges shown of a long file
    read: Callable[[str], Source] | None = None  # reads another version of the files than the work tree
    at: str | None = None  # what `search` searches: a commit, "" for the index, None for the work tree
    not_ignored: frozenset[str] = frozenset()  # paths that git is known not to ignore
    conversation: Path | None = None  # of this run: `recall` skips it, because the model has it
    attachments: Callable[[], Attachments] | None = None  # None: images and PDFs cannot be shown
    allow: Callable[[Sequence[str]], bool | None] | None = None  # asks whether to add files to the scope

    @property
    def loose(self) -> bool:
        """Whether a code fence without a file name can contain a whole file or function."""
        return self.short or self.form in LOOSE

    def sent_back(self, text: str) -> str:
        """The message that tells the model that its edit was refused: `text` and, after several refusals, another
        answer format."""
        before = form_after(self.form, self.refusals, fits=self.fits)
        self.refusals += 1
        form = form_after(self.form, self.refusals, fits=self.fits)
        if form != before:
            from repoagent.edit.prompt.blocks import prompt_text

            self.reminder = reminder(form, self.request.paths) if self.short else ""
            text = f"{text}\n\nNow write the edit in another form.\n\n{prompt_text(form)}{self.reminder}"
            return text.rstrip()
        return f"{text}\n{self.reminder}".rstrip()

    def source(self, path: str) -> Source:
        """Read the file `path`, or return it from the cache. Raises Refused or UsageError if it may not be read."""
        path = path.strip().removeprefix("./")
        if not path:
            raise UsageError('specify the file: path="FILE"')
        if reason := self.why_not(path):
            raise Refused(reason)
        if path not in self.draft.sources:
            source = self.read(path) if self.read else read_source(self.worktree, path)
            self.draft = self.draft.with_source(source)
            in_scope = self.request.scope == "repo" and path not in self.request.read
            if in_scope and source.data is not None and not why_content_is_off_limits(source.data):
                self.editable |= set() if self.is_ignored(path) else {path}
        return self.draft.sources[path]

    def text(self, source: Source) -> str:
        """The text of a file in the draft. Raises UsageError if the file does not exist."""
        from repoagent.edit.prompt.blocks import model_text

        present = self.draft.texts().get(source.path)
        if present is None:
            raise UsageError(f"no such file: {source.path}")
        return model_text(present.data)

    def attached(self, turns: Sequence[Turn]) -> Mapping[str, Media | str]:
        if self.attachments is None or not any("attached" in turn.meta for turn in turns):
            return {}
        return self.attachments().of(turns)

    def is_ignored(self, path: str) -> bool:
        """Whether git ignores the file. Always False for a file that the user named."""
        if path in self.request.paths or path in self.not_ignored:
            return False
        return path in is_ignored(self.worktree, [path])
