"""The outlines of many files: which files there are, what each holds, why one has none."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from repoagent.errors import UsageError
from repoagent.repo.missing import no_such_file
from repoagent.repo.run import git
from repoagent.repo.worktree import open_worktree, relative
from repoagent.split.languages import LANGUAGES, is_binary, language_of, written_in
from repoagent.split.long_tail import LONG_TAIL, how_to_get
from repoagent.split.symbols.outlines import OUTLINE_SECONDS, read_outline
from repoagent.split.symbols.symbol import Symbol
from repoagent.split.symbols.underlined import is_plain_text

MOST_BYTES = 64 << 20


class Outline(NamedTuple):
    """What a file holds. `flaws` is the number of places that do not parse; `reason` says why there is no outline (""
    if there is one), `kind` the same in a word: "no grammar", "binary", "unreadable", "too large", "too slow"."""

    path: str
    language: str
    lines: int
    symbols: tuple[Symbol, ...]
    flaws: int = 0
    kind: str = ""
    reason: str = ""


def outline_of(path: str, data: bytes, language: str | None = None) -> Outline:
    """The outline of one text; `path` says the language if `language` does not."""
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    if is_binary(data):
        return Outline(path, "", 0, (), 0, "binary", "is binary: it has no outline")
    if len(data) > MOST_BYTES:
        return Outline(
            path, "", lines, (), 0, "too large", f"has more than {MOST_BYTES >> 20} MiB: split it first"
        )
    known = language or language_of(path, data)
    if known is None and not is_plain_text(path):
        return Outline(path, "", lines, (), 0, "no grammar", _no_grammar(path, data))
    read = read_outline(path, data, known)
    if read is None:
        reason = f"nests too deeply to be parsed, or takes more than {OUTLINE_SECONDS:.0f} seconds"
        return Outline(path, known or "", lines, (), 0, "too slow", reason)
    return Outline(path, known or "text", lines, *read)


def _no_grammar(path: str, data: bytes) -> str:
    written = written_in(path, data)
    if written is None:
        return "is in no language that repoagent knows: say which with --language"
    return f"is in {written}, whose grammar is not here: {how_to_get(written)}"


def check_language(language: str) -> None:
    """Raises UsageError for the name of a language that there is no grammar for."""
    if language in LANGUAGES or language_of_tail(language):
        return
    raise UsageError(
        f"there is no language {language!r}; there are: {', '.join(sorted([*LANGUAGES, *LONG_TAIL]))}"
    )


def language_of_tail(language: str) -> bool:
    """Whether it is one of the long tail. Raises UsageError, saying how to get it, where its grammar is not here."""
    if language not in LONG_TAIL:
        return False
    from repoagent.split.long_tail import at_hand

    if not at_hand(language):
        raise UsageError(f"the grammar of {language} is not here: {how_to_get(language)}")
    return True


def read_file(path: Path, named: str) -> bytes:
    """The bytes of a file. Raises UsageError with a sentence for what can't be read, `named` as the person wrote it."""
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise UsageError(f"{named} is a folder")
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise no_such_file(path, Path.cwd()) from None
    except OSError as error:
        raise UsageError(f"{named} can't be read: {error.strerror}") from error


def files_below(folder: Path, named: str) -> list[str]:
    """The files in a folder, as paths that begin with `named`: those that git tracks, in a repository; else all but
    hidden ones. In order. Raises UsageError where there is none."""
    try:
        worktree = open_worktree(folder)
    except UsageError:
        found, which = sorted(_walk(folder, named)), "file"
    else:
        top = relative(worktree, os.path.realpath(folder), Path.cwd())
        listed = git(worktree.top, "ls-files", "-z", "--cached", "--", top).split(b"\0")[:-1]
        cut = 0 if top == "." else len(os.fsencode(top)) + 1
        names = dict.fromkeys(os.fsdecode(path[cut:]) for path in listed if path)
        found, which = [_joined(named, name) for name in names], "file that git knows"
    if not (found := [path for path in found if _is_regular(path)]):
        raise UsageError(f"{named} holds no {which}")
    return found


def _is_regular(path: str) -> bool:
    """Not a link, whose file has its own name, nor what was removed since git was told of it."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _joined(folder: str, name: str) -> str:
    return name if folder in (".", "./") else f"{folder.rstrip('/')}/{name}"


def _walk(folder: Path, named: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = os.path.relpath(place, folder)
        for name in names:
            if not name.startswith("."):
                yield _joined(named, name if inside == "." else f"{inside}/{name}")


def unread(path: str) -> Outline:
    """What stands for a file among many that can't be read."""
    return Outline(path, "", 0, (), 0, "unreadable", "can't be read")


def within(symbols: Sequence[Symbol], one: Symbol) -> tuple[Symbol, ...]:
    """`one` and what it holds."""
    place = symbols.index(one)
    end = next((n for n in range(place + 1, len(symbols)) if symbols[n].depth <= one.depth), len(symbols))
    return tuple(symbols[place:end])
