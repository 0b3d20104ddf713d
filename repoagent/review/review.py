"""The whole review: what history says of a change, what a model shows on its lines, less what was dismissed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from repoagent.review.finding import Finding, Report
from repoagent.storage.secrets import MASK

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.review.change import Change
    from repoagent.review.llm.session import ReviewSession
    from repoagent.storage.layout import Layout

_NOTHING = {
    "staged": "nothing is staged: `git add` it, or review the work tree with --worktree",
    "worktree": "no tracked file has changed",
}


class ReviewRequest(NamedTuple):
    """How a change is reviewed. `settings` are those of `settings_before`; `desk` is there when a model is to be asked;
    `unseen` and `notes` are what reading the change had to say."""

    worktree: WorkTree
    layout: Layout
    settings: Settings
    session: ReviewSession | None = None
    unseen: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    strict: bool = False  # a model that can't be asked is an error
    narrowed: bool = False  # to the files that were named


def review(change: Change, asked: ReviewRequest) -> Report:
    """The findings on `change`, in the order in which they are shown. Raises what the model's part raises."""
    from repoagent.review.checks.run import history_findings
    from repoagent.review.checks.static import static_findings
    from repoagent.review.rules import RULES, level_of

    static = static_findings(change, asked.worktree, asked.settings)
    past = history_findings(change, asked.worktree, asked.layout, asked.settings)
    gone = {one.place.path for one in static.findings if one.rule == "removed-symbol"}
    findings: list[Finding] = list(static.findings)
    findings += [  # that a symbol is gone is said already, with all who use it
        one for one in past.findings
        if one.rule != "api-changed" or one.place.start or one.place.path not in gone
    ]  # fmt: skip
    unseen, notes = [*asked.unseen, *static.unseen, *past.unseen], [*asked.notes, *past.notes]
    dropped, model, tokens, cost = 0, "", 0, None
    if not change.files and not asked.unseen:
        nothing = _NOTHING.get(change.kind, "there is no change to look at")
        notes.append("no changed file is among those that were named" if asked.narrowed else nothing)
    if asked.session is not None and change.files:
        from repoagent.review.llm.review import model_findings

        answer = model_findings(change, asked.session)
        if asked.strict and answer.error is not None:
            raise answer.error
        findings += answer.findings
        unseen += answer.unseen
        notes += answer.notes
        dropped, model, tokens, cost = answer.dropped, answer.model, answer.tokens, answer.cost
    from repoagent.review.untrusted import RULE, find_relaxations, is_foreign

    findings += find_relaxations(change, asked.worktree, asked.layout, asked.settings)
    kept, dismissed = _split(change, findings, asked, notes)
    ordered = sorted(kept, key=_order)
    return Report(
        title=change.title, files=len(change.files), findings=tuple(ordered), dismissed=tuple(dismissed),
        dropped=dropped, unseen=tuple(unseen), notes=tuple(dict.fromkeys(notes)), model=model, tokens=tokens,
        cost=cost, base=change.base, head=change.head, by_file=_texts(change, ordered, static.secrets),
        rules=tuple(
            rule.id for rule in RULES.values()
            if rule.source != "model" and level_of(rule.id, asked.settings) and (rule.id != RULE or is_foreign(change))
        ),
    )  # fmt: skip


def _split(
    change: Change, findings: list[Finding], asked: ReviewRequest, notes: list[str]
) -> tuple[list[Finding], list[Finding]]:
    """Those to tell and those that were dismissed. Where that can't be read, all are told, with a note."""
    if not findings:
        return [], []
    from repoagent.errors import Refused
    from repoagent.review.dismissals import split_dismissed, verdicts_on

    try:
        return split_dismissed(change, findings, verdicts_on(change, asked.worktree, asked.layout))
    except Refused as error:
        notes.append(f"what was dismissed is not known: {error}")
        return findings, []


def _order(finding: Finding) -> tuple[int, str, int, str, str]:
    return (-finding.level, finding.place.path, finding.place.start, finding.rule, finding.key)


def _texts(change: Change, findings: Sequence[Finding], secrets: Sequence[str]) -> dict[str, bytes]:
    """The new texts of the files whose lines a finding names, to be shown around it: without the secrets found."""
    wanted = {finding.place.path for finding in findings if finding.place.start and not finding.place.old}
    found: dict[str, bytes] = {}
    for file in change.files:
        if file.path in wanted and (text := change.read_new(file)) is not None:
            for secret in secrets:
                text = text.replace(secret.encode("utf-8", "surrogateescape"), MASK.encode())
            found[file.path] = text
    return found
