"""Which summaries there are already: by commit id, by patch, in the notes of the team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.history.steps import BULK, Step
from repoagent.history.summaries.notes import read_notes
from repoagent.history.summaries.patches import Patch, patch_ids, patches
from repoagent.history.summaries.store import (
    Summary,
    has_patches,
    read_by_patch,
    read_summary,
    write_summary,
)
from repoagent.repo.run import GitError
from repoagent.store import Layout, ensure
from repoagent.store.report import Warn, to_stderr


@dataclass(frozen=True)
class Known:
    """`summaries` by commit id, and of the others their patches and patch ids as far as they were looked at."""

    summaries: Mapping[str, Summary]
    patches: Mapping[str, Patch]
    ids: Mapping[str, str]


def find_known(
    top: Path,
    place: Layout,
    steps: Sequence[Step],
    *,
    share: bool = False,
    thorough: bool = False,
    warn: Warn = to_stderr,
) -> Known:
    """The summaries of `steps` that nobody has to pay for. With `share`, those in the notes too. What was found by
    its patch or in a note is kept under its commit id.

    Patches are computed only where they can help: where a summary is kept that has one, or, `thorough`, when a model
    is about to be asked. Raises Refused for a folder that is not a real one.
    """
    wanted = {step.commit.commit: step for step in steps}
    found: dict[str, Summary] = {}
    for commit in wanted:
        if (summary := read_summary(place.summaries, commit, warn)) is not None:
            found[commit] = summary
    missing = [commit for commit in wanted if commit not in found]
    noted = read_notes(top, missing) if share and missing else {}
    for commit, summary in noted.items():
        found[commit] = _kept(place, summary)
    missing = [commit for commit in missing if commit not in found and not _is_bulk(wanted[commit])]
    if not missing or not (thorough or has_patches(place.summaries)):
        return Known(found, {}, {})
    changes = patches(top, missing)
    try:
        ids = patch_ids(top, changes)
    except GitError as error:
        warn(f"the patches of these commits could not be compared: {error}")
        ids = {}
    for commit, patch in ids.items():
        if (summary := read_by_patch(place.summaries, patch, warn)) is not None:
            found[commit] = _kept(place, replace(summary, commit=commit))
    return Known(found, changes, ids)


def _kept(place: Layout, summary: Summary) -> Summary:
    ensure(place)
    write_summary(place.summaries, summary)
    return summary


def _is_bulk(step: Step) -> bool:
    return step.files is not None and step.files > BULK
