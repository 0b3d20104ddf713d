"""`repoagent hook`: review each commit or push in git's hooks, which call `hook run`.

A hook stops git because of its findings, and with --strict also if the review itself fails.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.options import combine_options
from repoagent.cli.session import Session, emit, json_option, pass_session, select_fields, write_json
from repoagent.errors import Exit, RepoagentError

if TYPE_CHECKING:
    from repoagent.review.hooks import Hooks

NAMES = {
    "pre-commit": "review staged changes",
    "commit-msg": "review staged changes and the commit message",
    "pre-push": "review pushed commits",
}
COMMANDS = {
    "install": ("hook:install", "Install hooks."),
    "uninstall": ("hook:uninstall", "Remove the hooks."),
    "status": ("hook:status", "Show which hooks are installed."),
    "run": ("hook:run_command", "Run a hook (called by git or a hook manager)."),
}
EXAMPLES = """\b
Examples:
  repoagent hook install                      review each commit
  repoagent hook install --commit-msg         also read Review-Ignore trailers
  repoagent hook install --pre-push
  repoagent hook status
  repoagent hook uninstall

A hook stops git only for findings at the review.fail_on level or above; bypass
it with git commit --no-verify. If the review itself fails, git continues,
unless you use --strict. The commit-msg hook, installed instead of pre-commit,
also reads trailers such as `Review-Ignore: partner-missing docs/api.md`.

install never changes an existing hook, whether it is yours, a hook manager's
(pre-commit, husky, lefthook) or the repository's; it prints the line to add."""


@click.group(cls=LazyGroup, table=COMMANDS, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Install and run git hooks that review each commit or push."""


_names = combine_options(
    *(
        click.option(f"--{name}", is_flag=True, help=f"The {name} hook: {action}.")
        for name, action in NAMES.items()
    )
)


@click.command(short_help="Install hooks.")
@_names
@click.option("--strict", is_flag=True, help="Also stop git if the review itself fails.")
@click.option(
    "--everywhere", is_flag=True, help="Install even if core.hooksPath is shared with other repositories."
)
@json_option
@pass_session
def install(session: Session, /, *, strict: bool, everywhere: bool, as_json: bool, **flags: bool) -> None:
    """Install the named hooks, by default pre-commit.

    All work trees of a repository share its hooks.
    """
    from repoagent.history.index.index import ITSELF
    from repoagent.review import hooks as install

    script = Path(sys.executable).with_name("repoagent")  # next to this Python, otherwise this Python
    program = (str(script),) if os.access(script, os.X_OK) else (sys.executable, *ITSELF)
    names = _named(flags) or ("pre-commit",)
    changes = install.install(_inspect(), names, program, strict=strict, everywhere=everywhere)
    emit(session.terminal(), {"done": changes}, as_json=as_json, notes=changes)


@click.command(short_help="Remove the hooks.")
@_names
@json_option
@pass_session
def uninstall(session: Session, /, *, as_json: bool, **flags: bool) -> None:
    """Remove the named repoagent hooks (all by default) and restore the hooks they replaced."""
    from repoagent.review import hooks as install

    changes = install.uninstall(_inspect(), _named(flags) or tuple(NAMES)) or ["no repoagent hooks here"]
    emit(session.terminal(), {"done": changes}, as_json=as_json, notes=changes)


@click.command(short_help="Show which hooks are installed.")
@json_option
@pass_session
def status(session: Session, /, *, as_json: bool) -> None:
    """Show git's hooks folder, and for each hook whether repoagent installed it."""
    hooks = _inspect()
    rows = [select_fields(hook, "name", "path", "state", "before", executable="runs") for hook in hooks.files]
    lines = [f"hooks are in {hooks.folder}{_WHOSE[hooks.whose]}"]
    for hook in hooks.files:
        state = (
            "a folder"
            if hook.path.is_dir()
            else _STATES[hook.state] + (", after an existing hook" if hook.before else "")
        )
        if not hook.runs and hook.state != "none":
            state += ", not executable, so git does not run it"
        lines.append(f"{hook.name:<10}  {state}")
    if hooks.off:
        lines = [f"git runs no hooks here: {hooks.off}"]
    content = {**select_fields(hooks, "folder", "off", owner="whose"), "hooks": rows}
    emit(session.terminal(), content, lines, as_json=as_json)


_WHOSE = {
    "repository": "",
    "team": ", which is part of the repository",
    "everywhere": ", which other repositories use too",
}
_STATES = {
    "none": "none",
    "ours": "installed by repoagent",
    "changed": "installed by repoagent, edited by hand",
    "foreign": "another hook",
}


def _named(flags: dict[str, bool]) -> tuple[str, ...]:
    return tuple(name for name in NAMES if flags[name.replace("-", "_")])


def _inspect() -> Hooks:
    from repoagent.git.worktree import open_worktree
    from repoagent.review.hooks import inspect_hooks

    return inspect_hooks(open_worktree(Path.cwd()))


EPILOG = """\b
Examples:
  repoagent hook run pre-commit               staged changes
  repoagent hook run commit-msg "$1"          staged changes and the message
  repoagent hook run pre-push "$@"            commits listed on standard input

The exit code is 6 if a finding reaches the --fail-on level (by default
review.fail_on, which is error unless you set it), otherwise 0. Without
findings, only notes are printed."""


@click.command(epilog=EPILOG, short_help="Run a hook (called by git or a hook manager).")
@click.argument("name", metavar="HOOK")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1)
@click.option("--strict", is_flag=True, help="Also fail if the review itself fails.")
@click.option(
    "--fail-on", type=click.Choice(["note", "warning", "error", "never"]), metavar="LEVEL",
    help="Make git stop if there are findings at this level or above: note, warning, error or never.",
)  # fmt: skip
@click.option("--only", metavar="RULE", multiple=True, help="Check only RULE, without a model. Repeatable.")
@json_option
@pass_session
def run_command(session: Session, /, **values: Any) -> int:
    """Review what git is about to commit or push. HOOK is the hook's name, ARGS are the arguments that git passes."""
    options = SimpleNamespace(**values)
    try:
        return _run(session, options)
    except RepoagentError as error:
        if options.strict:
            raise
        session.terminal().warn(f"not reviewed: {error}")
        if options.as_json:
            write_json(session.terminal(), {"hook": options.name, "error": str(error), "reports": []})
        return Exit.DONE


def _run(session: Session, options: SimpleNamespace) -> int:
    from repoagent.cli.commands.review_report import reaches_level, save_for_dismissal, show_report
    from repoagent.git.worktree import layout_of, open_at_head
    from repoagent.review.finding import RULES, Level, parse_levels
    from repoagent.review.hooks import SECONDS, changes_of
    from repoagent.review.report_formats import report_data
    from repoagent.review.review import ReviewSession, review
    from repoagent.review.untrusted_change import settings_before

    only, cwd = options.only, Path.cwd()
    off = parse_levels(tuple(f"{rule}=off" for rule in RULES if rule not in only) if only else ())
    parse_levels(tuple(f"{rule}=note" for rule in only))  # raises an error for an unknown rule
    worktree, head = open_at_head(cwd)
    dirs = layout_of(worktree)
    settings, terminal = session.open(dirs, {**off, "review.fail_on": options.fail_on})
    lines = sys.stdin.buffer.read() if options.name == "pre-push" else b""
    changes, notes = changes_of(options.name, options.arguments, worktree, head, lines)
    for sentence in notes:
        terminal.warn(sentence)
    if changes:  # the settings of the base: the change must not weaken its own review
        settings = settings_before(changes[0][0], worktree, dirs, settings)
    asks = not only and settings.text_or_none("review.model") is not None
    seconds = settings.setting("review.max_seconds")
    if asks and seconds.origin == "default":  # a commit waits for it
        limit = {seconds.key: seconds._replace(value=SECONDS)}
        settings = replace(settings, entries={**settings.entries, **limit})
    reports = []
    with terminal.working("reviewing") if asks else nullcontext() as working:
        context = ReviewSession(worktree, dirs, settings, terminal.warn)
        if working is not None:
            context = context._replace(progress=working.label)
        for change, unseen in changes:
            if change.files:
                reports.append(review(change, context, unseen, ask=asks, strict=options.strict))
    if with_findings := [report for report in reports if report.findings]:
        findings = [finding for report in with_findings for finding in report.findings]
        save_for_dismissal(dirs, replace(with_findings[-1], findings=findings))
    level = settings.text("review.fail_on")
    stops = reaches_level(reports, level)
    if options.as_json:
        data = [*map(report_data, reports)]
        write_json(terminal, {"hook": options.name, "error": None, "reports": data})
    else:
        for report in reports:  # findings that stop git in full, the headings of the others
            if report.findings:
                again = "" if stops else " --commit HEAD"
                if report.head and report.base:
                    again = f" {report.base[:12]}..{report.head[:12]}"
                full = Level.ERROR + 1 if level == "never" else Level[level.upper()]
                is_short = any(finding.level < full for finding in report.findings)
                hint = f"see the details with: repoagent review{again}" if is_short else ""
                show_report(report, terminal, top=worktree.top, level=full, hint=hint)
            else:
                for sentence in report.notes:
                    terminal.note(sentence, "dim")
    if not stops:
        return Exit.DONE
    verb = "push" if options.name == "pre-push" or "PRE_COMMIT_REMOTE_NAME" in os.environ else "commit"
    terminal.note(f"stopped the {verb}; bypass this with: git {verb} --no-verify", "bold")
    return Exit.CHECK_FAILED
