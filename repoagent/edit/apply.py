"""Apply a patch that does not come from a model, and commit it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.display_text import list_some
from repoagent.edit.checks import preflight, refuse_untracked
from repoagent.edit.commit import (
    CommitOutcome,
    SentBack,
    compose_message,
    new_edit_id,
    with_own_trailers,
    without_claims,
)
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.guards.off_limits import holds_secrets, off_limits_gate, why_content_is_off_limits
from repoagent.edit.request import EditRequest, Target, named_files
from repoagent.edit.review_and_commit import review_and_commit
from repoagent.edit.ui import UserInterface
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.git.files import Content, FileChange, Source, blob_hash, is_ignored, read_source
from repoagent.git.index import Entry
from repoagent.git.objects import from_blob
from repoagent.git.process import git
from repoagent.git.transaction.plan import refuse_operation
from repoagent.git.worktree import WorkTree
from repoagent.patch.apply_answer import apply_patches, read_answer
from repoagent.patch.model import FilePatch
from repoagent.patch.paths import NO_FILE, bad_path, path_spellings
from repoagent.patch.refusal import NOTHING_TO_DO, NoPatch, PatchRefused
from repoagent.storage.json_files import timestamp
from repoagent.syntax.regressions import parses_worse

NAMED = 3  # files in a subject


@dataclass(frozen=True)
class ApplyOutcome:
    edit_id: str
    result: CommitOutcome
    seconds: float  # wall time without waiting for the user

    @property
    def kind(self) -> str:
        return self.result.kind


def apply(
    worktree: WorkTree,
    patch_input: PatchInput,
    request: EditRequest,
    settings: Settings,
    ui: UserInterface,
    *,
    prefix: str = "",
    bindings: Mapping[str, str] | None = None,
) -> ApplyOutcome:
    """Apply the patch and commit it as the user's own.

    `request.targets` is the file for a patch that names none; `request.instruction` is the commit message, "" to use
    the patch's own. Names in the patch may be relative to the folder `prefix` ("" or ending in /). `bindings` maps
    paths to the blobs that the patch was made for. If a step raises an exception, nothing is changed.
    """
    started = time.monotonic()
    preflight(worktree, request)
    if request.commits:
        refuse_operation(worktree)
    session, remarks = _placed(worktree, patch_input, request, prefix, bindings or {})
    touched = tuple(Target(change.old_path or change.name) for change in session.draft.edits)
    refuse_untracked(worktree, replace(request, targets=touched), session.draft.sources)

    def message(changes: Sequence[FileChange]) -> str:
        if words := request.instruction or patch_input.message:
            return words
        name = "a patch" if patch_input.name == STANDARD_INPUT else Path(patch_input.name).name
        return compose_message(
            f"Apply {name}: change {list_some([each.name for each in changes], NAMED)}", ""
        )

    edit_id, result = commit_change(session, settings, ui, message, remarks=remarks)
    return ApplyOutcome(edit_id, result, time.monotonic() - started - ui.waited)


def commit_change(
    session: EditSession,
    settings: Settings,
    ui: UserInterface,
    words: Callable[[Sequence[FileChange]], str],
    *,
    kind: str = "apply",
    remarks: tuple[str, ...] = (),
) -> tuple[str, CommitOutcome]:
    """Commit a change that does not come from a model, and record it in memory as `kind`. Returns the edit id and the
    outcome.

    The commit message is the one that `words` returns, with repoagent's trailers. Raises NothingDone if the user
    rejects the change, CheckFailed for a failed check or hook, and the other errors of `review_and_commit`.
    """
    edit_id, worktree, changes = new_edit_id(), session.worktree, session.draft.edits

    def make_commit() -> CommitOutcome:
        def message(changes: Sequence[FileChange]) -> str:
            return with_own_trailers(words(changes), worktree, settings, changes, edit_id=edit_id)

        try:
            return review_and_commit(session, edit_id, message, ui, remarks=remarks)
        except SentBack as setback:  # a model would have to correct it
            if setback.kind == "person":
                raise NothingDone("cancelled: nothing was changed.") from setback
            raise setback.failure("" if setback.kind == "hook" else "Nothing was changed.") from setback

    if session.request.dry_run or not settings.switch("memory.enabled"):
        return edit_id, make_commit()
    from repoagent.edit.memory import EditSummary, commit_and_remember
    from repoagent.llm.conversation import Turn
    from repoagent.llm.model import Usage

    text = words(changes).strip()
    files = named_files([Target(change.name) for change in changes])
    turn = Turn("user", text, {"edit": edit_id, "time": timestamp(), "kind": kind, **files})
    story = EditSummary(edit_id, text, (turn,), (), "applied", "", "", Usage(), None)
    return edit_id, commit_and_remember(session, settings, edit_id, lambda: story, make_commit, say=ui.say)


class Tree(Mapping[str, Content]):
    """The current contents of the files `names`. Each file is read with `read` on first access, and kept in
    `sources`."""

    def __init__(self, names: Collection[str], read: Callable[[str], Source]) -> None:
        self.sources: dict[str, Source] = {}
        self._names = dict.fromkeys(names)
        self._read = read

    def __getitem__(self, path: str) -> Content:
        if path not in self._names:
            raise KeyError(path)
        content = self.source(path).content
        if content is None:
            raise Refused(
                f"{path} is missing from the work tree but is tracked: restore it with `git restore {path}` (or, "
                "in a sparse checkout, `git sparse-checkout add FOLDER`), or commit its removal first"
            )
        return content

    def source(self, path: str) -> Source:
        if path not in self.sources:
            self.sources[path] = self._read(path)
        return self.sources[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, path: object) -> bool:
        return path in self._names


def _placed(
    worktree: WorkTree,
    patch_input: PatchInput,
    request: EditRequest,
    prefix: str,
    bindings: Mapping[str, str],
) -> tuple[EditSession, tuple[str, ...]]:
    """Apply the patch to the current files; returns the session, and notes for the user.

    Raises NothingDone if the patch is already applied, and what reading and applying raise.
    """
    top, known = worktree.top, set(os.fsdecode(git(worktree.top, "ls-files", "-z")).split("\0")[:-1])

    def exists(name: str) -> bool:
        return name in known or (bad_path(name) is None and os.path.lexists(top / name))

    patches = from_folder(_read_patches(patch_input, known, request.paths), exists, prefix)
    names = possible_paths(patches)
    # all names count as named by the user here, so that only `.repoagentignore` applies; `read` checks for secrets
    why_not = off_limits_gate(top, known | names)

    def read(path: str) -> Source:
        if reason := why_not(path):
            raise Refused(reason)
        is_allowed = path in request.paths or request.allow_sensitive
        if not is_allowed and holds_secrets(path):
            raise Refused(
                f"{path} has a name typical of secret files: use --allow-sensitive to let the patch change it"
            )
        source = read_source(worktree, path)
        if path not in known and path not in request.paths and path in is_ignored(worktree, [path]):
            raise Refused(
                f"{path} is ignored by git, so a patch may not change it: use --path {path} to allow it"
            )
        if not is_allowed and (reason := why_content_is_off_limits(source.data or b"")):
            raise Refused(f"refusing to edit {path}: {reason}; use --allow-sensitive to edit it anyway")
        return source

    present = Tree(known | set(filter(exists, names)), read)
    bound = {path: bound_source(worktree, present.source(path), blob) for path, blob in bindings.items()}
    files = Tree(tuple(present), lambda path: bound.get(path) or present.source(path)) if bound else present
    try:
        applied = apply_patches(
            patches, files, may_create=lambda path: files.source(path).data is None, strict=request.strict,
            parses_worse=parses_worse if request.parse_check else None,
        )  # fmt: skip
    except NoPatch:
        raise Refused(f"{patch_input.name} contains no patch for these files") from None
    except PatchRefused as error:
        if error.reasons <= NOTHING_TO_DO:
            raise NothingDone(f"no changes: {patch_input.name} is already applied") from error
        error.shows_lines = True
        raise
    if any(placement.level == "whole-file" for placement in applied.placements):
        from repoagent.edit.guards.unrequested_losses import left_out

        if lost := left_out(applied, f"{patch_input.message} {request.instruction}", patch_input.text):
            raise Refused(lost)
    if unchanged := bindings.keys() - {change.old_path for change in applied.changes}:
        raise UsageError(
            f"the patch does not change {', '.join(sorted(unchanged))}: use --source only for files that it changes"
        )
    changes = tuple(_rebased(worktree, request, change, present) for change in applied.changes)
    remarks = [
        f"{path} has changed since {bindings[path]}; the change was merged into its current text"
        for path, source in bound.items()
        if source.blob != present.source(path).blob
    ]
    if patch_input.author and not request.commit.no_commit:
        me = git(top, "var", "GIT_AUTHOR_IDENT", ok=(0, 1, 128)).decode("utf-8", "replace")
        if not me or not patch_input.author.endswith(me[me.find("<") : me.find(">") + 1]):
            remarks.append(
                f"the patch was written by {patch_input.author}, but you will be the author of the commit: "
                "use `git am` to keep the author"
            )
    sides = (path for change in changes for path in (change.old_path, change.path) if path)
    draft = Draft({path: present.source(path) for path in sides}).with_changes(changes)
    if not draft.edits:
        raise NothingDone(f"no changes: the files already match {patch_input.name}")
    return EditSession(worktree, request, draft, placements=list(applied.placements)), tuple(remarks)


def _rebased(worktree: WorkTree, request: EditRequest, change: FileChange, present: Tree) -> FileChange:
    """Merge the change to an older text (`--source`) into the current one, by git's three-way merge. Raises Refused on
    conflict, and if the merged text parses worse."""
    source = present.sources.get(change.old_path or "")
    if source is None or source.data is None or source.data == change.before:
        return change
    from repoagent.git.merge import Conflict, lines_text, merge

    if change.after is None or change.before is None:
        raise Refused(
            f"{change.name} has changed since the patch that deletes it was made: review it and recreate the patch"
        )
    merged = merge(worktree, source.data, change.before, change.after)
    if isinstance(merged, Conflict):
        where = f", on {lines_text(merged.lines)} of the original" if merged.lines else ""
        raise Refused(f"{change.name} has changed since the patch was made{where}: recreate the patch")
    if request.parse_check and (reason := parses_worse(change.name, source.data, merged)):
        raise Refused(f"after the merge with the current text, {reason} Use --no-parse-check to accept it.")
    return change.with_data(source.data, merged)


def _read_patches(
    patch_input: PatchInput, known: Collection[str], paths: Sequence[str]
) -> tuple[FilePatch, ...]:
    """The patches in `patch_input`; those without a name get the one in `paths`. `known` are the existing files.

    Raises Refused if there is no patch, UsageError if a name is missing, or if the patches name other files.
    """
    name, patches = patch_input.name, read_answer(patch_input.text, known=known)
    if not patches and "\0" in patch_input.text:
        raise UsageError(f"{name} is binary: a patch must be text")
    if not patches:
        raise Refused(
            f"{name} contains no patch: expected a unified diff, SEARCH/REPLACE blocks, or whole files with their names"
        )
    nameless = [patch for patch in patches if patch.old is None and patch.new is None]
    if nameless and not paths:
        raise UsageError(f"{name} does not say which file it changes: name it with --path FILE")
    if paths and not nameless:
        own: dict[str, None] = {}
        for patch in patches:
            old, new = path_spellings(patch.old, patch.new)
            own[(new or old or [patch.name])[0]] = None
        if paths[0] not in own:
            raise UsageError(f"{name} names its own files ({', '.join(own)}): omit --path")
    return tuple(replace(patch, new=paths[0]) if patch in nameless else patch for patch in patches)


def from_folder(
    patches: Sequence[FilePatch], known: Callable[[str], bool], prefix: str
) -> tuple[FilePatch, ...]:
    """Rewrite the names in `patches`, which may be relative to the folder `prefix` ("" or ending in /), as paths from
    the top.

    A name is relative to the folder if its file exists there but not at the top. The name of a new file is relative to
    the folder if all other names are.
    """
    if not prefix:
        return tuple(patches)
    names: list[str | None] = []  # the existing file below the folder; "" if below the top, None if new
    for patch in patches:
        old, new = path_spellings(patch.old, patch.new)
        sides = old if patch.action in {"rename", "copy"} else [*new, *old]
        sides = [name for name in sides if ".." not in name]
        local = next((name for name in sides if known(prefix + name)), None)
        names.append("" if any(map(known, sides)) else local)
    all_local = any(names) and "" not in names
    renamed = []
    for patch, name in zip(patches, names, strict=True):
        old, new = path_spellings(patch.old, patch.new)
        path = prefix + (name or (new or old or [""])[0])
        if not name and not (all_local and name is None):
            renamed.append(patch)
        elif patch.action in {"rename", "copy"}:
            renamed.append(replace(patch, old=f"{prefix}{patch.old}", new=f"{prefix}{patch.new}"))
        elif patch.form != "diff":
            renamed.append(replace(patch, old=None if patch.old is None else path, new=path))
        else:
            from_ = patch.old if patch.old in {None, NO_FILE} else f"a/{path}"
            to = patch.new if patch.new in {None, NO_FILE} else f"b/{path}"
            renamed.append(replace(patch, old=from_, new=to))
    return tuple(renamed)


def possible_paths(patches: Sequence[FilePatch]) -> set[str]:
    """All paths that the names in `patches` may refer to, with and without `a/` and `b/`."""
    return {name for patch in patches for side in path_spellings(patch.old, patch.new) for name in side}


def parse_bindings(texts: Sequence[str]) -> dict[str, str]:
    """Parse `PATH=BLOB` options into blob ids by path. Raises UsageError for an invalid option, and for two blobs for
    one path."""
    bindings: dict[str, str] = {}
    for text in texts:
        path, _, blob = text.rpartition("=")
        blob = blob.lower()
        if not path or not re.fullmatch(r"[0-9a-f]{7,64}", blob):
            raise UsageError(f"--source {text}: use PATH=BLOB with at least 7 hex digits of the blob id")
        if bindings.setdefault(path, blob) != blob:
            raise UsageError(f"--source names {path} twice, with different blobs")
    return bindings


def bound_source(worktree: WorkTree, present: Source, blob: str) -> Source:
    """Return the version of a file that has the blob id `blob` (or a prefix of it), either raw or as git stores it.

    This is `present` if it matches, and otherwise what a checkout of the blob would write. Raises Refused if there is
    no such blob, UsageError if several blobs match.
    """
    path, current, top = present.path, present.content, worktree.top
    if current is None:
        raise Refused(
            f"{path} no longer exists, but the patch was made for its blob {blob}: restore the file first "
            "(in a sparse checkout, with `git sparse-checkout add FOLDER`)"
        )
    if present.blob.startswith(blob):
        return present
    if git(top, "hash-object", "--stdin", f"--path={path}", stdin=current.data).decode().startswith(blob):
        return present
    names = git(top, "rev-parse", f"--disambiguate={blob}").decode()
    checked = git(top, "cat-file", "--batch-check", stdin=names.encode()).decode()
    blobs = [line.split()[0] for line in checked.splitlines() if line.split()[1:2] == ["blob"]]
    if len(blobs) > 1:
        raise UsageError(f"--source {path}={blob}: {len(blobs)} blobs match; use more digits of the id")
    content = from_blob(worktree, path, Entry(current.mode, blobs[0])) if blobs else None
    if content is None:
        raise Refused(
            f"{path} is now blob {present.blob[:12]}, but the patch was made for {blob[:12]}, and git does not have "
            "that blob: recreate the patch for the current text"
        )
    return replace(present, content=content, blob=blob_hash(content.data, worktree.object_format))


STANDARD_INPUT = "standard input"
_MAIL = re.compile(
    rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From \S+ .*\d\d:\d\d:\d\d.* \d{4}\s*$", re.MULTILINE
)  # the first line of a mail in a mailbox
_HEADERS = re.compile(rb"(?:[A-Za-z][\w-]*:[ \t].*\r?\n(?:[ \t]+\S.*\r?\n)*)+(?=\r?\n)")
_SHOWN = re.compile(r"^commit [0-9a-f]{40,64}\b.*\n(?=(?:Merge|Author): )", re.MULTILINE)
# the rest of the head of a commit, its indented message and notes
_SHOWN_HEAD = re.compile(r"(?:[A-Z]\w*:[ \t]+.*\n)+\r?\n(?:(?:    .*|Notes.*:)?\r?\n)*")


@dataclass(frozen=True)
class PatchInput:
    """A patch as read: its `name` in messages to the user, the `text` that contains it (bytes that are not UTF-8 as
    surrogates), and the commit `message` and `author`, "" if unknown."""

    name: str
    text: str
    message: str = ""
    author: str = ""


def read_patch_input(name: str, data: bytes, cwd: Path) -> PatchInput:
    """Separate the patch in `data` from its commit message and author. Raises UsageError for an empty input, Refused
    for several commits."""
    if not data.strip():
        raise UsageError(f"{name} is empty: it contains no patch")
    data = data.removeprefix(b"\xef\xbb\xbf")
    mails = [match.start() for match in _MAIL.finditer(data)]
    if len(mails) > 1 and mails[0] == 0:
        raise Refused(
            f"{name} contains {len(mails)} emails, each a separate commit: apply them with `git am`, or one by "
            "one (`git mailsplit` splits them)"
        )
    headers = _HEADERS.match(data)
    fields = {line.partition(b":")[0].lower() for line in headers[0].splitlines()} if headers else set()
    if mails[:1] == [0] or (b"subject" in fields and fields & {b"from", b"date"}):
        with TemporaryDirectory(prefix="repoagent-") as folder:  # decode and split the mail as `git am` does
            words_file, patch_file = Path(folder, "message"), Path(folder, "patch")
            out = git(cwd, "mailinfo", "--encoding=UTF-8", str(words_file), str(patch_file), stdin=data)
            body = words_file.read_bytes().decode("utf-8", "replace")
            text = patch_file.read_bytes().decode("utf-8", "surrogateescape")
        rows = out.decode("utf-8", "replace").splitlines()
        info = dict(row.split(": ", 1) for row in rows if ": " in row)
        author = f"{info.get('Author', '')} <{info.get('Email', '')}>".strip()
        subject = info.get("Subject", "")
        if text.strip():
            subject = "\n\n".join(filter(None, [subject.strip(), body.strip("\n").rstrip()])) + "\n"
        else:  # no unified diff: the body may contain another format
            text = body
        # keep Signed-off-by and the like, as `git am` does
        return PatchInput(name, text, without_claims(subject, people=False), author)
    text = data.decode("utf-8", "surrogateescape")
    commits = list(_SHOWN.finditer(text))
    if not commits or commits[0].start() != 0:
        return PatchInput(name, text)
    if len(commits) > 1:
        raise Refused(
            f"{name} contains {len(commits)} commits: apply them one by one, or use `git format-patch` and `git am`"
        )
    head = _SHOWN_HEAD.match(text, commits[0].end())  # the message may quote another diff
    return PatchInput(name, text[head.end() :] if head else text)
