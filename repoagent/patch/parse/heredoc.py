"""What an answer shows as shell: whole files (`cat > path <<'EOF'`), and diffs (`git apply <<'EOF'`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.patch.hunk import FilePatch
from repoagent.patch.parse.diff import parse_diff
from repoagent.patch.problems import Misfit

_OPENS = r"<<(?P<dash>-?)[ \t]*(?P<quote>[\\'\"]?)(?P<word>\w{1,40})['\"]?"
_CAT = re.compile(
    r"[ \t]*\$?[ \t]*(?:sudo )?(?:cat[ \t]*>[ \t]*(?P<to>[^\s<>|;&]+)[ \t]*|cat[ \t]*"
    r"|tee[ \t]+(?P<tee>[^\s<>|;&-][^\s<>|;&]*)[ \t]*(?:>[ \t]*/dev/null[ \t]*)?)"
    rf"{_OPENS}[ \t]*(?:>[ \t]*(?P<after>[^\s<>|;&]+))?[ \t]*\r?$"
)
_COMMAND = r"(?P<tool>git[ \t]+apply|patch)(?P<options>(?:[ \t]+-[^\s<>|;&'\"]*)*)"
_PIPED = re.compile(rf"cat[ \t]*{_OPENS}[ \t]*\|[ \t]*{_COMMAND}[ \t]*$")
_FED = re.compile(rf"{_COMMAND}[ \t]*(?:<[ \t]*<\([ \t]*cat[ \t]*)?{_OPENS}[ \t]*$")
_LINE = re.compile(
    r"[ \t]*(?:\$[ \t]+)?(?:cd[ \t]+(?P<folder>[^\s<>|;&]+)[ \t]*(?:&&|;)[ \t]*)?(?P<rest>.*?)\r?$"
)
_CD = re.compile(r"[ \t]*(?:\$[ \t]+)?cd[ \t]+([^\s<>|;&]+)[ \t]*\r?$")
_APPLIED = re.compile(
    rf"{_COMMAND}[ \t]*(?:<[ \t]*|[ \t]-i[ \t]*)?[\"']?(?P<file>[^\s<>|;&\"']+)[\"']?[ \t]*$"
)
# Options with which the diff means what it says. Others reverse it, try it, or look for its files elsewhere.
_PLAIN_OPTIONS = re.compile(
    r"-|-p[01]|-v|-s|-N|-u|-3|-l|--verbose|--quiet|--index|--3way|--recount|--unidiff-zero|--forward|--unified"
    r"|--strip=[01]|--ignore-whitespace|--ignore-space-change|--inaccurate-eof|--whitespace=\w+|--no-backup-if-mismatch"
)
_EXPANDED = re.compile(r"`|\$[\w{(\[*@#?$!-]|\\[$`\\\n]")


@dataclass(frozen=True)
class _Opening:
    """The line before a here-document: what ends it, and whether it is a `diff` or the text of the file `path`."""

    path: str
    diff: bool
    dash: bool
    quoted: bool
    word: str
    folder: str = ""


def is_heredoc(lines: Sequence[str]) -> bool:
    """Does a shell script write a file of the project with `cat` or `tee`, or give a diff to `git apply` or `patch`?"""
    return any("<<" in line[:300] and _opening(line) for line in lines)


def _opening(line: str) -> _Opening | None:
    """What a line begins. Paths outside the project are none of ours."""
    if len(line) >= 600:
        return None
    found = _CAT.match(line)
    if found is not None:
        path = (found["to"] or found["tee"] or found["after"] or "").strip("\"'")
        if not path or path[0] in "/~$-" or "$" in path:
            return None
        return _Opening(path, False, bool(found["dash"]), bool(found["quote"]), found["word"])
    whole = _LINE.match(line)
    fed = (_PIPED.match(whole["rest"]) or _FED.match(whole["rest"])) if whole else None
    if whole is None or fed is None or not _is_plain(fed["options"]):
        return None
    folder = whole["folder"] or ""
    return _Opening("", True, bool(fed["dash"]), bool(fed["quote"]), fed["word"], folder)


def _is_plain(options: str) -> bool:
    return all(_PLAIN_OPTIONS.fullmatch(option) for option in options.split())


def parse_heredocs(lines: Sequence[str], known: Collection[str] = ()) -> list[FilePatch]:
    """The files that a script writes, and the patches that it applies. Raises Misfit for a text that the shell would
    change, and for a diff in a file that the script does not plainly apply."""
    patches: list[FilePatch] = []
    folder = ""
    scripts = _documents(lines)
    applied = dict(_applied(scripts[1]))
    for opening, body, ended in scripts[0]:
        if opening is None:
            folder = body[0]
            continue
        what = opening.path or "a diff"
        whole = "".join(f"{line}\n" for line in body)
        if not opening.quoted and _EXPANDED.search(whole):
            raise Misfit(
                "malformed",
                f"the shell would replace some of the text that is meant for {what}. Send the file in a "
                "fence that names it, or a unified diff.",
            )
        if opening.path in applied and not applied[opening.path]:
            raise Misfit(
                "malformed",
                f"the script does not plainly apply {opening.path}: its options change what the diff means. Send the "
                "diff by itself.",
            )
        if opening.diff or opening.path in applied:
            some = [_in_folder(patch, opening.folder or folder, known) for patch in parse_diff(body)]
            if some and not ended:
                some[-1] = replace(some[-1], cut=True)
            patches += some
        else:
            patches.append(FilePatch(None, opening.path, "whole-file", whole=whole, cut=not ended))
    return patches


def _documents(
    lines: Sequence[str],
) -> tuple[list[tuple[_Opening | None, list[str], bool]], list[str]]:
    """The here-documents of a script with their lines, and whether they end; between them, with None, the folder that
    a `cd` goes to. And the commands: all other lines."""
    found: list[tuple[_Opening | None, list[str], bool]] = []
    commands: list[str] = []
    at = 0
    while at < len(lines):
        opening = _opening(lines[at])
        at += 1
        if opening is None:
            line = lines[at - 1]
            commands.append(line)
            if len(line) < 600 and (gone := _CD.match(line)):
                found.append((None, [gone[1].strip("\"'")], True))
            continue
        first, ended = at, False
        while at < len(lines) and not ended:
            line = lines[at].removesuffix("\r")
            ended = (line.lstrip("\t") if opening.dash else line) == opening.word
            at += 1
        body = [line.removesuffix("\r") for line in lines[first : at - ended]]
        found.append((opening, [line.lstrip("\t") for line in body] if opening.dash else body, ended))
    return found, commands


def _applied(commands: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The files of which a script says that they are diffs to apply, and whether it says so plainly."""
    for line in commands:
        whole = _LINE.match(line) if len(line) < 600 else None
        found = _APPLIED.match(whole["rest"]) if whole else None
        if found is not None:
            yield found["file"].removeprefix("./"), _is_plain(found["options"])


def _in_folder(patch: FilePatch, folder: str, known: Collection[str]) -> FilePatch:
    """The patch with its names below the folder that the script went to, where such a file is known."""
    base = folder.strip("/").removeprefix("./")
    names = [re.sub(r"^[ab]/", "", name) for name in (patch.old, patch.new) if name]
    if base and names and all(f"{base}/{name}" in known for name in names):
        old, new = (f"{base}/{name}" for name in (names[0], names[-1]))
        return replace(patch, old=f"a/{old}", new=f"b/{new}")
    return patch
