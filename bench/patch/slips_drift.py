"""Slips in the context: lines of it are left out, invented or written otherwise."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from bench.patch.draft import Draft
from bench.patch.model import ADDED, CONTEXT, Hunk, Line
from bench.patch.slip import HUNKS, LINES, slip
from bench.patch.slips_lines import adjacent
from bench.patch.unique import in_file


@slip("context-line-dropped", HUNKS, "context drift", blur=3)
def dropped(draft: Draft) -> bool:
    """A line is left out that stands between two of context."""
    found = False
    for hunk in draft.hunks:
        picked = [
            n
            for n in range(1, len(hunk.lines) - 1)
            if hunk.lines[n].kind == CONTEXT and not adjacent(hunk, n) and hunk.lines[n].text.strip()
        ]
        if picked:
            del hunk.lines[draft.rng.choice(picked)]
            found = True
    return found


@slip("context-line-doubled", HUNKS, "context drift", blur=3)
def doubled(draft: Draft) -> bool:
    found = False
    for hunk in draft.hunks:
        picked = [
            n
            for n, line in enumerate(hunk.lines)
            if line.kind == CONTEXT and line.text.strip() and not line.bare_end and not adjacent(hunk, n)
        ]
        if picked:
            number = draft.rng.choice(picked)
            hunk.lines.insert(number, replace(hunk.lines[number], row=None))
            found = True
    return found


@slip("context-word-changed", HUNKS, "context drift", blur=3)
def word_changed(draft: Draft) -> bool:
    """One word of one line of context in each hunk is another."""
    return _altered(draft, lambda word: draft.rng.choice(["value", "result", "data", "item"]), 6)


@slip("context-typo", HUNKS, "context drift", blur=3)
def typo(draft: Draft) -> bool:
    """Two letters of one line of context in each hunk have changed places."""

    def swap(word: str) -> str:
        at = draft.rng.randrange(len(word) - 1)
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]

    return _altered(draft, swap, 4)


def _altered(draft: Draft, alter: object, length: int) -> bool:
    """Alter a word of one long line of each hunk that has three more lines of the file."""
    assert callable(alter)
    found = False
    for hunk in draft.hunks:
        old = [line for line in hunk.lines if line.kind != ADDED and line.text.strip()]
        picked = [
            line
            for line in old
            if line.kind == CONTEXT and len(line.text.split()) >= 3 and len(line.text) >= 24
        ]
        words = [match for line in picked[:1] for match in re.finditer(rf"[A-Za-z]{{{length},}}", line.text)]
        if not words or len(old) < 4:
            continue
        word = draft.rng.choice(words)
        text = picked[0].text[: word.start()] + alter(word[0]) + picked[0].text[word.end() :]
        if text != picked[0].text:
            picked[0].text, found = text, True
    return found


@slip("context-comment-changed", HUNKS, "context drift", blur=3)
def comment_changed(draft: Draft) -> bool:
    """A comment of the context retold in other words."""
    found = False
    for hunk in draft.hunks:
        old = [line for line in hunk.lines if line.kind != ADDED and line.text.strip()]
        for number, line in enumerate(hunk.lines):
            match = re.match(r"(\s*(?:#|//|\*) )(\w.{20,})$", line.text)
            if line.kind == CONTEXT and match and len(old) >= 4 and not adjacent(hunk, number):
                words = match[2].split()
                line.text = match[1] + " ".join([*words[:-2], "as", "needed"])
                found = True
                break
    return found


@slip("context-invented-at-edge", HUNKS, "context drift edge", blur=3)
def invented(draft: Draft) -> bool:
    """A line above or below a hunk that isn't in the file."""
    said = draft.rng.choice(["# end of block", "}", "    return result", "pass", "// TODO", "import os"])
    found = False
    for part in draft.parts:
        before = part.change.before
        for hunk in part.hunks:
            known = {line.strip() for line in before.lines} if before else set()
            if said.strip() in known or hunk.lines[0].kind != CONTEXT or hunk.lines[-1].kind != CONTEXT:
                continue
            if hunk.lines[-1].bare_end or len([line for line in hunk.lines if line.kind != ADDED]) < 4:
                continue
            found = True
            if draft.rng.random() < 0.5:
                hunk.lines.insert(0, Line(CONTEXT, said))
            else:
                hunk.lines.append(Line(CONTEXT, said))
    return found


@slip("blank-line-invented", HUNKS, "context drift", blur=3)
def blank_invented(draft: Draft) -> bool:
    """A blank line too many between two lines of context."""
    return _blank(draft, insert=True)


@slip("blank-line-dropped", HUNKS, "context drift blank", blur=3)
def blank_dropped(draft: Draft) -> bool:
    """A blank line of context left out."""
    return _blank(draft, insert=False)


def _blank(draft: Draft, *, insert: bool) -> bool:
    found = False
    for hunk in draft.hunks:
        for number in range(1, len(hunk.lines) - 1):
            line = hunk.lines[number]
            if line.kind != CONTEXT or adjacent(hunk, number) or (insert == (not line.text.strip())):
                continue
            if insert:
                if hunk.lines[number - 1].text.strip():
                    hunk.lines.insert(number, Line(CONTEXT, ""))
                    found = True
            else:
                del hunk.lines[number]
                found = True
            break
    return found


@slip("overlapping-hunks", HUNKS, "fused numbers context", blur=1)
def overlapping(draft: Draft) -> bool:
    """Hunks whose context is shown twice: each edit alone with three lines around, though they are near."""
    found = False
    for part in draft.parts:
        change = part.change
        if not change.before or not change.after or len(change.edits) < 2:
            continue
        alone: list[Hunk] = []
        for edit in change.edits:
            single = replace(change, edits=[edit])
            draft_part = Draft(draft.seed, draft.rng, [single])
            draft_part.build()
            alone += draft_part.parts[0].hunks
        if len(alone) > len(part.hunks) and not any(
            line.kind == ADDED and line.bare_end for hunk in alone for line in hunk.lines
        ):
            part.hunks, found = alone, True
    return found


@slip("whole-function-rewritten", LINES, "pairs rewrite", blur=1)
def rewritten(draft: Draft) -> bool:
    """All lines of a hunk deleted and the result added, unchanged ones too. Where its lines are no longer the file's,
    it deletes what is not there, or keeps silent on a line between: one may ask what was meant."""
    found = False
    for hunk in draft.hunks:
        if any(line.bare_end for line in hunk.lines):
            continue
        draft.may_refuse = draft.may_refuse or not _as_in_file(draft, hunk)
        old = [replace(line, kind="-") for line in hunk.lines if line.kind != ADDED]
        new = [Line(ADDED, line.text) for line in hunk.lines if line.kind != "-"]
        hunk.lines, found = old + new, True
    return found


def _as_in_file(draft: Draft, hunk: Hunk) -> bool:
    """Do the hunk's old lines stand in the file as they are, one after another?"""
    old = [line for line in hunk.lines if line.kind != ADDED]
    rows = [line.row for line in old if line.row is not None]
    together = all(two == one + 1 for one, two in pairwise(rows))
    return together and all(in_file(draft, line) for line in old)
