"""Slips in the lines that name the files."""

from __future__ import annotations

from functools import partial

from bench.patch.draft import Draft
from bench.patch.slip import NAMES, slip


def _named(draft: Draft, old: str, new: str) -> bool:
    """The two lines of each file. Where one form has several lines, they are several lines of the header: what comes
    later numbers, quotes or indents every line."""
    for part in draft.parts:
        path, whole = part.change.path, draft.seed.repository
        if not part.change.in_place:
            return False
        values = {"p": path, "repo": whole, "top": whole.rpartition("/")[2], "back": path.replace("/", "\\")}
        part.head = [line for text in (old, new) if text for line in text.format_map(values).split("\n")]
    return bool(draft.parts)


for _name, _old, _new in (
    ("no-prefix", "--- {p}", "+++ {p}"),
    ("prefix-dot", "--- ./{p}", "+++ ./{p}"),
    ("prefix-old-new", "--- old/{p}", "+++ new/{p}"),
    ("prefix-orig", "--- {p}.orig", "+++ {p}"),
    ("prefix-mnemonic", "--- i/{p}", "+++ w/{p}"),
    ("prefix-one-side", "--- {p}", "+++ b/{p}"),
    ("repository-name-first", "--- {top}/{p}", "+++ {top}/{p}"),
    ("repository-name-after-prefix", "--- a/{top}/{p}", "+++ b/{top}/{p}"),
    ("absolute-path", "--- /home/dev/{repo}/{p}", "+++ /home/dev/{repo}/{p}"),
    ("absolute-after-prefix", "--- a//workspace/project/{p}", "+++ b//workspace/project/{p}"),
    ("windows-path", "--- C:\\Users\\dev\\project\\{back}", "+++ C:\\Users\\dev\\project\\{back}"),
    ("backslashes", "--- a\\{back}", "+++ b\\{back}"),
    ("only-plus", "", "+++ b/{p}"),
    ("only-minus", "--- a/{p}", ""),
    (
        "names-timestamps",
        "--- a/{p}\t2026-11-02 10:00:00.000000000 +0100",
        "+++ b/{p}\t2026-11-02 10:00:07.000000000 +0100",
    ),
    ("names-dates-spaced", "--- {p} 2026-11-02 10:00:00", "+++ {p} 2026-11-02 10:00:07"),
    ("names-remark", "--- a/{p} (original)", "+++ b/{p} (modified)"),
    ("names-in-code-marks", "--- `{p}`", "+++ `{p}`"),
    ("names-quoted", '--- "a/{p}"', '+++ "b/{p}"'),
    ("names-trailing-space", "--- a/{p} ", "+++ b/{p}  "),
    ("git-line-only", "diff --git a/{p} b/{p}", ""),
    ("git-header-only-names", "diff --git a/{p} b/{p}", "index 3f1c2ab..9d04e17 100644"),
    ("index-line-svn", f"Index: {{p}}\n{'=' * 67}\n--- {{p}}\t(revision 12)", "+++ {p}\t(working copy)"),
    ("stars", "*** a/{p}", "--- b/{p}"),
    ("diff-u-line", "diff -u a/{p} b/{p}\n--- a/{p}", "+++ b/{p}"),
):
    slip(_name, NAMES, "names")(partial(_named, old=_old, new=_new))


@slip("no-header", NAMES, "names")
def no_header(draft: Draft) -> bool:
    """One file in play, and its diff doesn't name it."""
    return len(draft.parts) == 1 and not draft.extra and _named(draft, "", "")


@slip("name-in-prose", NAMES, "names prose", files=2)
def in_prose(draft: Draft) -> bool:
    form = draft.rng.choice(["In `{}`:", "**{}**", "### {}", "`{}`", "File: {}", "{}:"])
    for part in draft.parts:
        part.prose = [form.format(part.change.path)]
    return _named(draft, "", "") and len(draft.parts) > 1


@slip("name-in-info", NAMES, "names prose fence", files=2)
def in_info(draft: Draft) -> bool:
    if not _named(draft, "", "") or len(draft.parts) < 2:
        return False
    draft.separate = True
    draft.render()
    for block, part in zip(draft.blocks, draft.parts, strict=True):
        block.info, block.prose = f"diff {part.change.path}", ""
    return True


@slip("base-name-only", NAMES, "names")
def base_name(draft: Draft) -> bool:
    """Only the last part of the path; it is the only such file."""
    paths = [part.change.path for part in draft.parts]
    known = [path.rpartition("/")[2] for path in (*paths, *draft.extra)]
    if len(set(known)) < len(known) or not any("/" in path for path in paths):
        return False
    for part, base in zip(draft.parts, known, strict=False):
        part.head = [f"--- a/{base}", f"+++ b/{base}"]
    return all(part.change.in_place for part in draft.parts)


@slip("path-tail", NAMES, "names")
def tail(draft: Draft) -> bool:
    """The first folder of the path is missing."""
    for part in draft.parts:
        first, _, rest = part.change.path.partition("/")
        if "/" not in rest or not part.change.in_place or not first:
            return False
        part.head = [f"--- a/{rest}", f"+++ b/{rest}"]
    return True


def _doubtful(draft: Draft, old: str, new: str) -> bool:
    """Names that a careful reader may ask about."""
    draft.may_refuse = True
    return _named(draft, old, new)


slip("wrong-old-name", NAMES, "names")(partial(_doubtful, old="--- a/original.txt", new="+++ b/{p}"))
slip("names-bold", NAMES, "names")(partial(_doubtful, old="--- **{p}**", new="+++ **{p}**"))


@slip("old-side-null", NAMES, "names")
def old_null(draft: Draft) -> bool:
    """`/dev/null` as the old side of a file that exists, whose hunks are of it."""
    own = [any(line.kind != "+" for hunk in part.hunks for line in hunk.lines) for part in draft.parts]
    return all(own) and _doubtful(draft, "--- /dev/null", "+++ b/{p}")


@slip("names-twice", NAMES, "names")
def twice(draft: Draft) -> bool:
    found = False
    for part in draft.parts:
        if not part.change.in_place:
            return False
        for hunk in part.hunks[1:]:
            hunk.written()
            if not hunk.header:
                return False
            hunk.header = "\n".join([*part.head, hunk.header])
            found = True
    return found


@slip("wrong-index-line", NAMES, "names")
def wrong_index(draft: Draft) -> bool:
    indexes = ["abc1234..def5678 100644", "0000000..1111111", "XXXXXXX..YYYYYYY 100644"]
    indexes.append("e69de29..d95f3ad 100755")
    for part in draft.parts:
        if not part.change.in_place:
            return False
        index, path = draft.rng.choice(indexes), part.change.path
        if part.change.before.mode != "100644" or "755" in index:
            index = "abc1234..def5678"
        part.head = [f"diff --git a/{path} b/{path}", f"index {index}", f"--- a/{path}", f"+++ b/{path}"]
    return True
