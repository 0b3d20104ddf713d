"""The man pages, generated from the code: one for the program and one for each of its commands.

hatch_build.py installs them. `git repoagent --help` opens git-repoagent(1), which is the same page as repoagent(1).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
from roff import bold, entry, escaped, minor, page, paragraph, prose, section, subsection, title, verbatim

from repoagent import __version__
from repoagent.cli.app import COMMANDS, cli
from repoagent.cli.commands.help import EXIT_CODES
from repoagent.cli.options import GroupedCommand
from repoagent.config.options import OPTIONS

DATE = "2026-11-22"  # of the release

EXAMPLES = (
    'repoagent edit src/app.py "return a default when the config is missing"',
    "repoagent undo",
    "git diff --no-index a.py b.py | repoagent apply -",
    "repoagent neighbors src/app.py",
    "git repoagent review --base main",
    "repoagent doctor",
)
ENVIRONMENT = {
    "REPOAGENT_KEY": "Sets the option KEY: REPOAGENT_MAX_COST is max_cost, REPOAGENT_EDIT__SCOPE is edit.scope.",
    "REPOAGENT_TRACE": "With 1 or 2, prints each git process and model call and how long it takes to standard error; "
    "with an absolute path, appends them to that file. The trace has no keys, prompts or replies.",
    "ANTHROPIC_API_KEY": "The key for anthropic/ models; `repoagent models` names the variables of other providers.",
    "GIT_PAGER, PAGER": "The pager for long output on a terminal, chosen as git does: GIT_PAGER, core.pager, PAGER, "
    "less.",
    "GIT_EDITOR, VISUAL, EDITOR": "The editor, chosen as git does.",
    "GIT_DIR, GIT_WORK_TREE, GIT_INDEX_FILE": "As for git. Hooks set them.",
    "NO_COLOR, CI, TERM": "NO_COLOR turns colors off, CI turns questions and the pager off too, and TERM=dumb prints "
    "plain lines.",
    "XDG_CONFIG_HOME, XDG_STATE_HOME": "The folders of your options and of the cost log, by default ~/.config and "
    "~/.local/state.",
}
FILES = {
    ".repoagent/": "Memories, conversations, summaries and the history index, at the top of the main work tree. git "
    "ignores it; `repoagent config init` lets a team share its config.toml, context.md and skills/.",
    "$GIT_DIR/repoagent/": "The journal and locks of edits in progress, and the bytes before and after recent edits.",
    "~/.config/repoagent/config.toml": "Your own options.",
    "~/.local/state/repoagent/spent/": "The cost of model calls, one file per day.",
    ".repoagentignore": "Files that are never read, sent or edited, in the syntax of .gitignore.",
}
LAYERS = (
    "Later sources override earlier ones: defaults, ~/.config/repoagent/config.toml, "
    ".repoagent/config.toml, `git config repoagent.KEY`, REPOAGENT_KEY in the environment, flags. `repoagent config` "
    "shows each value and its origin; repoagent-config(1) lists the options."
)


def pages() -> dict[str, str]:
    """The files of share/man/man1, by name."""
    files = {"git-repoagent.1": ".so man1/repoagent.1\n"}
    with click.Context(cli, info_name="repoagent", **cli.context_settings) as ctx:
        files["repoagent.1"] = page(_program(ctx))
        for name in COMMANDS:
            command = cli.get_command(ctx, name)
            if command is None:
                raise LookupError(name)
            files[f"repoagent-{name}.1"] = page(_command(command, name, ctx))
    return files


def _program(ctx: click.Context) -> Iterator[str]:
    yield title("repoagent", __version__, DATE)
    yield section("name")
    yield "repoagent \\- edit a git repository with a language model"
    yield section("synopsis")
    yield from _synopsis(cli, ctx)
    yield f".br\n{bold('git repoagent')} \\&..."
    yield section("description")
    yield from prose(inspect.cleandoc(cli.help or ""))
    yield paragraph(
        "repoagent sends a model your request, the files and what it knows about them. It checks that the diff in the "
        "answer fits the exact bytes that the model saw, and commits that change alone. Other staged and unstaged "
        "changes stay as they are. `repoagent undo` undoes an edit."
    )
    yield paragraph("`git repoagent` is the same program.")
    yield section("commands")
    for name, (_, line) in COMMANDS.items():
        yield entry(f"{bold(f'repoagent-{name}')}(1)", line)
    yield section("options")
    yield from _options(cli, ctx)
    yield section("configuration")
    yield paragraph(LAYERS)
    yield section("environment")
    yield from (entry(bold(name), text) for name, text in ENVIRONMENT.items())
    yield section("files")
    yield from (entry(bold(name), text) for name, text in FILES.items())
    yield section("exit status")
    yield from (
        entry(bold(str(int(code))), f"{meaning[0].upper()}{meaning[1:]}.")
        for code, meaning in EXIT_CODES.items()
    )
    yield section("examples")
    yield verbatim(EXAMPLES)
    yield section("see also")
    yield _see(*(f"repoagent-{name}" for name in COMMANDS), "git")


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    full = f"repoagent-{name}"
    yield title(full, __version__, DATE)
    yield section("name")
    yield f"{escaped(full)} \\- {escaped(_line(COMMANDS[name][1]))}"
    with click.Context(command, info_name=name, parent=parent, **command.context_settings) as ctx:
        yield section("synopsis")
        yield from _synopsis(command, ctx)
        yield section("description")
        yield from prose(inspect.cleandoc(command.help or ""))
        if verbs := getattr(command, "verbs", {}):
            yield section("commands")
            for word, verb in verbs.items():
                yield from _inner(verb, f"{name} {word}", parent)
        if isinstance(command, click.Group):
            yield section("commands")
            for inner in command.list_commands(ctx):
                if (subcommand := command.get_command(ctx, inner)) is not None:
                    yield from _inner(subcommand, inner, ctx)
        yield section("options")
        yield from _options(command, ctx)
        yield from prose(inspect.cleandoc(command.epilog or ""))
    if name == "config":
        yield section("the options")
        yield from (
            entry(bold(option.key), f"{option.doc[0].upper()}{option.doc[1:]}.") for option in OPTIONS
        )
    yield section("exit status")
    yield paragraph("As in repoagent(1).")
    yield section("see also")
    yield _see("repoagent")


def _inner(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    """A command of a group, in a subsection."""
    with click.Context(command, info_name=name, parent=parent, **command.context_settings) as ctx:
        yield subsection(" ".join(ctx.command_path.split()[1:]))
        yield from _synopsis(command, ctx)
        yield from prose(inspect.cleandoc(command.help or ""))
        yield minor("Options")
        yield from _options(command, ctx)
        yield from prose(inspect.cleandoc(command.epilog or ""), minor)


def _synopsis(command: click.Command, ctx: click.Context) -> Iterator[str]:
    pieces = " ".join(command.collect_usage_pieces(ctx))
    yield f"{bold(ctx.command_path)} {escaped(pieces)}"


def _options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    groups = command.groups(ctx) if isinstance(command, GroupedCommand) else [("", command.get_params(ctx))]
    for number, (heading, params) in enumerate(groups):
        if number:
            yield minor(heading)
        for param in params:
            record = param.get_help_record(ctx)
            if record is not None and record[1]:
                yield entry(bold(record[0]), record[1])


def _see(*names: str) -> str:
    return "\n".join([".PP", ",\n".join(f"{bold(name)}(1)" for name in names)])


def _line(text: str) -> str:
    return f"{text[0].lower()}{text[1:]}".rstrip(".")
