"""`repoagent review`: check a change with rules and optionally a model; --fix edits the files to fix each finding.

`review dismiss ID` and `review accept ID` hide findings; `review --show-prompt` prints the prompts for a model.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli import options as shared
from repoagent.cli.session import Repository, Session, emit, json_option, open_repository, pass_session
from repoagent.errors import Exit, NothingDone, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.review.change import Change
    from repoagent.review.dismissals import State
    from repoagent.review.finding import Finding
    from repoagent.review.fix import FixOutcome
    from repoagent.review.read_diff import ChangeSelector, How
    from repoagent.review.review import ReviewSession


PATHSPECS = f"{__name__}.pathspecs"  # the key of the arguments after `--` in ctx.meta


class Review(shared.GroupedCommand):
    """A command with pathspecs after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            separator = args.index("--")
            ctx.meta[PATHSPECS] = tuple(args[separator + 1 :])
            args = args[:separator]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- PATHSPEC...]"]


def _verb(name: str, state: State, line: str) -> click.Command:
    more = "ID names a finding of the last review; its first characters are enough."

    @click.command(name, short_help=line, help=f"{line}\n\n{more}")
    @click.argument("finding", metavar="ID")
    @click.option("--reason", default="", metavar="TEXT", help="Record why.")
    @json_option
    @pass_session
    def verb(session: Session, /, *, finding: str, reason: str, as_json: bool) -> None:
        from repoagent.git.worktree import layout_of, open_worktree
        from repoagent.review.dismissals import record_verdict

        match = record_verdict(layout_of(open_worktree(Path.cwd())), finding, state, reason=reason)
        content = {"id": match.id, "rule": match.rule, "state": state}
        emit(session.terminal(), content, as_json=as_json, notes=[f"{state}: {match.title}"])

    return verb


VERBS = {
    "dismiss": _verb("dismiss", "dismissed", "Hide a finding that is wrong or unimportant."),
    "accept": _verb("accept", "accepted", "Hide a finding that is right, but accepted."),
}
FORMS = ("text", "json", "sarif", "github", "gitlab", "markdown")
LEVELS = ("note", "warning", "error", "never")
_WAYS: tuple[How, ...] = ("staged", "worktree", "base", "commit")
_ID = re.compile(r"[0-9a-fA-F]{4,12}")  # a prefix of a finding's id
_RANGE = re.compile(r"(?!\.{0,2}/).*\.\.")  # A..B, but not a path

EXAMPLES = """\b
Examples:
  repoagent review                        staged changes
  repoagent review --base main            changes on this branch since main
  repoagent review v1.0..v1.1 -- src      a range, in one folder
  git diff HEAD~3 | repoagent review -    any diff
  repoagent review --rule secret=warning --fail-on warning
  repoagent review dismiss 4f1c2e         hide this finding from now on

Most rules need no model and no network: secrets, conflict markers, files that
no longer parse, removed names still in use, and files that usually change with
these but are missing. A model is asked only with --model or --ask, or if
review.model is set; its findings are reported only if the code they quote
exists.

The exit code is 1 if a finding reaches the --fail-on level (by default
review.fail_on, which is error unless you set it)."""
OPTION_GROUPS = {  # by their parameters
    "Options": (
        "staged", "worktree", "base", "commit", "model", "fix", "yes", "rules", "fail_on", "form", "output", "max_cost",
    ),
    "Report": ("also", "as_json"),
    "Model": ("ask", "no_model", "strict", "refresh", "show_prompt", "record", "reply"),
    "Other options": ("no_parse_check",),
}  # fmt: skip


@click.command(cls=Review, verbs=VERBS, epilog=EXAMPLES, option_groups=OPTION_GROUPS)
@click.argument("words", metavar="[RANGE]", nargs=-1)
@click.option("--staged", is_flag=True, help="Review staged changes (the default).")
@click.option("--worktree", is_flag=True, help="Review all changes to tracked files since HEAD.")
@click.option("--base", metavar="REF", help="Review the changes on HEAD since its merge base with REF.")
@click.option("--commit", metavar="REV", help="Review one commit.")
@click.option(
    "--format", "form", type=click.Choice(FORMS), default="text", metavar="FORM",
    help="Report as text, json, sarif, github, gitlab or markdown.",
)  # fmt: skip
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="With --format or --json: write to FILE instead of standard output.",
)
@click.option(
    "--also", metavar="FORM=FILE", multiple=True,
    help="Also write the report in another format to FILE. Repeatable.",
)  # fmt: skip
@click.option(
    "--fail-on", type=click.Choice(LEVELS), metavar="LEVEL",
    help="Exit with 1 for findings at this level or above: note, warning, error or never.",
)  # fmt: skip
@click.option(
    "--rule", "rules", metavar="ID=LEVEL", multiple=True,
    help="Set a rule to off, note, warning or error. Repeatable.",
)  # fmt: skip
@click.option("--model", metavar="SPEC", help="Also review with this model.")
@click.option(
    "--ask", is_flag=True, help="Also review with the model set as review.model, or else the one for edits."
)
@click.option("--no-model", is_flag=True, help="Use no model, even if review.model is set.")
@click.option("--strict", is_flag=True, help="Fail if the model cannot be reached, instead of warning.")
@click.option(
    "--fix", is_flag=True, help="Fix the findings; with IDs, fix those findings of the last review."
)
@click.option(
    "--no-parse-check", is_flag=True, help="With --fix: accept a change that leaves a file unparsable."
)
@click.option("-y", "--yes", is_flag=True, help="With --fix: apply and commit without asking.")
@shared.show_prompt_option
@shared.max_cost_option
@shared.record_option
@shared.reply_option
@click.option("--refresh", is_flag=True, help="Ask the model again instead of reusing its earlier answers.")
@json_option
@pass_session
@click.pass_context
def command(ctx: click.Context, session: Session, /, **values: Any) -> int:
    """Find what is wrong or missing in a change, before it is committed or merged.

    Reviews staged changes by default; RANGE (A..B) reviews what is in B but not in A; - reads a diff from standard
    input.
    """
    options = SimpleNamespace(**values)
    from repoagent.git.worktree import layout_of, open_at_head

    cwd = Path.cwd()
    if options.as_json and options.form != "text":
        raise UsageError(f"--json cannot be combined with --format {options.form}")
    form = "json" if options.as_json else options.form
    is_text = form == "text"
    if is_text and options.output not in (None, "-"):
        raise UsageError("-o needs a --format other than text; to save the text, redirect it with > FILE")
    outputs: list[tuple[str, str | None]] = [] if is_text else [(form, options.output)]
    for text in options.also:
        also, _, path = text.partition("=")
        if also not in FORMS[1:] or path in ("", "-"):
            forms = f"{', '.join(FORMS[1:-1])} or {FORMS[-1]}"
            raise UsageError(f"--also {text}: use FORM=FILE, where FORM is {forms}")
        outputs.append((also, path))
    flags = {"model": options.model, "max_cost": options.max_cost, **shared.parse_check(options)}
    if options.fix and options.words and all(map(_ID.fullmatch, options.words)):
        from repoagent.review.finding import find_in, read_last

        repo = open_repository(session, flags)
        last = read_last(repo.layout, warn=repo.terminal.warn)
        findings = list(dict.fromkeys(find_in(last, word) for word in options.words))
        return _fix(repo, options, findings, commits=last is not None and bool(last.head))
    from repoagent.cli.commands.review_report import reaches_level, save_for_dismissal, show_report
    from repoagent.cli.ui.terminal import deliver_document
    from repoagent.review.finding import parse_levels
    from repoagent.review.read_diff import read_change
    from repoagent.review.report_formats import render_report
    from repoagent.review.review import ReviewSession, review
    from repoagent.review.untrusted_change import settings_before

    selector = _selector(options, ctx.meta.get(PATHSPECS, ()), cwd)
    flags |= {**parse_levels(options.rules), "review.fail_on": options.fail_on}
    worktree, head = open_at_head(cwd)
    dirs = layout_of(worktree)
    repo = Repository(worktree, dirs, *session.open(dirs, flags), cwd)
    terminal = repo.terminal
    if options.fix:
        _require_answers(terminal, options)
    change, unseen = read_change(worktree, head, selector)
    repo = repo._replace(settings=settings_before(change, worktree, dirs, repo.settings))
    asked = options.model or options.ask or repo.settings.text_or_none("review.model")
    asks, narrowed = bool(asked and not options.no_model), bool(selector.pathspecs)
    context = ReviewSession(
        worktree, dirs, repo.settings, terminal.warn, record=options.record, reply=options.reply,
        afresh=options.refresh,
    )  # fmt: skip
    if options.show_prompt:
        return _show_prompt(change, context, terminal, as_json=options.as_json)
    with terminal.working("reading the change") if asks else nullcontext() as working:
        if working is not None:
            context = context._replace(progress=working.label)
        report = review(change, context, unseen, ask=asks, strict=options.strict, narrowed=narrowed)
    if report.findings or report.dismissed:
        save_for_dismissal(dirs, report)
    if is_text:
        show_report(report, terminal, top=worktree.top)
    for each, path in outputs:
        deliver_document(terminal, os.fsdecode(render_report(report, each)), path)
    if options.fix:
        return _fix(repo, options, report.findings, commits=bool(change.head))
    return Exit.NOTHING if reaches_level([report], repo.settings.text("review.fail_on")) else Exit.DONE


def _selector(options: SimpleNamespace, pathspecs: tuple[str, ...], cwd: Path) -> ChangeSelector:
    from repoagent.git.files import no_such_file
    from repoagent.review.read_diff import ChangeSelector

    words = list(options.words)
    ways: dict[How, str] = {way: f"--{way}" for way in _WAYS if getattr(options, way)}
    value = ""
    if words and words[0] == "-":
        ways["diff"] = words.pop(0)
    elif words and _RANGE.match(words[0]) and not os.path.lexists(cwd / words[0]):
        value = ways["range"] = words.pop(0)
    if len(ways) > 1:
        raise UsageError(f"{' and '.join(ways.values())} cannot be combined")
    for word in words:
        if not os.path.lexists(cwd / word):
            remedy = "use --commit or --base for a revision, -- before a pattern"
            raise no_such_file(word, cwd, reason="and it is not a range (A..B)", remedy=remedy)
    staged: How = "staged"
    how = next(iter(ways), staged)
    if how in ("base", "commit"):
        value = getattr(options, how)
    diff = sys.stdin.buffer.read() if how == "diff" else b""
    return ChangeSelector(how, value, (*words, *pathspecs), cwd, diff)


def _show_prompt(change: Change, session: ReviewSession, terminal: Terminal, *, as_json: bool) -> Exit:
    from repoagent.cli.commands.context import PromptBlock, ShownPrompt, blocks_from, show_texts
    from repoagent.llm.model import display_name
    from repoagent.review.llm.review import first_prompts, review_settings

    calls = first_prompts(change, session)
    if not calls:
        raise NothingDone(f"nothing in {change.title} to send to a model")
    blocks: list[PromptBlock] = []
    for prompt in calls:
        parts = ("system", prompt.system), ("user", prompt.opening)
        blocks += blocks_from((role, part) for role, several in parts for part in several)
    spec = display_name(review_settings(session.settings).text("model"))
    show_texts(ShownPrompt(spec, None, tuple(blocks)), terminal, as_json=as_json)
    return Exit.DONE


def _require_answers(terminal: Terminal, options: SimpleNamespace) -> None:
    if not (options.yes or terminal.can_ask):
        remedy = "use --yes to fix findings without asking"
        raise UsageError(f"cannot ask for confirmation without a terminal; {remedy}")


def _fix(repo: Repository, options: SimpleNamespace, findings: Sequence[Finding], *, commits: bool) -> Exit:
    """Fix each of `findings` with an edit, and commit it if the reviewed change is committed. Of several findings,
    those that cannot be fixed are reported and skipped."""
    from repoagent.review.fix import as_data, can_be_fixed

    terminal = repo.terminal
    options.ready = None  # the model for edits, opened once
    _require_answers(terminal, options)
    repo.settle()
    todo = [finding for finding in findings if can_be_fixed(finding)]
    if not todo:
        raise NothingDone("nothing to fix: none of the findings is on lines that can be edited")
    rows: list[dict[str, object]] = []
    done = 0
    failure: RepoagentError | None = None
    for finding in todo:
        terminal.note(f"{finding.id}  {finding.location.path}:{finding.location.start}  {finding.title}")
        try:
            fixed = _fix_one(repo, options, finding, commits=commits)
        except RepoagentError as error:
            if len(todo) == 1:
                raise
            failure = failure or error
            rows.append({"id": finding.id, "outcome": "failed", "reason": str(error)})
            terminal.warn(f"could not fix {finding.id}: {error}")
        else:
            rows.append(dict(as_data(fixed)))
            done += fixed.result is not None
    if options.as_json:
        terminal.done(json.dumps({"version": 1, "fixes": rows}, indent=2) + "\n")
    if done and not commits:
        terminal.note("the fixes are in the work tree; review them, then `git add` them")
    if failure is not None and not done:
        return failure.exit_code
    return Exit.DONE if done == len(todo) else Exit.NOTHING


def _fix_one(repo: Repository, options: SimpleNamespace, finding: Finding, *, commits: bool) -> FixOutcome:
    from dataclasses import replace

    from repoagent.cli.ui.outcome import show_commit
    from repoagent.cli.ui.terminal_interface import TerminalInterface
    from repoagent.edit.edit import edit
    from repoagent.edit.model_setup import model_setup
    from repoagent.review import fix

    worktree, _, settings, terminal, *_ = repo
    template = shared.edit_request(SimpleNamespace(no_commit=not commits), settings, "")
    change = fix.suggested_change(worktree, finding)
    with terminal.working("fixing") as working:
        ui = TerminalInterface(terminal, working, yes=options.yes, commits=commits, model=change is None)
        if change is not None:
            fixed = fix.commit_suggestion(worktree, finding, change, template, settings, ui=ui)
        else:
            request = fix.fix_request(worktree, finding, template)
            ready = options.ready or model_setup(settings, options.record, options.reply, terminal.warn)
            options.ready, meter = ready, ready.meter  # `max_turns` limits each fix
            meter.limits = replace(meter.limits, turns=meter.attempts + settings.whole("max_turns"))
            edited = edit(worktree, request, settings, ui, ready)
            fixed = fix.FixOutcome(finding, edited.edit_id, edited.result, edited.answer, edited.model)
    if not options.as_json:
        if fixed.result is not None:
            show_commit(fixed.result, terminal, fixed.model or "as suggested", ui.shown_remarks)
        elif not ui.answered:
            terminal.note(fixed.answer.strip())
    return fixed
