"""From the line that a shell has, to the candidates for its last word."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem, ShellComplete

from repoagent.cli.completing.words import Typed, quoted, read
from repoagent.errors import RepoagentError

SHELLS = ("bash", "zsh", "fish")
_GIT_S = (
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--exec-path",
    "--super-prefix",
    "--config-env",
)


class Line(NamedTuple):
    """What is typed after the program's name, and the folders that a -C before it leads into."""

    arguments: list[str]
    folders: tuple[str, ...] = ()


def answer(cli: click.Command, name: str, instruction: str) -> int:
    """Do what `instruction` says: `bash_source` prints the script of that shell, `bash_complete` the candidates for
    COMP_WORDS, the line up to the cursor. The exit code is 2 for an instruction that means nothing.

    A line that means nothing, or something that fails (there is no repository here), gives no candidate.
    """
    shell, _, what = instruction.partition("_")
    if shell not in SHELLS or what not in ("source", "complete"):
        return 2
    if what == "source":
        sys.stdout.write(script(shell))
        return 0
    breaks = os.environ.get("COMP_WORDBREAKS", "") if shell == "bash" else ""
    typed = read(os.environ.get("COMP_WORDS", ""), breaks)
    line = after_program(typed.words)
    if line is None:
        return 0
    try:
        for folder in line.folders:
            os.chdir(folder or ".")
        # fish would not see names behind an open quote
        found = list(
            candidates(cli, name, line, typed.incomplete, named=shell == "fish" or bool(line.folders))
        )
    except (RepoagentError, OSError, click.ClickException):
        return 0
    lines = _FORMS[shell](found, typed)
    sys.stdout.write("".join(f"{one}\n" for one in lines))
    return 0


def script(shell: str) -> str:
    """The script that teaches `shell` to ask us."""
    return Path(__file__).with_name(f"repoagent.{shell}").read_text(encoding="utf-8")


def after_program(words: list[str]) -> Line | None:
    """What stands after `repoagent`, or after `git [OPTION...] repoagent`; None where that is not what is typed."""
    if not words:
        return None
    if words[0].rpartition("/")[2] != "git":
        return _with_folders(words[1:], ())
    folders: list[str] = []
    place = 1
    while place < len(words) and words[place].startswith("-"):
        if words[place] == "-C" and place + 1 < len(words):
            folders.append(words[place + 1])
        place += 2 if words[place] in _GIT_S else 1
    if place >= len(words) or words[place] != "repoagent":
        return None
    return _with_folders(words[place + 1 :], tuple(folders))


def _with_folders(arguments: list[str], folders: tuple[str, ...]) -> Line:
    """Our own -C, before the command or after it, is obeyed before anything is looked up."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for place, word in enumerate(options):
        if word == "-C":
            folders = (*folders, *options[place + 1 : place + 2])
        elif word.startswith("-C"):
            folders = (*folders, word[2:])
    return Line(arguments, folders)


def candidates(
    cli: click.Command, name: str, line: Line, incomplete: str, *, named: bool
) -> Iterator[CompletionItem[str]]:
    """The candidates for `incomplete`, each in whole, with what stands before a `=` in it too. One of the type "part"
    has more to come; one of the type "file" or "dir" asks the shell for names of its own, unless they are to be
    `named`: it looks where it stands itself."""
    from repoagent.cli.completing.values import files

    arguments = ["--" if word == "--end-of-options" else word for word in line.arguments]
    option, equals, _ = incomplete.partition("=")
    head = f"{option}=" if equals and option.startswith("--") and "--" not in arguments else ""
    for item in ShellComplete(cli, {}, name, "").get_completions(arguments, incomplete):
        if item.type in ("file", "dir") and named:
            for value, more in files(incomplete[len(head) :], folders_only=item.type == "dir"):
                yield CompletionItem(head + value, "part" if more else "plain")
        elif item.type in ("file", "dir"):
            yield item
        else:
            yield CompletionItem(head + item.value, item.type, item.help)


def _for_bash(found: list[CompletionItem[str]], typed: Typed) -> Iterator[str]:
    for item in found:
        if item.type in ("file", "dir"):
            yield f"{item.type},"
        elif item.value.isprintable():
            yield f"{item.type},{quoted(item.value[typed.kept :], typed.quote)}"


def _for_zsh(found: list[CompletionItem[str]], typed: Typed) -> Iterator[str]:
    option = typed.incomplete.partition("=")[0]
    cut = len(option) + 1 if typed.incomplete.startswith("--") and "=" in typed.incomplete else 0
    for item in found:
        if item.type in ("file", "dir"):
            yield from (item.type, "", "")
        elif item.value.isprintable():
            yield from (item.type, item.value[cut:], _line(item.help))


def _for_fish(found: list[CompletionItem[str]], typed: Typed) -> Iterator[str]:
    for item in found:
        if item.value.isprintable():
            yield f"{item.value}\t{_line(item.help)}".rstrip("\t")


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


_FORMS: Mapping[str, Callable[[list[CompletionItem[str]], Typed], Iterator[str]]] = {
    "bash": _for_bash,
    "zsh": _for_zsh,
    "fish": _for_fish,
}
