"""SEARCH/REPLACE blocks and whole-file fences."""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher

from repoagent.patch.hunk import ADD, CONTEXT, DELETE, FilePatch, Hunk, Line
from repoagent.patch.paths import name_on_line
from repoagent.patch.problems import Misfit
from repoagent.patch.spans import DIVIDER, REPLACE, SEARCH, Block


def parse_search_replace(block: Block, inherited: str | None) -> list[FilePatch]:
    """The blocks in order, those of one file next to each other as one patch. A block without a name of its
    own is for the file of the block before it (`inherited` for the first)."""
    patches: list[FilePatch] = []
    name = block.name or inherited
    search: list[str] | None = None
    replacement: list[str] | None = None
    before = ""
    for line in (line.removesuffix("\r") for line in block.lines):
        if SEARCH.match(line):
            if search is not None:
                raise _broken(name)
            search, name = [], name_on_line(before) or name
        elif REPLACE.match(line):
            if search is None or replacement is None:
                raise _broken(name)
            _add(patches, name, _hunk(search, replacement))
            search = replacement = None
        elif DIVIDER.match(line) and search is not None:
            if replacement is not None:
                raise _broken(name)
            replacement = []
        elif replacement is not None:
            replacement.append(line)
        elif search is not None:
            search.append(line)
        before = line if line.strip() else before
    if search is not None:
        raise Misfit(
            "cut-off", f"the SEARCH/REPLACE block for {name or 'a file'} has no end; send it again, complete."
        )
    return patches


def _broken(name: str | None) -> Misfit:
    return Misfit(
        "malformed",
        f"a SEARCH/REPLACE block for {name or 'a file'} has its markers out of order "
        "(or its text holds such a marker); send that change as a unified diff instead.",
    )


def _add(patches: list[FilePatch], name: str | None, hunk: Hunk) -> None:
    if patches and patches[-1].new == name:
        last = patches[-1]
        patches[-1] = replace(last, hunks=(*last.hunks, replace(hunk, number=len(last.hunks) + 1)))
    else:
        patches.append(FilePatch(None, name, "search-replace", hunks=(hunk,)))


def _hunk(search: list[str], replacement: list[str]) -> Hunk:
    """The same as a hunk: lines equal on both sides are context, so that they keep the file's bytes."""
    lines: list[Line] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, search, replacement, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [Line(CONTEXT, text) for text in search[i1:i2]]
        else:
            lines += [Line(DELETE, text) for text in search[i1:i2]]
            lines += [Line(ADD, text) for text in replacement[j1:j2]]
    return Hunk(tuple(lines))


def parse_whole(block: Block) -> FilePatch:
    """A fence that holds a complete file."""
    lines = [line.removesuffix("\r") for line in block.lines]
    whole = "".join(f"{line}\n" for line in lines)
    return FilePatch(None, block.name, "whole-file", whole=whole, cut=not block.closed)
