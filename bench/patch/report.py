"""Make the cases, measure them in parallel, and format the results."""

from __future__ import annotations

import difflib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.origins import Origin
from bench.patch.appliers import (
    APPLIED,
    BASELINES,
    ERROR,
    OURS,
    REFUSED,
    RIGHT,
    WRONG,
    Result,
    available,
    baseline,
    expected_files,
    ours,
    verdict,
    wrong_with,
)
from bench.patch.corpus import COMBINATIONS, make
from bench.patch.history import Repository
from bench.patch.model import Case

SAMPLED = 10  # one case in this many is also checked with `git apply --check`
CHUNK = 25


@dataclass(frozen=True)
class Settings:
    origins: tuple[tuple[Origin, Path], ...]
    seed: int
    baselines: bool


@dataclass(frozen=True)
class Measured:
    """A case, repoagent's result, and the verdict on and the time of each applier."""

    case: Case
    ours: Result
    verdicts: dict[str, str] = field(default_factory=dict)
    ms: dict[str, float] = field(default_factory=dict)
    canonical: str = ""


def measure(case: Case, *, baselines: bool) -> Measured:
    result = ours(case)
    verdicts, ms = {OURS: verdict(case, result)}, {OURS: result.ms}
    for name, command in available().items() if baselines else ():
        other = baseline(case, command)
        verdicts[name], ms[name] = verdict(case, other), other.ms
    sampled = zlib.crc32(case.name.encode()) % SAMPLED == 0
    wrong = wrong_with(case, result.diff, git=sampled) if result.diff else ""
    return Measured(case, result, verdicts, ms, wrong)


def measured(settings: Settings, cases: Sequence[tuple[str, int]], jobs: int) -> Iterator[Measured | str]:
    """Yield each case in order, or only its kind if it could not be made."""
    chunks = [cases[start : start + CHUNK] for start in range(0, len(cases), CHUNK)]
    if jobs == 1:
        for chunk in chunks:
            yield from _chunk(settings, chunk)
        for repository in _open.pop(settings, []):
            repository.close()
        return
    with ProcessPoolExecutor(jobs) as pool:
        for results in pool.map(_chunk, [settings] * len(chunks), chunks):
            yield from results


_open: dict[Settings, list[Repository]] = {}


def _chunk(settings: Settings, cases: Sequence[tuple[str, int]]) -> list[Measured | str]:
    if settings not in _open:
        _open[settings] = [Repository(origin, path) for origin, path in settings.origins]
    repositories = _open[settings]
    made = ((kind, make(kind, number, settings.seed, repositories)) for kind, number in cases)
    return [kind if case is None else measure(case, baselines=settings.baselines) for kind, case in made]


LARGE = 5_000  # lines


def failed(one: Measured) -> bool:
    outcome = one.verdicts[OURS]
    return bool(one.canonical) or (outcome != RIGHT and not (one.case.may_refuse and outcome == REFUSED))


def bad(one: Measured) -> bool:
    """Whether repoagent did what must never happen: apply anything wrong, crash or show a bad diff."""
    return bool(one.canonical) or one.verdicts[OURS] in (WRONG, APPLIED, ERROR)


def table(results: Sequence[Measured]) -> str:
    repositories, languages = (
        {getattr(one.case, name) for one in results} for name in ("repository", "language")
    )
    head = f"{len(results):,} cases of {len(repositories)} repositories, {len(languages)} languages"
    parts = [f"{head}, {len({one.case.kind for one in results})} kinds\n{_appliers(results)}"]
    return "\n\n".join([*parts, _kinds(results), *_combined(results), _times(results)])


def _line(label: str, cells: Iterable[str]) -> str:
    return f"  {label:34}" + "".join(f"{cell:>12}" for cell in cells)


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.2f} %" if total else "-"


def _appliers(results: Sequence[Measured]) -> str:
    """One row for each applier. Cases that may be refused count only for "wrong"."""
    lines = [_line("", ("right", "wrong", "refused", "applied *", "x ours"))]
    rights: dict[str, float] = {}
    for name in (OURS, *BASELINES):
        tried = [one for one in results if name in one.verdicts]
        if not tried:
            continue
        valid = [one for one in tried if one.case.expected is not None]
        clear = [one for one in valid if not one.case.may_refuse]
        forbidden = [one for one in tried if one.case.expected is None]
        right = sum(one.verdicts[name] == RIGHT for one in clear)
        wrong = sum(one.verdicts[name] in (WRONG, ERROR) for one in valid)
        refused = sum(one.verdicts[name] == REFUSED for one in clear)
        applied = sum(one.verdicts[name] in (APPLIED, ERROR) for one in forbidden)
        rights[name] = right / len(clear) if clear else 0.0
        ratio = f"{rights[name] / rights[OURS]:.2f}" if rights.get(OURS) else "-"
        cells = (_percent(right, len(clear)), _percent(wrong, len(valid)), _percent(refused, len(clear)))
        lines.append(_line(name, (*cells, f"{applied}/{len(forbidden)}", ratio)))
    others = [share for name, share in rights.items() if name != OURS]
    if others and rights.get(OURS):
        best = rights[OURS] / max([*others, 1e-9])
        lines.append(f"  right answers: {best:.2f} times those of the best baseline")
    return "\n".join(lines) + "\n  * of the cases that must be refused"


def _kinds(results: Sequence[Measured]) -> str:
    """One row for each kind with failures, and the number of the others."""
    lines = [_line("kinds with failures", ("cases", "right", "wrong", "refused", "applied"))]
    clean = 0
    for kind in sorted({one.case.kind for one in results}):
        some = [one for one in results if one.case.kind == kind]
        if not any(failed(one) for one in some):
            clean += 1
            continue
        count = Counter(one.verdicts[OURS] for one in some)
        cells = (len(some), count[RIGHT], count[WRONG] + count[ERROR], count[REFUSED], count[APPLIED])
        lines.append(_line(kind, map(str, cells)) + "  " + " ".join(_examples(some)))
    return "\n".join(lines) + f"\n  no failure in {clean} other kinds"


def _examples(some: Sequence[Measured]) -> list[str]:
    failures = sorted((one for one in some if failed(one)), key=lambda one: not bad(one))
    return [f"{one.case.name}{'!' if bad(one) else ''}" for one in failures[:3]]


def _combined(results: Sequence[Measured]) -> Iterator[str]:
    """The result for 3 to 5 combined slips, and the slips that fail most often in them."""
    some = [one for one in results if COMBINATIONS.get(one.case.kind, 0) >= 3]
    if not some:
        return
    sure = [one for one in some if not one.case.may_refuse]
    right = sum(one.verdicts[OURS] == RIGHT for one in sure)
    wrong = sum(bad(one) for one in some)
    text = f"combinations of 3 to 5: {_percent(right, len(sure))} right of {len(sure)}, {wrong} wrong"
    among = Counter(slip for one in some if failed(one) for slip in one.case.slips)
    total = Counter(slip for one in some for slip in one.case.slips)
    worst = sorted(among, key=lambda slip: (-among[slip] / total[slip], slip))[:12]
    yield text + "".join(f"\n  {slip:34}{among[slip]:>4} of {total[slip]} failed" for slip in worst)


def _times(results: Sequence[Measured]) -> str:
    lines = [_line("time of ours", ("cases", "p50", "p95", "max"))]
    for large, label in ((False, f"under {LARGE:,} lines"), (True, f"{LARGE:,} lines and more")):
        times = sorted((one.ours.ms, one.case.name) for one in results if (one.case.lines >= LARGE) == large)
        if times:
            quantiles = [times[int(len(times) * share)][0] for share in (0.5, 0.95)] + [times[-1][0]]
            cells = (f"{len(times)}", *(f"{ms:.1f} ms" for ms in quantiles))
            lines.append(f"{_line(label, cells)}  slowest {times[-1][1]}")
    return "\n".join(lines)


def difference(one: Measured) -> str:
    case = one.case
    if case.expected is None or one.ours.files is None:
        return one.ours.text
    lines: list[str] = []
    right = expected_files(case)
    for path in sorted({*right, *one.ours.files}):
        expected, actual = right.get(path), one.ours.files.get(path)
        if expected != actual:
            (old, before), (new, after) = (side or (b"", "-") for side in (expected, actual))
            texts = [text.decode(errors="backslashreplace").splitlines() for text in (old, new)]
            lines += [f"{path}: modes {before}, {after}"]
            lines += difflib.unified_diff(*texts, "expected", "got", n=2, lineterm="")
    return "\n".join(lines[:80])
