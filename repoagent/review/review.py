"""Review a change: run the checks, ask the model if there is one, and separate the dismissed findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from repoagent.review.finding import RULES, Finding, Report, ReviewOutcome, level_of

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.review.change import Change
    from repoagent.storage.layout import Layout

_NOTHING = {
    "staged": "nothing is staged; use `git add`, or --worktree to review the work tree",
    "worktree": "no tracked file has changed",
}


class ReviewSession(NamedTuple):  # a dataclass would take 1 ms more of each commit
    """The work tree, settings and callbacks of a review, and the options for asking a model."""

    worktree: WorkTree
    layout: Layout
    settings: Settings  # from `settings_before`
    warn: Callable[[str], None] = lambda sentence: None
    progress: Callable[[str], None] = lambda step: None
    ready: ModelSetup | None = None  # None: that of the settings
    record: Path | None = None  # the cassette to write
    reply: Path | None = None  # for the model `manual`
    afresh: bool = False  # ignore cached answers


def review(
    change: Change, session: ReviewSession, unseen: Sequence[str] = (), *,
    ask: bool = False, strict: bool = False, narrowed: bool = False,
) -> Report:  # fmt: skip
    """Review `change`, which may be `narrowed` to named files. `unseen` names the parts that could not be read. With
    `ask`, a model reviews it too; with `strict`, an error in the model's part is raised."""
    from repoagent.review import untrusted_change
    from repoagent.review.checks.missing_partner import find_missing_partners
    from repoagent.review.checks.run import static_findings

    worktree, layout, settings = session.worktree, session.layout, session.settings
    static = static_findings(change, worktree, settings)
    history = find_missing_partners(change, worktree, settings)
    answer = ReviewOutcome(cost=None)
    if ask and change.files:
        from repoagent.review.llm.review import model_findings

        answer = model_findings(change, session)
        if strict and answer.error is not None:
            raise answer.error
    relaxations = untrusted_change.find_relaxations(change, worktree, layout, settings)
    findings = [*static.findings, *history.findings, *answer.findings, *relaxations]
    notes = [*history.notes, *answer.notes]
    if not change.files and not unseen:
        nothing = _NOTHING.get(change.kind, "there is no change to review")
        notes.append("none of the named files has changed" if narrowed else nothing)
    dismissed: list[Finding] = []
    if findings:
        from repoagent.errors import Refused
        from repoagent.review.dismissals import split_dismissed, verdicts_on

        try:
            findings, dismissed = split_dismissed(change, findings, verdicts_on(change, worktree, layout))
        except Refused as error:
            notes.append(f"could not read the dismissals, so all findings are shown: {error}")
    findings.sort(key=lambda f: (-f.level, f.location.path, f.location.start, f.rule, f.key))
    rules = [rule.id for rule in RULES.values() if rule.source != "model" and level_of(rule.id, settings)]
    if not untrusted_change.is_foreign(change):
        rules = [rule for rule in rules if rule != untrusted_change.RULE]
    # the new texts of the files with findings, for code frames, with the secrets masked
    located = {each.location.path for each in findings if each.location.start and not each.location.old}
    texts: dict[str, bytes] = {}
    for file in change.files:
        if file.path in located and (text := change.texts.new(file)) is not None:
            for secret in static.secrets:
                from repoagent.storage.secrets import MASK

                text = text.replace(secret.encode("utf-8", "surrogateescape"), MASK.encode())
            texts[file.path] = text
    return Report(
        title=change.title, files=len(change.files), findings=tuple(findings), dismissed=tuple(dismissed),
        dropped=len(answer.dropped), unseen=(*unseen, *static.unseen, *answer.unseen),
        notes=tuple(dict.fromkeys(notes)), model=answer.model, tokens=answer.tokens, cost=answer.cost,
        base=change.base, head=change.head, by_file=texts, rules=tuple(rules),
    )  # fmt: skip
