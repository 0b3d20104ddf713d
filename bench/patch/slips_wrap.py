"""Slips in the lines that name files, and in how a diff is embedded in the answer: fences, prose, quotations, lists,
mail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.patch.draft import Draft
from bench.patch.slip import ANSWER, BLOCKS, NAMES, RAW, slip

PROSE = (
    "First, the import that is missing:", "Then the condition is turned round.\n\n- keeps the order\n- no new names",
    "* the second part\n* nothing else changes",
    "Next we adjust this place (see above):", "## Step 2\n\nThe call itself.",
    "+ this adds the option\n- this drops the old one", "1. Change the default\n2. Use it here",
)  # fmt: skip
LONG = (
    "Looking at the code, the problem is this:\n\n```\nTraceback (most recent call last):\n  ...\nKeyError: 'x'\n```"
    "\n\n- the value is read before it is set\n- nobody notices\n\nSo the fix:",
    "Explanation:\n\n- `-` lines go, `+` lines come\n+ no test changes\n\nRun `make test` to see.",
)
SKETCH = "<thinking>\nThe line `- old` should become `+ new`.\nI must keep @@ headers right.\n</thinking>"


# Fences


def _info(draft: Draft, info: str) -> bool:
    for block in draft.blocks:
        block.info = info
    return bool(draft.blocks)


for _word in ("patch", "python", "plain", "text", "console"):
    slip(f"fence-{_word}", BLOCKS, "fence")(partial(_info, info="" if _word == "plain" else _word))


@slip("fence-info-extra", BLOCKS, "fence")
def info_extra(draft: Draft) -> bool:
    forms = ["diff:{}", "diff {}", 'diff title="{}"', "diff file={}"]
    for block, part in zip(draft.blocks, draft.parts, strict=False):
        block.info = draft.rng.choice(forms).format(part.change.path)
    return bool(draft.blocks)


def _marked(draft: Draft, mark: str) -> bool:
    draft.marks = (mark, mark)
    return True


slip("fence-longer", BLOCKS, "fence")(partial(_marked, mark="`````"))
slip("fence-indented-diff-not", BLOCKS, "wrap fence")(partial(_marked, mark="   ```"))
slip("no-fence", BLOCKS, "fence")(partial(_marked, mark=""))


@slip("fence-tilde", BLOCKS, "fence")
def tilde(draft: Draft) -> bool:
    return _marked(draft, "~~~") and not any(
        line.startswith("~~~") for block in draft.blocks for line in block.lines
    )


@slip("no-fence-no-prose", BLOCKS, "fence prose")
def bare(draft: Draft) -> bool:
    draft.outro = ""
    for block in draft.blocks:
        block.prose = ""
    return _marked(draft, "")


@slip("fence-not-closed", BLOCKS, "fence end-of-answer")
def not_closed(draft: Draft) -> bool:
    """The last fence is not closed, though all lines are there."""
    draft.outro = ""
    draft.wraps.append(lambda text: text.rstrip("\n").removesuffix("```"))
    return True


@slip("fence-for-each-file", NAMES, "prose", files=2)
def separate(draft: Draft) -> bool:
    draft.separate = True
    return len(draft.parts) > 1


# Prose, and blank lines


@slip("prose-long", BLOCKS, "prose")
def prose(draft: Draft) -> bool:
    draft.blocks[0].prose, draft.outro = LONG
    return True


@slip("plan-in-tags", BLOCKS, "prose")
def tags(draft: Draft) -> bool:
    """Thoughts in tags above the diff, with lines that resemble a diff."""
    draft.blocks[0].prose = SKETCH
    return True


@slip("prose-between-files", NAMES, "prose", files=2)
def prose_between(draft: Draft) -> bool:
    for part in draft.parts:
        part.prose = [draft.rng.choice(PROSE)]
    return len(draft.parts) > 1


@slip("prose-between-unfenced", NAMES, "prose fence", files=2)
def prose_between_unfenced(draft: Draft) -> bool:
    for part in draft.parts:
        part.prose = [draft.rng.choice([text for text in PROSE if text[0].isalpha()])]
    return _marked(draft, "") and len(draft.parts) > 1


def above_hunks(draft: Draft, text: Callable[[], str]) -> bool:
    """Put text above the `@@` line of every hunk of a file but the first; return whether any has it."""
    changed = False
    for hunk in (hunk for part in draft.parts for hunk in part.hunks[1:]):
        hunk.written()
        if hunk.header:
            hunk.header, changed = f"{text()}\n{hunk.header}", True
    return changed


@slip("blank-lines-between-hunks", RAW, "gaps")
def gaps(draft: Draft) -> bool:
    return above_hunks(draft, str)


@slip("headings-between-hunks", RAW, "gaps prose several")
def between(draft: Draft) -> bool:
    """A line of prose, not indented, between the hunks of a diff."""
    draft.may_refuse = True
    return above_hunks(draft, lambda: draft.rng.choice(["...", "[...]", "(second place)", "Then:"]))


@slip("blank-line-before-hunk", RAW, "gaps")
def gap_first(draft: Draft) -> bool:
    for part in draft.parts:
        part.head.append("")
    return bool(draft.hunks)


# Around the whole answer


def _wrapped(draft: Draft, wrap: Callable[[str], str]) -> bool:
    draft.wraps.append(wrap)
    return True


def _prefixed(text: str, prefix: str, blank: str = "") -> str:
    return "".join(f"{prefix}{line}\n" if line else f"{blank}\n" for line in text.split("\n"))


slip("crlf-answer", ANSWER, "newlines")(partial(_wrapped, wrap=lambda text: text.replace("\n", "\r\n")))
slip("quoted", ANSWER, "wrap")(partial(_wrapped, wrap=lambda text: _prefixed(text.rstrip("\n"), "> ", ">")))
# the fence is indented too
slip("indented-answer", ANSWER, "wrap")(partial(_wrapped, wrap=lambda text: _prefixed(text, "    ")))


@slip("in-a-list", ANSWER, "wrap")
def in_list(draft: Draft) -> bool:
    width = draft.rng.choice([2, 3, 4])
    head = {2: "- ", 3: "1. ", 4: "  - "}[width] + "Change the file:\n\n"
    return _wrapped(draft, lambda text: head + _prefixed(text.rstrip("\n"), " " * width))


@slip("answer-with-byte-order-mark", ANSWER, "answer-start")
def answer_mark(draft: Draft) -> bool:
    draft.outermost.append(lambda text: "\ufeff" + text)
    return True


@slip("quoted-diff-only", BLOCKS, "wrap fence")
def quoted_diff(draft: Draft) -> bool:
    for block in draft.blocks:
        block.lines = [f"> {line}" if line else ">" for line in block.lines]
    return _marked(draft, "")


@slip("indented-no-fence", BLOCKS, "wrap fence")
def indented_bare(draft: Draft) -> bool:
    """The old Markdown form of code: four spaces, no fence."""
    for block in draft.blocks:
        block.lines = ["", *(f"    {line}" if line else "" for line in block.lines), ""]
    return _marked(draft, "")


@slip("format-patch-mail", BLOCKS, "fence prose")
def mail(draft: Draft) -> bool:
    draft.marks, draft.outro = ("", ""), ""
    paths = [f" {part.change.path} | 4 ++--" for part in draft.parts]
    draft.blocks[0].prose = "\n".join([
        "From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001", "From: A Dev <dev@example.com>",
        "Date: Mon, 2 Nov 2026 10:00:00 +0000", "Subject: [PATCH] Do it right", "", "It was wrong.", "---", *paths,
        f" {len(paths)} file changed, 2 insertions(+), 2 deletions(-)",
    ])  # fmt: skip
    draft.blocks[-1].lines += ["-- ", "2.39.5", ""]
    return not any(block.prose for block in draft.blocks[1:])


# Names


def _named(draft: Draft, old: str, new: str) -> bool:
    """Set the header of each file. A form with several lines gives several header lines, so that later slips number,
    quote or indent each of them."""
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
    """There is only one file, and its diff does not name it."""
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
    """Only the last part of the path, which is unique."""
    paths = [part.change.path for part in draft.parts]
    known = [path.rpartition("/")[2] for path in (*paths, *draft.extra)]
    if len(set(known)) < len(known) or not any("/" in path for path in paths):
        return False
    for part, base in zip(draft.parts, known, strict=False):
        part.head = [f"--- a/{base}", f"+++ b/{base}"]
    return all(part.change.in_place for part in draft.parts)


@slip("path-tail", NAMES, "names")
def tail(draft: Draft) -> bool:
    """The path without its first folder."""
    for part in draft.parts:
        first, _, rest = part.change.path.partition("/")
        if "/" not in rest or not part.change.in_place or not first:
            return False
        part.head = [f"--- a/{rest}", f"+++ b/{rest}"]
    return True


def _doubtful(draft: Draft, old: str, new: str) -> bool:
    """Names that justify a refusal."""
    draft.may_refuse = True
    return _named(draft, old, new)


slip("wrong-old-name", NAMES, "names")(partial(_doubtful, old="--- a/original.txt", new="+++ b/{p}"))
slip("names-bold", NAMES, "names")(partial(_doubtful, old="--- **{p}**", new="+++ **{p}**"))


@slip("old-side-null", NAMES, "names")
def old_null(draft: Draft) -> bool:
    """`/dev/null` as the old side of an existing file, whose lines the hunks show."""
    own = [any(line.kind != "+" for hunk in part.hunks for line in hunk.lines) for part in draft.parts]
    return all(own) and _doubtful(draft, "--- /dev/null", "+++ b/{p}")


@slip("names-twice", NAMES, "names")
def twice(draft: Draft) -> bool:
    changed = False
    for part in draft.parts:
        if not part.change.in_place:
            return False
        for hunk in part.hunks[1:]:
            hunk.written()
            if not hunk.header:
                return False
            hunk.header = "\n".join([*part.head, hunk.header])
            changed = True
    return changed


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
