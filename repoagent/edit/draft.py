"""The state of one edit: the draft of its files, what it may change, and what is kept of a refused answer.

A draft never touches the disk. Each accepted answer is folded in, so that several rounds end as one change from the
bytes that were read to the bytes that will be written."""

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
from repoagent.git.files import REGULAR, FileChange, Source, is_ignored, read_source
from repoagent.git.worktree import WorkTree
from repoagent.patch.model import SourceText

if TYPE_CHECKING:
    from repoagent.edit.small_models.excerpts import Window
    from repoagent.llm.conversation import Turn
    from repoagent.llm.media import Attachments, Media
    from repoagent.patch.errors import PatchRefused
    from repoagent.patch.locate.exact import Placement
    from repoagent.patch.targets import Outcome

READ_LIMIT = 24 * 1024  # characters of one `read`, so that a look around cannot fill the window


def read_limit(window: int | None) -> int:
    """The most characters of one `read` for a model with this context window."""
    return READ_LIMIT if window is None else max(1_000, min(READ_LIMIT, window * 3 // 8))


@dataclass(frozen=True)
class Draft:
    """`sources` by path as they were read; `edits` has the change of each file so far, in order of first change."""

    sources: Mapping[str, Source]
    edits: tuple[FileChange, ...] = ()

    def texts(self) -> dict[str, SourceText]:
        """Every file that exists in the draft, by its current path."""
        texts = {
            path: SourceText(source.data, source.mode or REGULAR)
            for path, source in self.sources.items()
            if source.data is not None
        }
        for edit in self.edits:
            texts.pop(edit.old_path or "", None)
        for edit in self.edits:
            if edit.path is not None and edit.after is not None:
                texts[edit.path] = SourceText(edit.after, edit.mode or REGULAR)
        return texts

    def with_source(self, source: Source) -> Draft:
        """The draft with `source` added; a known file keeps its bytes."""
        return (
            self
            if source.path in self.sources
            else replace(self, sources={**self.sources, source.path: source})
        )

    def with_changes(self, changes: Iterable[FileChange]) -> Draft:
        """The draft after `changes`, which are relative to it."""
        edits = list(self.edits)
        for change in changes:
            for number, earlier in enumerate(edits):
                continues = change.old_path is not None and earlier.path == change.old_path
                recreates = (
                    change.old_path is None and earlier.path is None and earlier.old_path == change.path
                )
                if continues or recreates:
                    edits[number] = replace(
                        change, old_path=earlier.old_path, before=earlier.before, old_mode=earlier.old_mode
                    )
                    break
            else:
                edits.append(change)
        changed = (c for c in edits if (c.old_path, c.before, c.old_mode) != (c.path, c.after, c.mode))
        return replace(self, edits=tuple(changed))

    def blobs(self) -> dict[str, str]:
        """The blob id of each file as it was read; "" for one that did not exist."""
        return {path: source.blob for path, source in self.sources.items()}


@dataclass
class EditSession:
    """One edit until it is committed, whether its answer comes from a model, a patch or the segments of a split.

    Only the first group of fields matters where no model is asked.
    """

    worktree: WorkTree
    request: EditRequest
    draft: Draft
    editable: set[str] = field(default_factory=set)
    why_not: WhyNot = lambda path: None
    placements: list[Placement] = field(default_factory=list)
    resume_hint: str = ""  # how to resume when the change cannot be committed now
    form: Form = "diff"
    short: bool = False  # the model is asked without the protocol, so what it is answered is short too
    windows: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    fits: bool = False  # the files are short enough to be asked for as a whole
    reminder: str = ""
    refusals: int = 0  # in a row
    read_limit: int = READ_LIMIT
    seen: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # of files that are not shown whole
    read: Callable[[str], Source] | None = None  # another version of the files than that of the work tree
    at: str | None = None  # where `search` looks: a commit, "" for the index, None for the work tree
    not_ignored: frozenset[str] = frozenset()  # of which git was asked already
    conversation: Path | None = None  # of the run, which `recall` leaves out: the model has it
    attachments: Callable[[], Attachments] | None = None  # None: images and PDFs cannot be shown
    allow: Callable[[Sequence[str]], bool | None] | None = None  # ask whether other files may be changed too
    drafts: bool = False  # what fits of a refused edit is kept, until the rest comes
    kept: tuple[Outcome, ...] = ()  # that, on top of the draft
    missing: dict[str, str] = field(default_factory=dict)  # by path: the part of its edit that is to come
    answers: list[str] = field(default_factory=list)  # that it is from
    refusal: PatchRefused | None = None
    withdraw: str = ""  # how the model drops what is kept, where it can

    @property
    def loose(self) -> bool:
        """Whether a fence without a name may be whole text."""
        return self.short or self.form in LOOSE

    @property
    def still_missing(self) -> str:
        """For the model: what is kept as a draft, and what is missing."""
        names = [result.change.name for result in self.kept]
        kept = ", ".join(f"{name}{' (in part)' * (name in self.missing)}" for name in names)
        missing = "; ".join(self.missing.values())
        text = f"Kept as a draft: {kept}. Still missing: {missing}. Send only what is missing."
        return f"{text} {self.withdraw}".rstrip()

    @property
    def waiting(self) -> str:
        """The same for the user, in one line."""
        hunks = {(place.path, place.line) for result in self.kept for place in result.placements}
        fit = "1 hunk fits and is" if len(hunks) == 1 else f"{len(hunks)} hunks fit and are"
        return f"{fit} kept; waiting for {', '.join(self.missing.values())}"

    def drop_kept(self) -> None:
        """Drop what is kept of a refused edit."""
        self.kept, self.missing, self.answers, self.refusal = (), {}, [], None

    def sent_back(self, text: str) -> str:
        """The answer to a refused edit: why, what is missing, and after some refusals another form to use."""
        if self.missing:
            text = f"{text}\n\n{self.still_missing}"
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
        """The source of `path`, bound on first use. Raises Refused or UsageError if it may not be read."""
        path = path.strip().removeprefix("./")
        if not path:
            raise UsageError('specify the file: path="FILE"')
        if reason := self.why_not(path):
            raise Refused(reason)
        if path not in self.draft.sources:
            source = self.read(path) if self.read else read_source(self.worktree, path)
            self.draft = self.draft.with_source(source)
            found = self.request.scope == "repo" and source.data is not None and path not in self.request.read
            if found and not why_content_is_off_limits(source.data or b"") and not self.is_ignored(path):
                self.editable.add(path)
        return self.draft.sources[path]

    def text(self, source: Source) -> str:
        """The text of a file in the draft. Raises UsageError if there is none."""
        from repoagent.edit.prompt.blocks import shown

        present = self.draft.texts().get(source.path)
        if present is None:
            raise UsageError(f"there is no file {source.path}")
        return shown(present.data)

    def attached(self, turns: Sequence[Turn]) -> Mapping[str, Media | str]:
        """The images and PDFs that turns refer to, see `Attachments.of`."""
        if self.attachments is None or not any("attached" in turn.meta for turn in turns):
            return {}
        return self.attachments().of(turns)

    def is_ignored(self, path: str) -> bool:
        """Whether git ignores the file, which keeps a model from it unless the user named it."""
        if path in self.request.paths or path in self.not_ignored:
            return False
        return path in is_ignored(self.worktree, [path])
