"""`strict`: whatever needed a tolerance in reading is refused by its name."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.patch.hunk import FilePatch
from repoagent.patch.problems import Misfit, Misfits
from repoagent.patch.tolerances import READING


def check_strict(patches: Sequence[FilePatch]) -> None:
    """Raises Misfits ("strict") that name each hunk and each tolerance, if reading any of `patches` needed one."""
    misfits: list[Misfit] = []
    for patch in patches:
        whole = sorted(patch.tolerances)
        if whole:
            misfits.append(_needs(whole, 0))
        for hunk in patch.hunks:
            own = sorted(hunk.tolerances - patch.tolerances)
            if own:
                misfits.append(_needs(own, hunk.number))
    if misfits:
        raise Misfits(misfits)


def _needs(names: Sequence[str], hunk: int) -> Misfit:
    told = " ".join(f"{name}: {READING[name]}" if name in READING else name for name in names)
    return Misfit(
        "strict", f"a strict reading does not forgive this. {told} Send it as `git diff` writes it.", hunk
    )
