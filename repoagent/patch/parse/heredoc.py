"""Whole files that an answer shows as shell: `cat > path <<'EOF'`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from repoagent.patch.hunk import FilePatch
from repoagent.patch.problems import Misfit

_CAT = re.compile(
    r"[ \t]*\$?[ \t]*(?:sudo )?(?:cat[ \t]*>[ \t]*(?P<to>[^\s<>|;&]+)[ \t]*<<|cat[ \t]*<<"
    r"|tee[ \t]+(?P<tee>[^\s<>|;&-][^\s<>|;&]*)[ \t]*(?:>[ \t]*/dev/null[ \t]*)?<<)"
    r"(?P<dash>-?)[ \t]*(?P<quote>[\\'\"]?)(?P<word>\w{1,40})['\"]?[ \t]*(?:>[ \t]*(?P<after>[^\s<>|;&]+))?[ \t]*\r?$"
)


def is_heredoc(lines: Sequence[str]) -> bool:
    """Does a shell script write a file of the project with `cat` or `tee`?"""
    return any("<<" in line[:300] and _opens(line) for line in lines)


def _opens(line: str) -> re.Match[str] | None:
    """The match of a line that begins such a file. Paths outside the project are none of ours."""
    found = _CAT.match(line) if len(line) < 600 else None
    path = _path(found) if found else ""
    return None if not path or path[0] in "/~$-" or "$" in path else found


def _path(found: re.Match[str]) -> str:
    return (found["to"] or found["tee"] or found["after"] or "").strip("\"'")


def parse_heredocs(lines: Sequence[str]) -> list[FilePatch]:
    """The files that a script writes. Raises Misfit for one whose text the shell would change."""
    patches: list[FilePatch] = []
    at = 0
    while at < len(lines):
        found = _opens(lines[at])
        at += 1
        if found is None:
            continue
        first = at
        ended = False
        while at < len(lines):
            line = lines[at].removesuffix("\r")
            if (line.lstrip("\t") if found["dash"] else line) == found["word"]:
                ended = True
                break
            at += 1
        body = [line.removesuffix("\r") for line in lines[first:at]]
        if found["dash"]:
            body = [line.lstrip("\t") for line in body]
        at += 1
        whole = "".join(f"{line}\n" for line in body)
        if not found["quote"] and re.search(r"[$`\\]", whole):
            raise Misfit(
                "malformed",
                f"the shell would replace some of the text that is meant for {_path(found)}. Send the file in a "
                "fence that names it, or a unified diff.",
            )
        patches.append(FilePatch(None, _path(found), "whole-file", whole=whole, cut=not ended))
    return patches
