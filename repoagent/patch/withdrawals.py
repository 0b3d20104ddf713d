"""Leave out patches that the prose of their answer withdraws."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby

from repoagent.patch.errors import PatchRefused, Problem
from repoagent.patch.files import known_path, spellings
from repoagent.patch.locate.exact import LEVELS, WHITESPACE
from repoagent.patch.model import FilePatch, Revision
from repoagent.patch.parse.answer import adds, everything, withdrawing


def without_withdrawn(patches: Sequence[FilePatch], known: Collection[str]) -> list[FilePatch]:
    """The patches of an answer that remain; `known` are the names of files.

    Raises PatchRefused if the text withdraws something and does not make clear what.
    """
    left: list[FilePatch] = []
    if not any(patch.revises for patch in patches):
        return list(patches)
    for part in _rounds(patches):
        decided = part[0].words > Revision.CORRECTS
        left = list(_kept(left, part, known))
        left += (
            [replace(patch, words=Revision.NEUTRAL) for patch in part]
            if decided
            else _with_inherited(part, known)
        )
    return left


def _with_inherited(patches: Sequence[FilePatch], known: Collection[str]) -> list[FilePatch]:
    """The patches; where an answer begins again, the first of each file from there on corrects that file too, although
    other words, or none, stand right before it."""
    result: list[FilePatch] = []
    again = False
    seen: set[str] = set()
    for _, block in groupby(patches, key=lambda patch: patch.block):
        some = list(block)
        files = {_file(patch, known) for patch in some}
        if some[0].revises:
            again, seen = True, files
        elif again and not files & seen and not adds(some[0].prose):
            some = [replace(patch, words=Revision.CORRECTS) for patch in some]
        seen |= files
        result += some
    return result


def _rounds(patches: Sequence[FilePatch]) -> list[list[FilePatch]]:
    """The patches cut before each block whose words withdraw, or may withdraw, what is above it."""
    rounds: list[list[FilePatch]] = []
    for _, block in groupby(patches, key=lambda patch: patch.block):
        some = list(block)
        if rounds and some[0].words < Revision.CORRECTS:
            rounds[-1] += some
        else:
            rounds.append(some)
    return rounds


def _kept(
    above: Sequence[FilePatch], now: Sequence[FilePatch], known: Collection[str]
) -> Sequence[FilePatch]:
    """What of the patches `above` is not withdrawn by the words before the patches `now`."""
    said, prose = now[0].words, now[0].prose
    if not above or said < Revision.CORRECTS:
        return above
    files = {_file(patch, known) for patch in now}
    if said < Revision.WITHDRAWS and files.isdisjoint(_file(patch, known) for patch in above):
        if said is Revision.NEW or any(_named(file, prose) for file in files):
            return above  # "here is the corrected diff" of another file
        raise _unclear(now, known)
    if said is Revision.CORRECTS:
        return above
    if said is Revision.WITHDRAWS and everything(now[0].prose):
        return []
    gone = _meant(above, now, known)
    for file in {_file(patch, known) for patch in gone}:
        old = [patch for patch in gone if _file(patch, known) == file]
        new = [patch for patch in now if _file(patch, known) == file]
        if new and len({patch.block for patch in old}) > 1 and not _covered(old, new):
            raise _unclear(now, known)
    return [patch for patch in above if patch not in gone]


def _meant(
    above: Sequence[FilePatch], now: Sequence[FilePatch], known: Collection[str]
) -> Sequence[FilePatch]:
    """The patches that are undone: of the files that the words name, or of all files that come again."""
    text = withdrawing(now[0].prose)
    named = [patch for patch in above if _named(_file(patch, known), text)]
    if named:
        return named
    files = {_file(patch, known) for patch in now}
    last = {_file(patch, known) for patch in above if patch.block == above[-1].block}
    again = [patch for patch in above if _file(patch, known) in files]
    alone = {patch.block for patch in again}.isdisjoint(patch.block for patch in above if patch not in again)
    if len(again) == len(above) or (not again and len({patch.block for patch in above}) == 1):
        return above
    if again and alone and last <= files:
        return again
    raise _unclear(now, known)


def _file(patch: FilePatch, known: Collection[str]) -> str:
    old, new = spellings(patch.old or patch.new, patch.new or patch.old)
    return known_path([*new, *old], known) or (new[0] if new else "")


def _named(file: str, text: str) -> bool:
    base = file.rpartition("/")[2]
    return bool(base) and re.search(rf"(?<![\w.-]){re.escape(base)}(?![\w-]|\.\w)", text) is not None


def _covered(old: Sequence[FilePatch], new: Sequence[FilePatch]) -> bool:
    """Do the new patches show all lines of the file that the old ones show?"""
    if any(patch.whole is not None for patch in new):
        return True
    shown = {LEVELS[WHITESPACE](line.text) for patch in new for hunk in patch.hunks for line in hunk.old}
    return all(
        LEVELS[WHITESPACE](line.text) in shown
        for patch in old
        for hunk in patch.hunks
        if hunk.changes
        for line in hunk.old
    )


def _unclear(now: Sequence[FilePatch], known: Collection[str]) -> PatchRefused:
    text = (
        "the text before this patch withdraws an earlier one, but it is unclear which, or how much of it. "
        "Send one answer with the whole change and nothing else."
    )
    return PatchRefused([Problem(_file(now[0], known), 0, "ambiguous", text)])
