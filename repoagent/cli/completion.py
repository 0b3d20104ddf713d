"""`repoagent completion`: the script that teaches a shell our commands, options and what they take.

The candidates of each kind: (value, what it is). All that fit what is typed so far, quick, and none on a failure.

Each looks at as little as it can: one call of git, or one file. They are imported by their name in kinds.py, and load
what they need when they are asked.

Which parameter takes what, told by how it is named: a command need not say it again.

The word in capitals in the help (FILE, REV, SPEC ...) decides, or the name of the parameter; TABLE is for the few where
neither tells.

A command line that is being typed, as bash, zsh and fish take it: pure functions.

From the line that a shell has, to the candidates for its last word.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.shell_completion import CompletionItem, ShellComplete

from repoagent.cli.session import Session
from repoagent.errors import RepoagentError

if TYPE_CHECKING:
    from repoagent.storage.layout import Layout

EPILOG = """\b
Examples:
  # bash, with the package bash-completion
  folder=~/.local/share/bash-completion/completions; mkdir -p $folder
  repoagent completion bash | tee $folder/{,git-}repoagent > /dev/null
  # zsh, with fpath+=~/.zfunc before compinit in ~/.zshrc
  mkdir -p ~/.zfunc; repoagent completion zsh > ~/.zfunc/_git-repoagent
  # fish
  set folder ~/.config/fish/completions; mkdir -p $folder
  repoagent completion fish | tee $folder/{,git-}repoagent.fish > /dev/null

Then `repoagent` and `git repoagent` are completed alike: commands, options, files, revisions, models, what is
remembered, conversations, keys of options. Nothing is asked over the network for it."""


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL: bash, zsh or fish."""
    ctx.ensure_object(Session).terminal().styled(script(shell))


Found = Iterator[tuple[str, str]]
GOES_ON = ("/", ":", "=", "..")  # a value that ends so is not whole yet
MOST = 500  # names of branches and tags: nobody reads more
_HEADS = ("HEAD", "HEAD~", "HEAD^", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD")


def files(incomplete: str, *, folders_only: bool = False) -> Iterator[tuple[str, bool]]:
    """Names of files below this folder, and whether more has to follow: that of a folder ends with a slash."""
    folder, slash, begin = incomplete.rpartition("/")
    try:
        entries = sorted(os.scandir(Path(folder + slash).expanduser() if folder + slash else "."), key=_name)
    except OSError:
        return
    for entry in entries:
        hidden = entry.name.startswith(".") and not begin.startswith(".")
        if hidden or not entry.name.startswith(begin):
            continue
        if entry.is_dir():
            yield f"{folder}{slash}{entry.name}/", True
        elif not folders_only:
            yield f"{folder}{slash}{entry.name}", False


def revisions(incomplete: str) -> Found:
    """Branches, tags, remote branches and HEAD; also after the dots of a range."""
    if ":" in incomplete:
        return
    before, dots, begin = incomplete.rpartition("..")
    if dots and begin.startswith("."):
        dots, begin = "...", begin[1:]
    head = f"{before}{dots}"
    if not head and begin.startswith("^"):
        head, begin = "^", begin[1:]
    for name in _HEADS[:3] if not begin else _HEADS:
        if name.startswith(begin):
            yield f"{head}{name}", ""
    for name, kind in _refs(begin):
        yield f"{head}{name}", kind


def _refs(begin: str) -> Found:
    from repoagent.git.process import git

    escaped = "".join(f"\\{character}" if character in "*?[\\" else character for character in begin)
    kinds = {"refs/heads/": "branch", "refs/tags/": "tag", "refs/remotes/": "remote branch"}
    if begin.startswith("refs/"):
        patterns = [f"{escaped}*", f"{escaped}*/**"]
    else:
        patterns = [f"{kind}{escaped}{end}" for kind in kinds for end in ("*", "*/**")]
    said = git(Path.cwd(), "for-each-ref", f"--count={MOST}", "--format=%(refname)", *patterns)
    for ref in os.fsdecode(said).splitlines():
        if begin.startswith("refs/"):
            yield ref, ""
        elif not ref.endswith("/HEAD"):
            yield next((ref.removeprefix(kind), name) for kind, name in kinds.items() if ref.startswith(kind))


def models(incomplete: str) -> Found:
    """Aliases, what is configured, models that we know of, and the other ways to name one."""
    from repoagent.llm.provider import PROVIDERS, parse_spec

    provider, name, path = parse_spec(incomplete)
    if provider.argument == "file":
        begin = f"{name}{provider.separator}"
        yield from ((f"{begin}{file}", "") for file, _ in files(path))
        return
    from repoagent.config.layers import load
    from repoagent.errors import RepoagentError
    from repoagent.llm.catalog import names

    found = names()
    found |= {f"{name}{entry.separator}": entry.summary for name, entry in PROVIDERS.items() if entry.summary}
    try:
        settings = load(None)  # to find what the repository itself says would take as long as all the rest
        found |= dict.fromkeys(settings.family("models"), "yours")
        found |= settings.names("alias")
    except RepoagentError:  # a broken configuration has no aliases
        pass
    yield from ((name, what) for name, what in found.items() if name.startswith(incomplete))


def keys(incomplete: str) -> Found:
    """Keys of options."""
    from repoagent.config.options import OPTIONS

    for option in OPTIONS:
        if option.key.startswith(incomplete):
            yield option.key, option.doc


def rules(incomplete: str) -> Found:
    """Rules of the review."""
    from repoagent.review.rules import RULES

    for name, rule in RULES.items():
        if name.startswith(incomplete):
            yield name, rule.line


def edits(incomplete: str) -> Found:
    """The edits of this work tree, by the id that undo takes, the newest first."""
    import json

    found = _layout()
    try:
        lines = [] if found is None else found.edits.read_bytes().splitlines()
        entries = [json.loads(line) for line in reversed(lines)]
    except (OSError, ValueError):
        return
    told = set()
    for entry in entries:
        name = str(entry["id"]) if isinstance(entry, dict) and "id" in entry else ""
        if name and name not in told and name.startswith(incomplete):
            told.add(name)
            yield name, " ".join(map(str, entry.get("paths", ())))


def runs(incomplete: str) -> Found:
    """The runs of tasks by name, the newest first; and by the last part of a name, where that is what is typed."""
    from repoagent.tasks.runs.list import runs as all_runs

    layout = _layout()
    found = [] if layout is None else all_runs(layout, warn=None)
    for run in found[:MOST]:
        if run.name.startswith(incomplete):
            yield run.name, run.record.prompt
        elif run.short.startswith(incomplete):
            yield run.short, run.record.prompt
    if found and "last".startswith(incomplete):
        yield "last", "the newest"


def languages(incomplete: str) -> Found:
    """Languages that there is a grammar for."""
    from repoagent.syntax.languages import LANGUAGES

    yield from ((name, "") for name in sorted(LANGUAGES) if name.startswith(incomplete))


def symbol_kinds(incomplete: str) -> Found:
    """Kinds of definitions."""
    from repoagent.cli.commands.outline import KINDS

    yield from ((name, "") for name in KINDS if name.startswith(incomplete))


def _layout() -> Layout | None:
    from repoagent.cli.session import find_layout

    return find_layout()


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


Find = Callable[[str], Iterable[tuple[str, str]]]

# The word in the help, or the parameter's name, in capitals: what to look among; "file" and "dir" are the shell's own.
WORDS: Mapping[str, Find | str] = {
    "FILE": "file",
    "PATH": "file",
    "INDEX": "file",
    "ARCHIVE": "file",
    "DIR": "dir",
    "FOLDER": "dir",
    "REV": revisions,
    "REF": revisions,
    "RANGE": revisions,
    "COMMIT": revisions,
    "SPEC": models,
    "MODEL": models,
    "RULE": rules,
    "LANGUAGE": languages,
    "KIND": symbol_kinds,
    "KEY": keys,
    "EDIT": edits,
    "RUN": runs,
}
# (command, parameter): where a word of the help means another thing than it does elsewhere
TABLE: Mapping[tuple[str, str], Find | str | None] = {
    ("test", "name"): models,
    ("outline", "language"): languages,
    ("split", "language"): languages,
    ("edit", "sign"): None,
    ("apply", "sign"): None,
}
_WORD = re.compile(r"[A-Z]{2,}")


class Completed(click.types.StringParamType):
    """A parameter whose values are found by `find`; it takes any value."""

    def __init__(self, find: Find | str) -> None:
        self.find = find

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        if isinstance(self.find, str):
            return [CompletionItem(incomplete, type=self.find)]
        return [
            CompletionItem(value, "part" if value.endswith(GOES_ON) else "plain", help)
            for value, help in self.find(incomplete)
        ]


def equip(command: click.Command) -> None:
    """Let every parameter of `command`, and of those in it, know its values. What it says itself stays."""
    for param in command.params:
        find = kind_of(param, command.name or "")
        if find is not None:
            param.type = Completed(find)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            equip(inner)


def kind_of(param: click.Parameter, command: str = "") -> Find | str | None:
    """What `param` takes; None where its type knows that (a choice, a number), or nobody does (a message)."""
    if isinstance(param, click.Option) and (param.is_flag or param.count):
        return None
    if not isinstance(param.type, (click.types.StringParamType, click.Path)):
        return None
    if (command, param.name) in TABLE:
        return TABLE[command, param.name or ""]
    named = _WORD.findall(param.metavar or "") or [(param.name or "").upper()]
    for word in (*named, (param.name or "").upper().rstrip("S")):
        if word in WORDS:
            return WORDS[word]
    return "file" if isinstance(param.type, click.Path) else None


_KEPT_BY_BACKSLASH = '$`"\\'  # inside of double quotes; before anything else a backslash is itself
_PLAIN = frozenset("_./@%+,:=^{}~-")  # beside letters, digits and all that is not ASCII


class Typed(NamedTuple):
    """`words` are the whole ones before the cursor, without their quotes; `incomplete` is the one at the cursor.

    `quote` is the quotation mark that it is inside of, or "". `kept` says how many of its characters stand before what
    the shell will replace: bash begins anew after each of COMP_WORDBREAKS.
    """

    words: list[str]
    incomplete: str
    quote: str = ""
    kept: int = 0


def read(line: str, breaks: str = "") -> Typed:
    """`line` up to the cursor; `breaks` are the characters at which bash begins a word anew."""
    words: list[str] = []
    word: list[str] = []
    quote, kept, inside, escaped = "", 0, False, False
    for character in line:
        if escaped:
            if quote and character not in _KEPT_BY_BACKSLASH:
                word.append("\\")
            word.append(character)
            escaped = False
        elif character == "\\" and quote != "'":
            inside = escaped = True
        elif quote:
            if character == quote:
                quote = ""
            else:
                word.append(character)
        elif character in "'\"":
            quote, kept, inside = character, len(word), True
        elif character in " \t\n":
            if inside:
                words.append("".join(word))
            word, kept, inside = [], 0, False
        else:
            word.append(character)
            inside = True
            if character in breaks:
                kept = len(word)
    return Typed(words, "".join(word), quote, kept)


def quoted(text: str, quote: str = "") -> str:
    """`text` as bash reads it inside of `quote`, which stays open, or outside of quotes."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        return "".join(f"\\{one}" if one in _KEPT_BY_BACKSLASH else one for one in text)
    shown = "".join(one if one.isalnum() or one > "\x7f" or one in _PLAIN else f"\\{one}" for one in text)
    return f"\\{shown}" if shown.startswith("~") else shown


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
    return Path(__file__).parent.joinpath("completions", f"repoagent.{shell}").read_text(encoding="utf-8")


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
