"""Slips in the lines that name the files."""

from __future__ import annotations

from collections.abc import Callable

from bench.patch.draft import Draft
from bench.patch.model import Part
from bench.patch.slip import NAMES, slip

Naming = Callable[[Draft, str], tuple[str, str]]


def _named(name: str, naming: Naming) -> None:
    @slip(name, NAMES, "names")
    def do(draft: Draft) -> bool:
        for part in draft.parts:
            before, after = part.change.before, part.change.after
            if not before or not after or part.change.moved or before.mode != after.mode:
                return False
            old, new = naming(draft, part.change.path)
            # One line each: what comes later numbers, quotes or indents every line.
            part.head = [line for text in (old, new) if text for line in text.split("\n")]
        return bool(draft.parts)


def _top(draft: Draft) -> str:
    return draft.seed.repository.rpartition("/")[2]


def _both(form: str) -> Naming:
    return lambda draft, path: (f"--- {form.format(path)}", f"+++ {form.format(path)}")


_named("no-prefix", _both("{}"))
_named("prefix-dot", _both("./{}"))
_named("prefix-old-new", lambda draft, path: (f"--- old/{path}", f"+++ new/{path}"))
_named("prefix-orig", lambda draft, path: (f"--- {path}.orig", f"+++ {path}"))
_named("prefix-mnemonic", lambda draft, path: (f"--- i/{path}", f"+++ w/{path}"))
_named("prefix-one-side", lambda draft, path: (f"--- {path}", f"+++ b/{path}"))
_named(
    "repository-name-first",
    lambda draft, path: _both(f"{draft.seed.repository.rpartition('/')[2]}/{{}}")(draft, path),
)
_named(
    "repository-name-after-prefix",
    lambda draft, path: (f"--- a/{_top(draft)}/{path}", f"+++ b/{_top(draft)}/{path}"),
)
_named("absolute-path", lambda draft, path: _both(f"/home/dev/{draft.seed.repository}/{{}}")(draft, path))
_named(
    "absolute-after-prefix",
    lambda draft, path: ("--- a//workspace/project/" + path, "+++ b//workspace/project/" + path),
)
_named(
    "windows-path", lambda draft, path: _both("C:\\Users\\dev\\project\\{}")(draft, path.replace("/", "\\"))
)
_named(
    "backslashes",
    lambda draft, path: ("--- a\\" + path.replace("/", "\\"), "+++ b\\" + path.replace("/", "\\")),
)
_named("only-plus", lambda draft, path: ("", f"+++ b/{path}"))
_named("only-minus", lambda draft, path: (f"--- a/{path}", ""))
_named("names-timestamps", lambda draft, path: (
    f"--- a/{path}\t2026-11-02 10:00:00.000000000 +0100", f"+++ b/{path}\t2026-11-02 10:00:07.000000000 +0100"
))  # fmt: skip
_named(
    "names-dates-spaced",
    lambda draft, path: (f"--- {path} 2026-11-02 10:00:00", f"+++ {path} 2026-11-02 10:00:07"),
)
_named("names-remark", lambda draft, path: (f"--- a/{path} (original)", f"+++ b/{path} (modified)"))
_named("names-in-code-marks", lambda draft, path: (f"--- `{path}`", f"+++ `{path}`"))
_named("names-quoted", lambda draft, path: (f'--- "a/{path}"', f'+++ "b/{path}"'))
_named("names-trailing-space", lambda draft, path: (f"--- a/{path} ", f"+++ b/{path}  "))
_named("git-line-only", lambda draft, path: (f"diff --git a/{path} b/{path}", ""))
_named(
    "index-line-svn",
    lambda draft, path: (
        f"Index: {path}\n{'=' * 67}\n--- {path}\t(revision 12)",
        f"+++ {path}\t(working copy)",
    ),
)
_named("stars", lambda draft, path: (f"*** a/{path}", f"--- b/{path}"))
_named("diff-u-line", lambda draft, path: (f"diff -u a/{path} b/{path}\n--- a/{path}", f"+++ b/{path}"))


@slip("no-header", NAMES, "names")
def no_header(draft: Draft) -> bool:
    """One file in play, and its diff doesn't name it."""
    for part in draft.parts:
        part.head = []
    return len(draft.parts) == 1 and _plain(draft.parts[0]) and not draft.extra


@slip("name-in-prose", NAMES, "names prose", files=2)
def in_prose(draft: Draft) -> bool:
    """Two files, each named above its fence only."""
    form = draft.rng.choice(["In `{}`:", "**{}**", "### {}", "`{}`", "File: {}", "{}:"])
    for part in draft.parts:
        if not _plain(part):
            return False
        part.head = []
        part.prose = [form.format(part.change.path)]
    return len(draft.parts) > 1


@slip("name-in-info", NAMES, "names prose fence", files=2)
def in_info(draft: Draft) -> bool:
    """Two files, each named in its fence's info string only."""
    for part in draft.parts:
        if not _plain(part):
            return False
        part.head = []
    draft.separate = True
    draft.render()
    for block, part in zip(draft.blocks, draft.parts, strict=True):
        block.info = f"diff {part.change.path}"
        block.prose = ""
    return len(draft.parts) > 1


@slip("base-name-only", NAMES, "names")
def base_name(draft: Draft) -> bool:
    """Only the last part of the path; it is the only such file."""
    paths = [part.change.path for part in draft.parts]
    bases = [path.rpartition("/")[2] for path in paths]
    known = [*bases, *(path.rpartition("/")[2] for path in draft.extra)]
    if len(set(known)) < len(known) or not any("/" in path for path in paths):
        return False
    for part, base in zip(draft.parts, bases, strict=True):
        if not _plain(part):
            return False
        part.head = [f"--- a/{base}", f"+++ b/{base}"]
    return True


@slip("path-tail", NAMES, "names")
def tail(draft: Draft) -> bool:
    """The first folder of the path is missing."""
    for part in draft.parts:
        first, _, rest = part.change.path.partition("/")
        if "/" not in rest or not _plain(part) or not first:
            return False
        part.head = [f"--- a/{rest}", f"+++ b/{rest}"]
    return True


@slip("wrong-old-name", NAMES, "names")
def wrong_old(draft: Draft) -> bool:
    """The old side names a file that there is not."""
    for part in draft.parts:
        if not _plain(part):
            return False
        part.head = ["--- a/original.txt", f"+++ b/{part.change.path}"]
    draft.may_refuse = True
    return True


@slip("old-side-null", NAMES, "names")
def old_null(draft: Draft) -> bool:
    """`/dev/null` as the old side of a file that is there, whose hunks are of it."""
    for part in draft.parts:
        if not _plain(part) or not any(line.kind != "+" for hunk in part.hunks for line in hunk.lines):
            return False
        part.head = ["--- /dev/null", f"+++ b/{part.change.path}"]
    draft.may_refuse = True
    return True


@slip("names-twice", NAMES, "names")
def twice(draft: Draft) -> bool:
    """The names above every hunk, not only the first."""
    found = False
    for part in draft.parts:
        if not _plain(part):
            return False
        for hunk in part.hunks[1:]:
            hunk.written()
            if not hunk.header:
                return False
            hunk.header = "\n".join([*part.head, hunk.header])
            found = True
    return found


@slip("names-bold", NAMES, "names")
def bold(draft: Draft) -> bool:
    for part in draft.parts:
        if not _plain(part):
            return False
        part.head = [f"--- **{part.change.path}**", f"+++ **{part.change.path}**"]
    draft.may_refuse = True
    return True


@slip("wrong-index-line", NAMES, "names")
def wrong_index(draft: Draft) -> bool:
    for part in draft.parts:
        if not _plain(part):
            return False
        path = part.change.path
        line = draft.rng.choice(
            [
                "index abc1234..def5678 100644",
                "index 0000000..1111111",
                "index XXXXXXX..YYYYYYY 100644",
                "index e69de29..d95f3ad 100755",
            ]
        )
        part.head = [f"diff --git a/{path} b/{path}", line, f"--- a/{path}", f"+++ b/{path}"]
        part.head[1] = (
            line
            if part.change.before and part.change.before.mode == "100644" and "755" not in line
            else "index abc1234..def5678"
        )
    return True


def _plain(part: Part) -> bool:
    before, after = part.change.before, part.change.after
    return bool(
        before and after and before.mode == after.mode and not part.change.moved and not part.change.copy
    )
