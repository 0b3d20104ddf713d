"""Read a patch from a file, a mail, a chat answer or the output of `git show`, and find the files that it names.

`--source` binds a file to the blob that the patch was made for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.edit.commit import compose, without_claims
from repoagent.errors import Refused, UsageError
from repoagent.git.files import FileChange, Source, blob_hash
from repoagent.git.index import Entry
from repoagent.git.objects import from_blob
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.patch.apply_answer import read_answer
from repoagent.patch.model import FilePatch
from repoagent.patch.paths import NO_FILE, spellings

NAMED = 3  # files in a subject
STANDARD_INPUT = "standard input"

_MAIL = re.compile(rb"^From \S+ .*\d\d:\d\d:\d\d.* \d{4}\s*$", re.MULTILINE)
_HEADERS = re.compile(rb"(?:[A-Za-z][\w-]*:[ \t].*\r?\n(?:[ \t]+\S.*\r?\n)*)+(?=\r?\n)")
_SHOWN = re.compile(r"^commit [0-9a-f]{40,64}\b.*\n(?=(?:Merge|Author): )", re.MULTILINE)
_SHOWN_HEAD = re.compile(r"(?:[A-Z]\w*:[ \t]+(.*)\n)+\n((?:(?:    .*)?\n)*)")


@dataclass(frozen=True)
class PatchInput:
    """`name` for messages to the user, `text` with the patch (bytes that are not UTF-8 as surrogates); the commit
    `message` and `author`, "" if unknown."""

    name: str
    text: str
    message: str = ""
    author: str = ""


def read_patch_input(name: str, data: bytes, cwd: Path) -> PatchInput:
    """Read the bytes of a patch. Raises UsageError for an empty input, Refused for several commits."""
    if not data.strip():
        raise UsageError(f"{name} is empty: it contains no patch")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # redirected by a Windows shell
        data = data.decode("utf-16", "replace").encode()
    data = data.removeprefix(b"\xef\xbb\xbf")
    starts = [match.start() for match in _MAIL.finditer(data)]
    mails = [start for start in starts if start == 0 or data[:start].endswith((b"\n\n", b"\n\r\n"))]
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
        return PatchInput(name, text)
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
    """Read a mail as `git am` does: decode it, and split it into message and patch."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="repoagent-") as folder:
        message, patch = Path(folder, "message"), Path(folder, "patch")
        out = git(cwd, "mailinfo", "--encoding=UTF-8", str(message), str(patch), stdin=data)
        body = message.read_bytes().decode("utf-8", "replace")
        text = patch.read_bytes().decode("utf-8", "surrogateescape")
    fields = dict(line.split(": ", 1) for line in out.decode("utf-8", "replace").splitlines() if ": " in line)
    author = f"{fields.get('Author', '')} <{fields.get('Email', '')}>".strip()
    subject = fields.get("Subject", "")
    fence = re.search(r"\n(`{3,}.*)\n*\Z", body)  # git split the mail inside the fence around the patch
    if fence:
        text, body = f"{fence[1]}\n{text}", body[: fence.start()]
    if text.strip():
        subject = "\n\n".join(filter(None, [subject.strip(), body.strip("\n").rstrip()])) + "\n"
    else:  # no unified diff: the body may contain another format
        text = body
    # keep Signed-off-by and the like, as `git am` does
    return PatchInput(name, text, without_claims(subject, people=False), author)


def plain_message(name: str, changes: Sequence[FileChange]) -> str:
    """The default commit message: the name of the patch and the files that it changes."""
    names = [change.name for change in changes]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    what = "a patch" if name == STANDARD_INPUT else Path(name).name
    return compose(f"Apply {what}: change {', '.join(names[:NAMED])}{more}", "")


def read_patches(
    patch_input: PatchInput, known: Collection[str], paths: Sequence[str]
) -> tuple[FilePatch, ...]:
    """The patches in `patch_input`; those without a name get the one in `paths`. `known` are names of existing files.

    Raises Refused if there is none, UsageError if a name is missing, or if the patches name other files.
    """
    patches = read_answer(patch_input.text, known=known)
    if not patches and "\0" in patch_input.text:
        raise UsageError(f"{patch_input.name} is binary: a patch must be text")
    if not patches:
        raise Refused(
            f"{patch_input.name} contains no patch: expected a unified diff, SEARCH/REPLACE blocks, or named files"
        )
    nameless = [patch for patch in patches if patch.old is None and patch.new is None]
    if nameless and not paths:
        raise UsageError(f"{patch_input.name} does not say which file it changes: name it with --path FILE")
    if paths and not nameless:
        sides = ((patch.name, *spellings(patch.old, patch.new)) for patch in patches)
        own = list(dict.fromkeys((new or old or [name])[0] for name, old, new in sides))
        if paths[0] not in own:
            raise UsageError(f"{patch_input.name} names its own files ({', '.join(own)}): omit --path")
    return tuple(replace(patch, new=paths[0]) if patch in nameless else patch for patch in patches)


def from_here(
    patches: Sequence[FilePatch], known: Callable[[str], bool], prefix: str
) -> tuple[FilePatch, ...]:
    """Make names that are relative to the folder `prefix` ("" or ending in /) relative to the top.

    A name is relative to the folder if its file exists there and not from the top; a new file, if all others are."""
    if not prefix:
        return tuple(patches)
    names: list[str | None] = []  # the existing file below the folder; "" if below the top, None if new
    for patch in patches:
        old, new = spellings(patch.old, patch.new)
        sides = old if patch.action in {"rename", "copy"} else [*new, *old]
        sides = [name for name in sides if ".." not in name]
        local = next((name for name in sides if known(prefix + name)), None)
        names.append("" if any(map(known, sides)) else local)
    all_local = any(names) and "" not in names
    renamed = []
    for patch, name in zip(patches, names, strict=True):
        old, new = spellings(patch.old, patch.new)
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


def spelled(patches: Sequence[FilePatch]) -> set[str]:
    """All paths that the names in `patches` may refer to, with and without `a/` and `b/`."""
    return {name for patch in patches for side in spellings(patch.old, patch.new) for name in side}


def tracked(worktree: WorkTree) -> set[str]:
    """All paths in the index."""
    return set(os.fsdecode(git(worktree.top, "ls-files", "-z")).split("\0")[:-1])


_BLOB = re.compile(r"[0-9a-f]{7,64}")


def parse_bindings(texts: Sequence[str]) -> dict[str, str]:
    """Parse `PATH=BLOB` options to blobs by path. Raises UsageError."""
    bindings: dict[str, str] = {}
    for text in texts:
        path, equals, blob = text.rpartition("=")
        blob = blob.lower()
        if not equals or not path or not _BLOB.fullmatch(blob):
            raise UsageError(f"--source {text}: use PATH=BLOB with at least 7 hex digits of the blob id")
        if bindings.setdefault(path, blob) != blob:
            raise UsageError(f"--source names {path} twice, with different blobs")
    return bindings


def bound_source(worktree: WorkTree, present: Source, blob: str) -> Source:
    """The version of a file with the id `blob` (or a prefix of it).

    That is `present` if it matches, raw or as git stores it; else what a checkout of that blob would write. Raises
    Refused if there is none."""
    path, mode, top = present.path, present.mode, worktree.top
    if present.data is None or mode is None:
        raise Refused(
            f"the patch was made for blob {blob} of {path}, which no longer exists: restore it first (in "
            "a sparse checkout `git sparse-checkout add FOLDER`)"
        )
    if present.blob.startswith(blob):
        return present
    if git(top, "hash-object", "--stdin", f"--path={path}", stdin=present.data).decode().startswith(blob):
        return present
    names = git(top, "rev-parse", f"--disambiguate={blob}").decode()
    checked = git(top, "cat-file", "--batch-check", stdin=names.encode()).decode()
    blobs = [line.split()[0] for line in checked.splitlines() if line.split()[1:2] == ["blob"]]
    if len(blobs) > 1:
        raise UsageError(f"--source {path}={blob}: {len(blobs)} blobs match: use more digits of the id")
    contents = (from_blob(worktree, path, Entry(mode, name)) for name in blobs)
    content = next(contents, None)
    if content is None:
        raise Refused(
            f"{path} is now {present.blob[:12]}, the patch was made for {blob}, and git does not have that blob: "
            "recreate the patch, or omit --source to place it by its lines"
        )
    return replace(present, data=content.data, blob=blob_hash(content.data, worktree.object_format))
