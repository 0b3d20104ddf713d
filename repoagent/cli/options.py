"""Options that several commands share, and `GroupedCommand`, which lists options in groups. `read_words` reads the
files that such options name."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.request import EditRequest
    from repoagent.git.transaction.results import Options

LONG = 15  # a command with more options than this shows the first group only, and the rest with --help-all
_ALL = f"{__name__}.all"  # the key in ctx.meta: show all groups


class GroupedCommand(click.Command):
    """A command whose help lists the options in groups.

    option_groups: the parameters under each heading, the most useful first.
    verbs: maps a first argument to its subcommand, as in `config init` and `review dismiss`.
    """

    def __init__(
        self,
        *args: Any,
        option_groups: Mapping[str, Sequence[str]] | None = None,
        verbs: Mapping[str, click.Command] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.option_groups = option_groups or {}
        self.verbs = verbs or {}
        options = [param for param in self.params if isinstance(param, click.Option)]
        self.is_long = bool(self.option_groups) and len(options) > LONG
        if self.is_long:
            self.params.append(
                click.Option(
                    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all,
                    help="Show all options and exit.",
                )
            )  # fmt: skip

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in self.verbs:
            return self.verbs[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.verbs:
            with formatter.section("Commands"):
                rows = []
                for name, verb in self.verbs.items():
                    words = [
                        each.human_readable_name for each in verb.params if isinstance(each, click.Argument)
                    ]
                    rows.append((" ".join([name, *words]), verb.get_short_help_str(100)))
                formatter.write_dl(rows)
        for heading, params in self.groups(ctx):
            records = [record for param in params if (record := param.get_help_record(ctx))]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
            if self.is_long and not ctx.meta.get(_ALL):
                break

    def groups(self, ctx: click.Context) -> Iterator[tuple[str, list[click.Option]]]:
        """All options by heading. Options that are in no group appear under the first heading."""
        params = {
            option.name or "": option for option in self.get_params(ctx) if isinstance(option, click.Option)
        }
        named = {name for names in self.option_groups.values() for name in names}
        rest = [param for name, param in params.items() if name not in named]
        for heading, names in (self.option_groups or {"Options": ()}).items():
            yield heading, [*(params[name] for name in names), *rest]
            rest = []


class NumberOption(click.Option):
    """An option whose help omits the range of its type, such as [x>=1]; the error for a number out of range names
    it."""

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


number_option = partial(click.option, cls=NumberOption)


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        show_all_options(ctx)
        click.echo(ctx.get_help())
        ctx.exit()


def show_all_options(ctx: click.Context) -> None:
    """Show all option groups in this context's help."""
    ctx.meta[_ALL] = True


def read_words(file: Path, noun: str) -> str:
    """Read the text of `file`; "-" is standard input. Raises UsageError, which calls the text `noun`, if the file is
    unreadable or not UTF-8."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the {noun} in {file} is not UTF-8: save it as UTF-8") from error


file_path = click.Path(path_type=Path, dir_okay=False, allow_dash=True)

model_option = click.option(
    "--model", metavar="SPEC", help="The model: PROVIDER/NAME, command:CMD, manual or replay:FILE."
)
effort_option = click.option(
    "--effort",
    type=click.Choice(["low", "medium", "high", "xhigh", "max"]),
    metavar="LEVEL",
    help="Reasoning effort: low, medium, high, xhigh or max.",
)
max_tokens_option = number_option(
    "--max-tokens", type=click.IntRange(1), metavar="N", help="Use at most N tokens, input plus output."
)
max_cost_option = number_option(
    "--max-cost", type=click.FloatRange(min=0), metavar="USD", help="Spend at most this many dollars."
)


def rows_option(noun: str = "rows", default: int = 20) -> Callable[[Any], Any]:
    """The -n/--limit option: how many of `noun` to show."""
    return number_option(
        "-n",
        "--limit",
        type=click.IntRange(1),
        metavar="N",
        default=default,
        show_default=True,
        help=f"Show at most N {noun}.",
    )


record_option = click.option(
    "--record", type=file_path, metavar="FILE", help="Record the replies, for --model replay:FILE."
)
reply_option = click.option(
    "--reply",
    type=file_path,
    metavar="FILE",
    help="Read the reply for --model manual from FILE; - is standard input.",
)
show_prompt_option = click.option(
    "--show-prompt", is_flag=True, help="Print the prompt and its tokens; send nothing."
)

F = TypeVar("F", bound=Callable[..., Any])


def combine_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; the help lists them in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


# options that exclude each other, by parameter
COMMIT_CONFLICTS: Mapping[str, Sequence[str]] = {
    "dry_run": ("no_commit", "by_hunk", "again", "branch", "fixup", "edit_message"),
    "no_commit": ("branch", "fixup", "edit_message", "signoff", "sign"),
    "by_hunk": ("yes",),
}
_COMMIT = (
    "no_commit", "no_verify", "include_dirty", "branch", "signoff", "fixup", "edit_message", "sign"
)  # fmt: skip
_REQUEST = ("strict", "dry_run", "allow_sensitive")
FLAGS = {"by_hunk": "patch", "sign": "gpg-sign", "sources": "source", "words": "message"}
_SIGNS = re.compile(r"-[ypnesv]*S|--gpg-sign")  # alone, or after other flags

no_parse_check = click.option(
    "--no-parse-check", is_flag=True, help="Accept a change that leaves a file unparsable."
)
no_commit_option = click.option("--no-commit", is_flag=True, help="Write the files without committing them.")
allow_sensitive_option = click.option(
    "--allow-sensitive",
    is_flag=True,
    help="Also allow large deletions, and changes to hooks, CI and other files that get executed.",
)
no_verify_option = click.option("--no-verify", is_flag=True, help="Skip the pre-commit and commit-msg hooks.")
include_dirty_option = click.option(
    "--include-dirty", is_flag=True, help="Also commit your other changes to these files."
)
asking = combine_options(  # for confirmation and writing
    click.option("-y", "--yes", is_flag=True, help="Apply and commit without asking."),
    click.option("-p", "--patch", "by_hunk", is_flag=True, help="Choose hunk by hunk, as `git add -p` does."),
    click.option("-n", "--dry-run", is_flag=True, help="Show the diff; write nothing."),
    no_commit_option,
    allow_sensitive_option,
    no_parse_check,
)
check_unconfined_option = click.option(
    "--check-unconfined", is_flag=True, default=None,
    help="Run the check outside the sandbox, even before you have seen the change.",
)  # fmt: skip
committing = combine_options(  # the options of git commit
    click.option("--branch", metavar="NAME", help="Create branch NAME at HEAD and commit there."),
    click.option("-e", "--edit-message", is_flag=True, help="Open the commit message in the editor."),
    click.option("-s", "--signoff", is_flag=True, help="Add a Signed-off-by trailer."),
    click.option(
        "-S", "--gpg-sign", "sign", is_flag=False, flag_value="", metavar="[KEY]", help="Sign the commit."
    ),
    click.option("--fixup", metavar="REV", help="Make a fixup! commit for REV."),
    no_verify_option,
    include_dirty_option,
)


class Committing(GroupedCommand):
    """A command with the options of `committing`. As in git, the key for `-S` must be attached to it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        words: list[str] = []
        for word in args[:end]:
            if _SIGNS.fullmatch(word):
                words += ([word.removesuffix("S")] if word[1:2] not in {"S", "-"} else []) + ["--gpg-sign="]
            else:
                words.append(word)
        return super().parse_args(ctx, words + args[end:])


def commit_options(options: SimpleNamespace) -> Options:
    """How to commit, from the `git commit` options that the command has."""
    from repoagent.git.transaction.results import Options

    return Options(**{name: getattr(options, name) for name in _COMMIT if hasattr(options, name)})


def edit_request(options: SimpleNamespace, settings: Settings, instruction: str, **more: Any) -> EditRequest:
    """The request for an edit, from the command's options and the settings; `more` has further fields."""
    from repoagent.edit.request import EditRequest
    from repoagent.tasks.check import check_of

    named = {name: getattr(options, name) for name in _REQUEST if hasattr(options, name)}
    return EditRequest(
        **{
            "instruction": instruction,
            "targets": (),
            "check": check_of(settings),
            "parse_check": settings.switch("edit.parse_check"),
            "sensitive": settings.texts("edit.sensitive"),
            "commit": commit_options(options),
            **named,
            **more,
        }
    )


def require_answers(terminal: Terminal, options: SimpleNamespace, to: str = "apply") -> None:
    """Raise UsageError if the user has to confirm and there is no terminal to ask on."""
    if not (options.yes or options.dry_run or terminal.can_ask):
        raise UsageError(
            f"cannot ask for confirmation without a terminal; use --yes to {to}, or --dry-run to preview"
        )


def parse_check(options: SimpleNamespace) -> dict[str, object]:
    """The setting that `--no-parse-check` changes, by its key; empty without that option."""
    return {"edit.parse_check": False} if options.no_parse_check else {}


def refuse_conflicts(options: SimpleNamespace, *tables: Mapping[str, Sequence[str]]) -> None:
    """Raise UsageError for options that cannot be combined according to `tables`."""
    for conflicts in tables:
        for option, others in conflicts.items():
            for other in others:
                if is_given(options, option) and is_given(options, other):
                    raise UsageError(f"{option_flag(option)} and {option_flag(other)} cannot be combined")


def is_given(options: SimpleNamespace, option: str) -> bool:
    """Whether the command has this option and the user set it."""
    return getattr(options, option, None) not in (None, False, ())


def option_flag(option: str) -> str:
    """The option for a parameter, as spelled on the command line."""
    return "--" + FLAGS.get(option, option).replace("_", "-")
