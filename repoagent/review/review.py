"""Review a change: run the checks, ask the model if there is one, and separate the dismissed findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from repoagent.review.finding import Finding, Report

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.review.change import Change
    from repoagent.review.llm.review import ReviewSession
    from repoagent.storage.layout import Layout

_NOTHING = {
    "staged": "nothing is staged; use `git add`, or --worktree to review the work tree",
    "worktree": "no tracked file has changed",
}


class ReviewRequest(NamedTuple):
    """How to review a change. `settings` are those of `settings_before`; `session` is None to ask no model;
    `unseen` and `notes` are those from reading the change."""

    worktree: WorkTree
    layout: Layout
    settings: Settings
    session: ReviewSession | None = None
    unseen: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    strict: bool = False  # fail if the model cannot be asked
    narrowed: bool = False  # to named files


def review(change: Change, request: ReviewRequest) -> Report:
    """Review `change`. With `strict`, raises the error of the model's part."""
    from repoagent.review import untrusted_change
    from repoagent.review.checks.missing_partner import find_missing_partners
    from repoagent.review.checks.run import static_findings
    from repoagent.review.finding import RULES, level_of

    worktree, layout, settings = request.worktree, request.layout, request.settings
    static = static_findings(change, worktree, settings)
    history = find_missing_partners(change, worktree, settings)
    findings: list[Finding] = [*static.findings, *history.findings]
    unseen, notes = [*request.unseen, *static.unseen], [*request.notes, *history.notes]
    dropped, model, tokens, cost = 0, "", 0, None
    if not change.files and not request.unseen:
        nothing = _NOTHING.get(change.kind, "there is no change to review")
        notes.append("none of the named files has changed" if request.narrowed else nothing)
    if request.session is not None and change.files:
        from repoagent.review.llm.review import model_findings

        answer = model_findings(change, request.session)
        if request.strict and answer.error is not None:
            raise answer.error
        findings += answer.findings
        unseen += answer.unseen
        notes += answer.notes
        dropped, model, tokens, cost = len(answer.dropped), answer.model, answer.tokens, answer.cost
    findings += untrusted_change.find_relaxations(change, worktree, layout, settings)
    dismissed: list[Finding] = []
    if findings:
        from repoagent.errors import Refused
        from repoagent.review.dismissals import split_dismissed, verdicts_on

        try:
            findings, dismissed = split_dismissed(change, findings, verdicts_on(change, worktree, layout))
        except Refused as error:
            notes.append(f"could not read the dismissals, so all findings are shown: {error}")
    findings.sort(key=lambda f: (-f.level, f.location.path, f.location.start, f.rule, f.key))
    applied = [rule.id for rule in RULES.values() if rule.source != "model" and level_of(rule.id, settings)]
    rules = tuple(
        rule for rule in applied if rule != untrusted_change.RULE or untrusted_change.is_foreign(change)
    )
    return Report(
        title=change.title, files=len(change.files), findings=tuple(findings), dismissed=tuple(dismissed),
        dropped=dropped, unseen=tuple(unseen), notes=tuple(dict.fromkeys(notes)), model=model, tokens=tokens,
        cost=cost, base=change.base, head=change.head, by_file=_texts(change, findings, static.secrets), rules=rules,
    )  # fmt: skip


def _texts(change: Change, findings: list[Finding], secrets: tuple[str, ...]) -> dict[str, bytes]:
    """The new texts of the files with findings, for code frames, with the secrets masked."""
    locations = [finding.location for finding in findings]
    paths = {location.path for location in locations if location.start and not location.old}
    texts: dict[str, bytes] = {}
    for file in change.files:
        if file.path in paths and (text := change.read_new(file)) is not None:
            for secret in secrets:
                from repoagent.storage.secrets import MASK

                text = text.replace(secret.encode("utf-8", "surrogateescape"), MASK.encode())
            texts[file.path] = text
    return texts
