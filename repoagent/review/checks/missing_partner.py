"""partner-missing: a file that usually changes along with the changed ones is missing.

The kernel and its threshold are those of `history.cochange`; the threshold is learned from commits of the repository.
So check a short branch commit by commit; a partner is missing if no commit of the branch touches it.

`only_comments`: a change of comments, or a correction of words in a text, needs no partner. It reads the texts, so call
it only if a rule has a finding.
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
USUAL = 30  # files; the threshold is not learned on larger changes
STEPS = 3  # commits of a branch that is checked commit by commit; a longer one would give too many findings
SHOWN = 3
UNLEARNED = 0.8  # threshold while there are too few commits to learn it
FEWEST = 40  # commits to learn the threshold from
ALIKE = 10  # past commits of the largest weight, of which SUPPORT must have the partner
SUPPORT = 3  # since one commit alone can be most of the weight


class _Partner(NamedTuple):
    """A partner of the changed files `files` (ids by path), in `hits` of the `alike` most relevant commits."""

    missing: Missing
    files: Mapping[str, int]
    hits: int
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
            name = os.fsdecode(partner.missing.path)
            if name not in changed and (
                name not in best or best[name].missing.confidence < partner.missing.confidence
            ):
                best[name] = partner
    if not best or only_comments(context.change, *context.change.files):
        return []
    surest = sorted(best.values(), key=lambda partner: (-partner.missing.confidence, partner.missing.file))
    return [_finding(context, view, partner, threshold) for partner in surest[:SHOWN]]


def steps(context: HistoryContext) -> list[frozenset[str]]:
    """The paths of the change; for a branch of 2 or 3 commits, those of each commit, with one git call."""
    change = context.change
    all_at_once = [context.changed] if len(change.files) <= USUAL else []
    if change.kind != "range":
        return all_at_once
    from repoagent.review.diff.select import paths_by_commit

    paths = paths_by_commit(context.top, change.head, change.base, STEPS)
    return paths if paths is not None and len(paths) > 1 else all_at_once


def _likely_partners(
    context: HistoryContext, view: View, files: Mapping[str, int], threshold: float
) -> list[_Partner]:
    """The partners of these files that are in enough of the most relevant commits."""
    from repoagent.history.cochange.missing import DEPTH, merge, missing, weigh

    ids = sorted(set(files.values()))
    candidates = missing(view, ids, limit=SHOWN, threshold=threshold, author=context.author)
    if not candidates:
        return []
    weighed = weigh(frozenset(ids), merge(view.many(ids, DEPTH)), context.author)
    alike = [commit for commit, _ in sorted(weighed, key=lambda entry: -entry[1])[:ALIKE]]
    partners = (
        _Partner(candidate, files, sum(candidate.file in entry.files for entry in alike), len(alike))
        for candidate in candidates
    )
    return [partner for partner in partners if partner.hits >= min(SUPPORT, partner.alike)]


def _manifests(context: HistoryContext) -> set[str]:
    """The manifests of the changed lock files: the rule generated-edited covers these."""
    return {
        f"{folder}{slash}{manifest}"
        for path in context.changed
        for folder, slash, name in (path.rpartition("/"),)
        for manifest in LOCKS.get(name, ())
    }


def _finding(context: HistoryContext, view: View, partner: _Partner, threshold: float) -> Finding:
    missing = partner.missing
    name, path = os.fsdecode(missing.path), _nearest(view, partner)
    several = len(partner.files) > 1
    frequency = "usually" if 2 * missing.together >= missing.commits else "often"
    body = (
        f"It changed in {missing.together} of the last {missing.commits} commits of "
        f"{'the changed files' if several else path}"
    )
    if missing.commits > partner.alike and missing.together < missing.commits:
        body += f", and in {partner.hits} of the {partner.alike} most relevant (similar, recent, same author)"
    body += f". The weighted share is {missing.confidence:.0%}, the threshold {threshold:.0%}."
    title = f"{name} {frequency} changes along with {path}, but is not part of this change"
    evidence, confidence = context.evidence(missing.evidence), round(missing.confidence, 3)
    return context.finding(RULE, title, Location(path), body, name, evidence=evidence, confidence=confidence)


def _nearest(view: View, partner: _Partner) -> str:
    """The changed file that was most often in the commits with the partner."""
    from repoagent.history.cochange.missing import DEPTH

    common = set(partner.missing.evidence)
    histories = view.many(sorted(set(partner.files.values())), DEPTH)
    counts = {
        path: sum(commit.number in common for commit in histories[file])
        for path, file in partner.files.items()
    }
    return min(partner.files, key=lambda path: (-counts[path], path))


_MOST = 1 << 20  # bytes of a text
_STARRED = re.compile(rb"//|/\*|\*(?=[\s/]|$)")  # but not `*p = 1`
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
_ALIKE = 0.85  # similarity of a corrected line to the old one
_ORDERS = (b"#!", b"//go:", b"// +build")  # directives of tools
_MARK_OF = {ending: mark for mark, endings in _MARKS.items() for ending in endings}


def is_comment(path: str, line: bytes) -> bool:
    """Whether the line by itself is a comment or empty."""
    stripped = line.strip()
    if not stripped:
        return True
    if stripped.startswith(_ORDERS):
        return False
    mark = _MARK_OF.get(path.rpartition(".")[2].lower())
    if mark is None:
        return False
    if mark is _STARRED and b"*/" in stripped:  # the end of a comment, without code after it
        begin = stripped.find(b"/*")
        return stripped.endswith(b"*/") and (begin <= 0)
    return mark.match(stripped) is not None


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
    """Whether each line changed only a little, as when a word is corrected."""
    from difflib import SequenceMatcher

    return len(part.removed) == len(part.added) and all(
        SequenceMatcher(None, old[:_LONG], new[:_LONG], autojunk=False).ratio() >= _ALIKE
        for old, new in zip(part.removed, part.added, strict=True)
    )


def _is_same_python(old: bytes | None, new: bytes | None) -> bool:
    """Whether both are the same program apart from docstrings and layout."""
    if old is None or new is None or max(len(old), len(new)) > _MOST:
        return False
    import ast

    def dump_without_docstrings(text: bytes) -> str:
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
        return dump_without_docstrings(old) == dump_without_docstrings(new)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # this Python cannot parse it
        return False
