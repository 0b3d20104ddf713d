"""Read a patch from a file, a mail, a chat's answer or the output of `git show`, and place it in its files.

A patch may name the blob that it was made for (`--source`): it is applied to that blob and merged into the current
text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.edit.commit import capitalised, compose, without_claims
from repoagent.edit.guards.off_limits import gate, holds_secrets, why_content_is_off_limits
from repoagent.edit.request import EditRequest
from repoagent.errors import NothingDone, Refused, UsageError
from repoagent.git.files import REGULAR, Content, FileChange, Source, blob_hash, is_ignored, read_source
from repoagent.git.index import Entry
from repoagent.git.merge import Conflict, lines_text, merge
from repoagent.git.objects import from_blob
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.patch.apply_file import Applied, apply_patches, read_answer
from repoagent.patch.errors import NOTHING_TO_DO, NoPatch, PatchRefused
from repoagent.patch.model import FilePatch, SourceText, decode
from repoagent.patch.parse.blocks import patch_spans
from repoagent.patch.paths import NO_FILE, bad_path, spellings


class Tree(Mapping[str, SourceText]):
    """The current content by path. `read` runs on first access and may raise; `sources` has what was read."""

    def __init__(self, names: Collection[str], read: Callable[[str], Source]) -> None:
        self.sources: dict[str, Source] = {}
        self._names = dict.fromkeys(names)
        self._read = read

    def __getitem__(self, path: str) -> SourceText:
        if path not in self._names:
            raise KeyError(path)
        source = self.source(path)
        if source.data is None:
            raise Refused(
                f"{path} is missing from the work tree but is tracked: restore it with `git restore {path}` (in a "
                "sparse checkout `git sparse-checkout add FOLDER`), or commit its removal first"
            )
        return SourceText(source.data, source.mode or REGULAR)

    def source(self, path: str) -> Source:
        """The file, missing or not, as it was when it was first asked for."""
        if path not in self.sources:
            self.sources[path] = self._read(path)
        return self.sources[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, path: object) -> bool:
        return path in self._names


def tracked(worktree: WorkTree) -> set[str]:
    """Every path in the index."""
    return set(os.fsdecode(git(worktree.top, "ls-files", "-z")).split("\0")[:-1])


def is_there(top: Path, name: str, known: Collection[str]) -> bool:
    """Whether `name` is exactly a `known` path, or an existing file below `top` with a harmless name."""
    return name in known or (bad_path(name) is None and os.path.lexists(top / name))


def untracked(top: Path, patches: Sequence[FilePatch], known: Collection[str]) -> set[str]:
    """The exact names in `patches` that exist but are not `known`."""
    return {name for name in spelled(patches) if name not in known and is_there(top, name, known)}


def spelled(patches: Sequence[FilePatch]) -> set[str]:
    """Every path that a name in `patches` can mean."""
    return {name for patch in patches for side in spellings(patch.old, patch.new) for name in side}


def reader(
    worktree: WorkTree, request: EditRequest, known: AbstractSet[str], names: AbstractSet[str]
) -> Callable[[str], Source]:
    """A function that reads a file named in a patch (one of `names`); git tracks the `known` ones.

    It raises Refused for a file that a patch may not touch: the user named the patch, not its files, so likely secrets
    and ignored files are off limits.
    """

    ignored = gate(worktree.top, known | names)  # of its two reasons the one that holds for named files too

    def read(path: str) -> Source:
        if reason := ignored(path):
            raise Refused(reason)
        named = path in request.paths or request.allow_sensitive
        if not named and holds_secrets(path):
            raise Refused(
                f"{path} has a name that is typical of secrets: use --allow-sensitive to let the patch "
                "change it"
            )
        source = read_source(worktree, path)
        strange = path not in known and path not in request.paths
        if strange and path in is_ignored(worktree, [path]):
            raise Refused(
                f"{path} is ignored by git, so a patch may not change it: use --path {path} to allow it"
            )
        if source.data is not None and (reason := why_content_is_off_limits(source.data)) and not named:
            raise Refused(f"refusing to edit {path}: {reason}; use --allow-sensitive to edit it anyway")
        return source

    return read


def plain_name(patch: FilePatch) -> str:
    """The file that a patch names, without the `a/` or `b/` of a diff."""
    old, new = spellings(patch.old, patch.new)
    return (new or old or [patch.name])[0]


def from_here(
    patches: Sequence[FilePatch], known: Callable[[str], bool], prefix: str
) -> tuple[FilePatch, ...]:
    """Make names that are relative to the folder `prefix` ("" or ending in /) relative to the top.

    A name is relative to the folder if its file exists there and not from the top; a new file, if all others are."""
    if not prefix:
        return tuple(patches)
    names: list[str | None] = []  # the existing file in the folder; "" for one from the top, None for neither
    for patch in patches:
        old, new = spellings(patch.old, patch.new)
        sides = old if patch.action in {"rename", "copy"} else [*new, *old]
        sides = [name for name in sides if ".." not in name]
        local = next((name for name in sides if known(prefix + name)), None)
        names.append("" if any(map(known, sides)) else local)
    all_local = any(names) and "" not in names
    return tuple(
        _moved(patch, name, prefix) if name or (all_local and name is None) else patch
        for patch, name in zip(patches, names, strict=True)
    )


def _moved(patch: FilePatch, name: str | None, prefix: str) -> FilePatch:
    """The patch with its names from the top. `name` is the existing file, None for a new one."""
    if patch.action in {"rename", "copy"}:
        return replace(patch, old=f"{prefix}{patch.old}", new=f"{prefix}{patch.new}")
    old, new = spellings(patch.old, patch.new)
    plain = prefix + (name or (new or old or [""])[0])
    if patch.form != "diff":
        return replace(patch, old=None if patch.old is None else plain, new=plain)
    return replace(
        patch,
        old=patch.old if patch.old in {None, NO_FILE} else f"a/{plain}",
        new=patch.new if patch.new in {None, NO_FILE} else f"b/{plain}",
    )


NAMED = 3  # files in a subject
STANDARD_INPUT = "standard input"

_MAIL = re.compile(rb"^From \S+ .*\d\d:\d\d:\d\d.* \d{4}\s*$", re.MULTILINE)
_HEADERS = re.compile(rb"(?:[A-Za-z][\w-]*:[ \t].*\r?\n(?:[ \t]+\S.*\r?\n)*)+(?=\r?\n)")
_SHOWN = re.compile(r"^commit [0-9a-f]{40,64}\b.*\n(?=(?:Merge|Author): )", re.MULTILINE)
_SHOWN_HEAD = re.compile(r"(?:[A-Z]\w*:[ \t]+(.*)\n)+\n((?:(?:    .*)?\n)*)")
_COMMIT = re.compile(r"<commit>(.*?)</commit>", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What a chat says before it comes to the point: an assent, and sentences that only point at the patch.
_ASSENT = re.compile(
    r"(?:sure|certainly|of course|okay|ok|absolutely|yes|great)\b[^.!,:\n]{0,30}[.!,:]\s*", re.IGNORECASE
)
_POINTER = re.compile(
    r"(?:here(?:'s|\u2019s| is| are)|below|the following|this (?:is|diff|patch)|apply this|you can|let me"
    r"|i(?:'|\u2019)?(?:ll| will))\b",
    re.IGNORECASE,
)
_LIST_OR_PATCH = re.compile(r"[-*+>|`~<]|\d+[.)]|(?:diff|index|---|\+\+\+|@@)\b")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])")


@dataclass(frozen=True)
class PatchInput:
    """`name` is how to speak of it, `text` what holds the patch (bytes that are not UTF-8 as surrogates), `message` the
    commit message it brings along and `author` who wrote it, both "" where it does not say."""

    name: str
    text: str
    message: str = ""
    author: str = ""


def read_patch_input(name: str, data: bytes, cwd: Path) -> PatchInput:
    """Read the bytes of a patch. Raises UsageError for none, Refused for several commits: each has its own message."""
    if not data.strip():
        raise UsageError(f"{name} is empty: it contains no patch")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # as a shell of Windows redirects it
        data = data.decode("utf-16", "replace").encode()
    data = data.removeprefix(b"\xef\xbb\xbf")
    mails = [
        start
        for match in _MAIL.finditer(data)
        if (start := match.start()) == 0 or data[:start].endswith((b"\n\n", b"\n\r\n"))
    ]
    if len(mails) > 1 and mails[0] == 0:
        raise Refused(
            f"{name} contains {len(mails)} mails, each a separate commit: apply them with `git am`, or one by "
            "one (`git mailsplit` splits them)"
        )
    headers = _HEADERS.match(data)
    fields = {line.partition(b":")[0].lower() for line in headers[0].splitlines()} if headers else set()
    if mails[:1] == [0] or (b"subject" in fields and fields & {b"from", b"date"}):
        return _mail(name, data, cwd)
    text = data.decode("utf-8", "surrogateescape")
    commits = list(_SHOWN.finditer(text))
    if not commits or commits[0].start() != 0:
        return PatchInput(name, text, _from_prose(text))
    if len(commits) > 1:
        raise Refused(
            f"{name} contains {len(commits)} commits: apply them one by one, or use `git format-patch` and `git am`"
        )
    head = _SHOWN_HEAD.match(text, commits[0].end())
    if head is None:
        return PatchInput(name, text)
    # `git show` and `git log -p` indent the message by four columns
    words = "\n".join(line.removeprefix("    ") for line in head[2].split("\n")).strip("\n")
    words = words.encode("utf-8", "replace").decode()
    author = re.search(r"^Author:\s+(.*)$", head[0], re.MULTILINE)
    message = without_claims(f"{words}\n", people=False) if words else ""
    return PatchInput(name, text[head.end() :], message, author[1] if author else "")


def _mail(name: str, data: bytes, cwd: Path) -> PatchInput:
    """A mail as `git am` reads it: encodings of its transport undone, its message apart from its patch."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="repoagent-") as folder:
        message, patch = Path(folder, "message"), Path(folder, "patch")
        out = git(cwd, "mailinfo", "--encoding=UTF-8", str(message), str(patch), stdin=data)
        body = message.read_bytes().decode("utf-8", "replace")
        text = patch.read_bytes().decode("utf-8", "surrogateescape")
    fields = dict(line.split(": ", 1) for line in out.decode("utf-8", "replace").splitlines() if ": " in line)
    author = f"{fields.get('Author', '')} <{fields.get('Email', '')}>".strip()
    subject = fields.get("Subject", "")
    fence = re.search(r"\n(`{3,}.*)\n*\Z", body)  # the patch is in a fence, and git has cut there
    if fence:
        text, body = f"{fence[1]}\n{text}", body[: fence.start()]
    if text.strip():
        subject = "\n\n".join(filter(None, [subject.strip(), body.strip("\n").rstrip()])) + "\n"
    else:  # no unified diff: another form of change, in the body
        text = body
    # who signed the commit stays, as with `git am`
    return PatchInput(name, text, without_claims(subject, people=False), author)


def _from_prose(text: str) -> str:
    """A message from the words around a patch: what is in a `<commit>` tag, else the first sentence before the
    patch that is about the change, with the rest of its paragraph."""
    spans = patch_spans(text)
    before = text[: spans[0].start] if spans else text
    between = [text[span.end : other.start] for span, other in pairwise(spans)]
    rest = " ".join([before, *between, text[spans[-1].end :] if spans else ""])
    if tag := _COMMIT.search(rest):
        return compose(_plain(tag[1]), "") if tag[1].strip() else ""
    for paragraph in re.split(r"\n\s*\n", _plain(before)):
        words = " ".join(paragraph.split()).strip("#* ")
        if (bare := _ASSENT.sub("", words)) != words:
            words = capitalised(bare)
        first, *more = _SENTENCE.split(words, maxsplit=1)
        if _POINTER.match(first) and more:
            first, *more = _SENTENCE.split(more[0], maxsplit=1)
        # neither one word, a pointer, a caption nor a line of a list or a patch
        if len(first.split()) > 1 and not (
            first.endswith(":") or _POINTER.match(first) or _LIST_OR_PATCH.match(first)
        ):
            return compose("\n\n".join([first, *more]), "")
    return ""


def _plain(text: str) -> str:
    return _CONTROL.sub("", text.encode("utf-8", "replace").decode())


def plain_message(name: str, changes: Sequence[FileChange]) -> str:
    """The default commit message: the name of the patch and the files that it changes."""
    names = [change.name for change in changes]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    what = "a patch" if name == STANDARD_INPUT else Path(name).name
    return compose(f"Apply {what}: change {', '.join(names[:NAMED])}{more}", "")


_BLOB = re.compile(r"[0-9a-f]{7,64}")


def parse_bindings(texts: Sequence[str]) -> dict[str, str]:
    """`PATH=BLOB` texts by path, as written. Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts:
        path, equals, blob = text.rpartition("=")
        blob = blob.lower()
        if not equals or not path or not _BLOB.fullmatch(blob):
            raise UsageError(f"--source {text}: use PATH=BLOB with at least 7 hex digits of the blob id")
        if found.setdefault(path, blob) != blob:
            raise UsageError(f"--source names {path} twice, with different blobs")
    return found


def bound_source(worktree: WorkTree, present: Source, blob: str) -> Source:
    """The version of a file with the id `blob` (or a prefix): `present` if it matches, raw or as git stores it, else
    the one in git's object store. Raises Refused if there is none."""
    path, mode = present.path, present.mode
    if present.data is None or mode is None:
        raise Refused(
            f"the patch was made for blob {blob} of {path}, which no longer exists: restore it first (in "
            "a sparse checkout `git sparse-checkout add FOLDER`)"
        )
    if present.blob.startswith(blob):
        return present
    clean = git(worktree.top, "hash-object", "--stdin", f"--path={path}", stdin=present.data).decode().strip()
    if clean.startswith(blob):
        return present
    content = _stored(worktree, path, blob, mode) or _checked_out(worktree, path, blob)
    if content is None:
        raise Refused(
            f"{path} is now {present.blob[:12]}, the patch was made for {blob}, and git does not have that blob: "
            "recreate the patch, or omit --source to place it by its lines"
        )
    return replace(present, data=content.data, blob=blob_hash(content.data, worktree.object_format))


def _stored(worktree: WorkTree, path: str, blob: str, mode: str) -> Content | None:
    """What a checkout of the blob would write."""
    names = git(worktree.top, "rev-parse", f"--disambiguate={blob}").decode().split()
    checked = git(
        worktree.top, "cat-file", "--batch-check", stdin="".join(f"{name}\n" for name in names).encode()
    )
    blobs = [line.split()[0] for line in checked.decode().splitlines() if line.split()[1:2] == ["blob"]]
    if len(blobs) > 1:
        raise UsageError(f"--source {path}={blob}: {len(blobs)} blobs match: use more digits of the id")
    return from_blob(worktree, path, Entry(mode, blobs[0])) if blobs else None


def _checked_out(worktree: WorkTree, path: str, blob: str) -> Content | None:
    """The staged or committed text whose checkout has this id: with a filter git stores the file in another form."""
    out = git(worktree.top, "ls-files", "-s", "-z", "--", path) + git(
        worktree.top, "ls-tree", "-z", "HEAD", "--", path, ok=(0, 128)
    )
    for line in dict.fromkeys(os.fsdecode(out).split("\0")[:-1]):
        fields = line.partition("\t")[0].split(" ")
        oid = fields[2] if fields[1] == "blob" else fields[1]
        content = from_blob(worktree, path, Entry(fields[0], oid))
        if blob_hash(content.data, worktree.object_format).startswith(blob):
            return content
    return None


def rebase_changes(
    worktree: WorkTree, changes: Sequence[FileChange], present: Mapping[str, Source]
) -> tuple[FileChange, ...]:
    """Rebase `changes` of older texts onto the `present` ones by git's three-way merge. Raises Refused on conflict."""
    rebased = []
    for change in changes:
        source = present.get(change.old_path or "")
        if source is None or source.data is None or source.data == change.before:
            rebased.append(change)
            continue
        if change.after is None or change.before is None:
            raise Refused(
                f"{change.name} has changed since the patch that deletes it was made: review it and recreate the patch"
            )
        merged = merge(worktree, source.data, change.before, change.after)
        if isinstance(merged, Conflict):
            where = f" on {lines_text(merged.lines)} of that text" if merged.lines else ""
            raise Refused(f"{change.name} has changed{where} since the patch was made: recreate the patch")
        rebased.append(replace(change, before=source.data, after=merged))
    return tuple(rebased)


def is_applied(patches: Sequence[FilePatch], files: Mapping[str, SourceText]) -> bool:
    """Whether `files` already contain every part of the patches, under exactly their names."""
    edits: list[FilePatch] = []
    for patch in patches:
        old, new = spellings(patch.old, patch.new)
        if patch.action == "create" or patch.old == NO_FILE:
            applied = any(_has_content(patch, files[name]) for name in new if name in files)
        elif patch.action == "delete" or patch.new == NO_FILE:
            applied = not any(name in files for name in old)
        elif patch.action == "rename":
            applied = patch.old not in files and patch.new in files
            if patch.hunks:
                edits.append(replace(patch, action="edit", old=f"a/{patch.new}", new=f"b/{patch.new}"))
        else:
            applied = True
            edits.append(patch)
        if not applied:
            return False
    try:
        if edits:
            apply_patches(edits, files)
    except PatchRefused as error:
        return error.reasons <= NOTHING_TO_DO
    return not edits


def _has_content(patch: FilePatch, source: SourceText) -> bool:
    text = decode(source.data)
    if text is None:
        return False
    if patch.whole is not None:
        return patch.whole.rstrip("\n") == "\n".join(text.lines).rstrip("\n")
    return tuple(line.text for hunk in patch.hunks for line in hunk.new) == text.lines


def read_patches(patch_input: PatchInput, known: Collection[str] = ()) -> tuple[FilePatch, ...]:
    """The patches of `patch_input`; `known` are names of files. Raises Refused when it contains none."""
    patches = read_answer(patch_input.text, known=known)
    if patches:
        return patches
    if "\0" in patch_input.text:
        raise UsageError(f"{patch_input.name} is binary: a patch must be text")
    raise Refused(
        f"{patch_input.name} contains no patch: expected a unified diff, SEARCH/REPLACE blocks, or named files"
    )


def with_names(
    patches: Sequence[FilePatch], patch_input: PatchInput, paths: Sequence[str], exists: Callable[[str], bool]
) -> tuple[FilePatch, ...]:
    """Name nameless patches, and a diff of one file under names that do not exist (`before.c`, `after.c`), after the
    file in `paths`; `exists` tells whether a name does. Raises UsageError."""
    names = {(patch.old, patch.new) for patch in patches}
    if paths and len(names) == 1 and all(p.form == "diff" and p.action == "edit" for p in patches):
        old, new = names.pop()
        if old and new and not any(exists(name) for side in spellings(old, new) for name in side):
            return tuple(replace(patch, old=f"a/{paths[0]}", new=f"b/{paths[0]}") for patch in patches)
    nameless = [patch for patch in patches if patch.old is None and patch.new is None]
    if nameless and not paths:
        raise UsageError(f"{patch_input.name} does not say which file it changes: name it with --path FILE")
    if paths and not nameless and paths[0] not in map(plain_name, patches):
        listed = ", ".join(dict.fromkeys(map(plain_name, patches)))
        raise UsageError(f"{patch_input.name} names its own files ({listed}): omit --path")
    return tuple(replace(patch, new=paths[0]) if patch in nameless else patch for patch in patches)


def place_patches(
    patches: Sequence[FilePatch], files: Tree, patch_input: PatchInput, request: EditRequest
) -> Applied:
    """Apply the patches to `files`. Raises NothingDone when they are applied already, PatchRefused, and what reading
    raises.
    """
    from repoagent.syntax.regressions import parses_worse

    def may_create(path: str) -> bool:
        return files.source(path).data is None

    try:
        applied = apply_patches(
            patches, files, may_create=may_create, strict=request.strict,
            parses_worse=parses_worse if request.parse_check else None,
        )  # fmt: skip
    except NoPatch:
        raise Refused(f"{patch_input.name} contains no patch for these files") from None
    except PatchRefused as error:
        if error.reasons <= NOTHING_TO_DO or is_applied(patches, files):
            raise NothingDone(f"no changes: {patch_input.name} is already applied") from error
        raise
    if any(place.level == "whole-file" for place in applied.placements):
        from repoagent.edit.guards.unrequested_losses import left_out

        if lost := left_out(applied, f"{patch_input.message} {request.instruction}", patch_input.text):
            raise Refused(lost)
    return applied
