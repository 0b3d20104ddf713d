"""partner-missing: a file that usually changes along with the changed ones is missing.

The kernel and its threshold are those of `history.cochange`; the threshold is learned on the repository's own commits.
So a branch of a few commits is examined commit by commit, and a partner is missing if no commit of it touches it.

`only_comments`: a change of comments, or a correction of words in a text, needs no partner. It reads the texts, so ask
only where a rule has a finding.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from repoagent.review.change import Change, ChangedFile, Lines
from repoagent.review.checks.context import HistoryContext
from repoagent.review.checks.file_origin import LOCKS
from repoagent.review.finding import Finding, Location

if TYPE_CHECKING:
    from repoagent.history.cochange.missing import Missing
    from repoagent.history.cochange.score import View

RULE = "partner-missing"
USUAL = 30  # files; of a larger change nobody waits for advice, and the threshold was not learned on such
STEPS = 3  # commits of a branch that are asked about one by one; of a longer one that names too much
SHOWN = 3
UNLEARNED = (
    0.8  # threshold until the repository's own is known, and while there are too few commits to learn it from
)
FEWEST = 40  # commits that it is learned from
ALIKE = 10  # past commits, those of the largest weight, of which so many must have had the partner:
SUPPORT = 3  # one commit alone can be most of the weight


class _Partner(NamedTuple):
    """A partner of the changed files `files` (ids by path), part of `near` of the `alike` most relevant commits."""

    one: Missing
    files: Mapping[str, int]
    near: int
    alike: int


def find_missing_partners(context: HistoryContext) -> list[Finding]:
    """At most three partners, the surest first."""
    view, habits = context.view, context.habits
    threshold = habits.threshold if habits is not None and habits.commits >= FEWEST else UNLEARNED
    if view is None or threshold >= 1:
        return []
    changed = context.changed | context.change.earlier | _manifests(context)
    best: dict[str, _Partner] = {}
    for paths in steps(context):
        files = {path: file for path, file in context.files.items() if path in paths}
        if not files or len(paths) > USUAL:
            continue
        for partner in _likely_partners(context, view, files, threshold):
            name = os.fsdecode(partner.one.path)
            if name not in changed and (
                name not in best or best[name].one.confidence < partner.one.confidence
            ):
                best[name] = partner
    if not best or only_comments(context.change, *context.change.files):
        return []
    surest = sorted(best.values(), key=lambda partner: (-partner.one.confidence, partner.one.file))
    return [_finding(context, view, partner, threshold) for partner in surest[:SHOWN]]


def steps(context: HistoryContext) -> list[frozenset[str]]:
    """The paths of the change; for a branch of 2 or 3 commits, those of each commit, with one git call."""
    change = context.change
    whole = [context.changed] if len(change.files) <= USUAL else []
    if change.kind != "range":
        return whole
    from repoagent.review.diff.select import paths_by_commit

    found = paths_by_commit(context.top, change.head, change.base, STEPS)
    return found if found is not None and len(found) > 1 else whole


def _likely_partners(
    context: HistoryContext, view: View, files: Mapping[str, int], threshold: float
) -> list[_Partner]:
    """The partners of these files that enough of the most relevant commits have."""
    from repoagent.history.cochange.missing import DEPTH, merge, missing, weigh

    ids = sorted(set(files.values()))
    candidates = missing(view, ids, limit=SHOWN, threshold=threshold, author=context.author)
    if not candidates:
        return []
    weighed = weigh(frozenset(ids), merge(view.many(ids, DEPTH)), context.author)
    alike = [commit for commit, _ in sorted(weighed, key=lambda each: -each[1])[:ALIKE]]
    partners = (
        _Partner(one, files, sum(one.file in each.files for each in alike), len(alike)) for one in candidates
    )
    return [partner for partner in partners if partner.near >= min(SUPPORT, partner.alike)]


def _manifests(context: HistoryContext) -> set[str]:
    """The manifests of the changed lock files: the rule generated-edited covers these."""
    return {
        f"{folder}{slash}{manifest}"
        for path in context.changed
        for folder, slash, name in (path.rpartition("/"),)
        for manifest in LOCKS.get(name, ())
    }


def _finding(context: HistoryContext, view: View, partner: _Partner, threshold: float) -> Finding:
    one = partner.one
    name, path = os.fsdecode(one.path), _nearest(view, partner)
    several = len(partner.files) > 1
    how = "usually" if 2 * one.together >= one.commits else "often"
    body = (
        f"It changed in {one.together} of the last {one.commits} commits of "
        f"{'the changed files' if several else path}"
    )
    if one.commits > partner.alike and one.together < one.commits:
        body += f", and in {partner.near} of the {partner.alike} most relevant (similar, recent, same author)"
    body += f". The weighted share is {one.confidence:.0%}, the threshold {threshold:.0%}."
    title = f"{name} {how} changes along with {path}, but is not part of this change"
    evidence, confidence = context.evidence(one.evidence), round(one.confidence, 3)
    return context.finding(RULE, title, Location(path), body, name, evidence=evidence, confidence=confidence)


def _nearest(view: View, partner: _Partner) -> str:
    """The changed file that was most often in the commits with the partner."""
    from repoagent.history.cochange.missing import DEPTH

    common = set(partner.one.evidence)
    histories = view.many(sorted(set(partner.files.values())), DEPTH)
    counts = {
        path: sum(commit.number in common for commit in histories[file])
        for path, file in partner.files.items()
    }
    return min(partner.files, key=lambda path: (-counts[path], path))


_MOST = 1 << 20  # bytes of a text
_STARRED = re.compile(rb"//|/\*|\*(?=[\s/]|$)")  # `*p = 1` is none
_HASH = re.compile(rb"#")
_DASHES = re.compile(rb"--(?:\s|$)")
_MARKS = {
    _STARRED: (
        "c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "cs", "css", "dart", "go", "java", "js", "jsx", "kt", "mjs",
        "cjs", "php", "proto", "rs", "scala", "scss", "swift", "ts", "tsx", "zig",
    ),
    _HASH: ("bash", "cfg", "cmake", "conf", "mk", "pl", "py", "pyi", "r", "rb", "sh", "tcl", "toml", "yaml", "yml"),
    _DASHES: ("hs", "lua", "sql"),
}  # fmt: skip
_PROSE = (".md", ".markdown", ".rst", ".txt", ".adoc")
_FEW, _LONG = 20, 1000  # lines, and bytes of them
_ALIKE = 0.85  # how much a corrected line is like the one before
_ORDERS = (b"#!", b"//go:", b"// +build")  # what tools obey
_MARK_OF = {ending: mark for mark, endings in _MARKS.items() for ending in endings}


def is_comment(path: str, line: bytes) -> bool:
    """Whether the line, taken by itself, is a comment or empty."""
    bare = line.strip()
    if not bare:
        return True
    if bare.startswith(_ORDERS):
        return False
    mark = _MARK_OF.get(path.rpartition(".")[2].lower())
    if mark is None:
        return False
    if mark is _STARRED and b"*/" in bare:  # the end of one, with nothing behind it
        begin = bare.find(b"/*")
        return bare.endswith(b"*/") and (begin <= 0)
    return mark.match(bare) is not None


def only_comments(change: Change, *files: ChangedFile) -> bool:
    """Whether only comments and empty lines changed in these files; in Python also docstrings and layout, in prose also
    corrections of a few lines. False for an added or deleted file and one without changed lines."""
    return bool(files) and all(_only_comments(change, file) for file in files)


def _only_comments(change: Change, file: ChangedFile) -> bool:
    if file.status != "modified" or file.old_mode != file.new_mode:
        return False
    lines = [line for part in change.read_lines(file) for line in (*part.removed, *part.added)]
    if not lines:
        return False
    if all(is_comment(file.path, line) for line in lines):
        return True
    if file.path.lower().endswith(_PROSE):
        return len(lines) <= _FEW and all(_is_correction(part) for part in change.read_lines(file))
    return file.path.endswith((".py", ".pyi")) and _is_same_python(
        change.read_old(file), change.read_new(file)
    )


def _is_correction(part: Lines) -> bool:
    """Whether each line became one that is much like it: a corrected word."""
    from difflib import SequenceMatcher

    return len(part.removed) == len(part.added) and all(
        SequenceMatcher(None, old[:_LONG], new[:_LONG], autojunk=False).ratio() >= _ALIKE
        for old, new in zip(part.removed, part.added, strict=True)
    )


def _is_same_python(old: bytes | None, new: bytes | None) -> bool:
    """Whether both are the same program but for docstrings and layout."""
    if old is None or new is None or max(len(old), len(new)) > _MOST:
        return False
    import ast

    def bare(text: bytes) -> str:
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and node.body
            ):
                first = node.body[0]
                if (
                    isinstance(first, ast.Expr)
                    and isinstance(first.value, ast.Constant)
                    and isinstance(first.value.value, str)
                ):
                    del node.body[0]
        return ast.dump(tree)

    try:
        return bare(old) == bare(new)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # what this Python does not read
        return False
