"""The figures as text, and single cases as files that can be read."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.patch.appliers import BASELINES, OURS
from bench.patch.corpus import COMBINATIONS
from bench.patch.judge import APPLIED, ERROR, REFUSED, RIGHT, WRONG, wanted
from bench.patch.run import Measured

LARGE = 5_000  # lines
TARGETS = {"right": 99.5, "combined": 97.0, "small": 50.0, "large": 300.0}


def failed(one: Measured) -> bool:
    found = one.verdicts[OURS]
    return bool(one.canonical) or (found != RIGHT and not (one.case.may_refuse and found == REFUSED))


def bad(one: Measured) -> bool:
    """Applied what was not meant: never."""
    return bool(one.canonical) or one.verdicts[OURS] in (WRONG, APPLIED, ERROR)


def table(found: Sequence[Measured]) -> str:
    parts = [_heads(found)]
    for split in ("dev", "test"):
        chosen = [one for one in found if one.split == split]
        if chosen:
            parts.append(
                f"{split} ({len({one.case.repository for one in chosen})} repositories)\n{_appliers(chosen)}"
            )
    parts += [_kinds(found), _combined(found), _times(found)]
    return "\n\n".join(part for part in parts if part)


def _heads(found: Sequence[Measured]) -> str:
    languages = {one.case.language for one in found}
    repositories = {one.case.repository for one in found}
    text = f"{len(found):,} cases of {len(repositories)} repositories, {len(languages)} languages"
    return f"{text}, {len({one.case.kind for one in found})} kinds\n{_appliers(found)}"


def _line(label: str, cells: Iterable[str]) -> str:
    return f"  {label:34}" + "".join(f"{cell:>12}" for cell in cells)


def _percent(count: int, of: int) -> str:
    return f"{100 * count / of:.2f} %" if of else "-"


def _appliers(found: Sequence[Measured]) -> str:
    """A line for each applier. Cases that may be refused count only for "wrong"."""
    lines = [_line("", ("right", "wrong", "refused", "must-refuse", "ratio"))]
    lines[0] = _line("", ("right", "wrong", "refused", "applied *", "x ours"))
    rights: dict[str, float] = {}
    for name in (OURS, *BASELINES):
        some = [one for one in found if name in one.verdicts]
        meant = [one for one in some if one.case.expected is not None]
        sure = [one for one in meant if not one.case.may_refuse]
        must = [one for one in some if one.case.expected is None]
        if not some:
            continue
        right = sum(one.verdicts[name] == RIGHT for one in sure)
        wrong = sum(one.verdicts[name] in (WRONG, ERROR) for one in meant)
        refused = sum(one.verdicts[name] == REFUSED for one in sure)
        applied = sum(one.verdicts[name] in (APPLIED, ERROR) for one in must)
        rights[name] = right / len(sure) if sure else 0.0
        ratio = f"{rights[name] / rights[OURS]:.2f}" if rights.get(OURS) else "-"
        cells = (_percent(right, len(sure)), _percent(wrong, len(meant)), _percent(refused, len(sure)))
        lines.append(_line(name, (*cells, f"{applied}/{len(must)}", ratio)))
    others = [share for name, share in rights.items() if name != OURS]
    if others and rights.get(OURS):
        lines.append(
            f"  right as often as the best of the others: {rights[OURS] / max([*others, 1e-9]):.2f} x"
        )
    return "\n".join(lines) + "\n  * of those that must be refused"


def _kinds(found: Sequence[Measured]) -> str:
    """Each kind that has failures; the others are counted."""
    lines = [_line("kinds with failures", ("cases", "right", "wrong", "refused", "applied"))]
    clean = 0
    for kind in sorted({one.case.kind for one in found}):
        some = [one for one in found if one.case.kind == kind]
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


def _combined(found: Sequence[Measured]) -> str:
    """Combinations of 3 to 5, and the slips that are in those that failed more often than in the rest."""
    some = [one for one in found if COMBINATIONS.get(one.case.kind, 0) >= 3]
    if not some:
        return ""
    sure = [one for one in some if not one.case.may_refuse]
    right = sum(one.verdicts[OURS] == RIGHT for one in sure)
    wrong = sum(bad(one) for one in some)
    text = f"combinations of 3 to 5: {_percent(right, len(sure))} right of {len(sure)}, {wrong} wrong"
    among = Counter(slip for one in some if failed(one) for slip in one.case.slips)
    total = Counter(slip for one in some for slip in one.case.slips)
    worst = sorted(among, key=lambda slip: (-among[slip] / total[slip], slip))[:12]
    return text + "".join(f"\n  {slip:34}{among[slip]:>4} of {total[slip]} failed" for slip in worst)


def _times(found: Sequence[Measured]) -> str:
    lines = [_line("time of ours", ("cases", "p50", "p95", "max"))]
    for label, chosen in (
        (f"under {LARGE:,} lines", [one for one in found if one.case.lines < LARGE]),
        (f"{LARGE:,} lines and more", [one for one in found if one.case.lines >= LARGE]),
    ):
        times = sorted((one.ours.ms, one.case.name) for one in chosen)
        if times:
            at = [times[int(len(times) * share)][0] for share in (0.5, 0.95)] + [times[-1][0]]
            lines.append(
                _line(label, (f"{len(times)}", *(f"{ms:.1f} ms" for ms in at))) + f"  slowest {times[-1][1]}"
            )
    return "\n".join(lines)


def dump(one: Measured, folder: Path) -> None:
    """The case as files: what there was, the answer, what was expected and what came."""
    case = one.case
    top = folder / case.name.replace("#", "-").replace(" ", "-").replace("/", "-")
    top.mkdir(parents=True, exist_ok=True)
    about = f"{case.name}: {one.verdicts[OURS]}\nslips: {', '.join(case.slips)}\n{case.repository} {case.commit}\n"
    (top / "about.txt").write_text(f"{about}{one.canonical}\n{one.ours.text}\n", errors="surrogateescape")
    (top / "answer.txt").write_bytes(case.answer.encode())
    sides = {"before": case.files, "got": one.ours.files or {}}
    if case.expected is not None:
        sides["expected"] = wanted(case)
    for side, files in sides.items():
        for path, (data, _) in files.items():
            (top / f"{side}-{path.strip('/').replace('/', '+')[-100:]}").write_bytes(data)
    (top / "difference.txt").write_text(difference(one), errors="surrogateescape")


def difference(one: Measured) -> str:
    """What came against what was expected."""
    case = one.case
    if case.expected is None or one.ours.files is None:
        return one.ours.text
    lines: list[str] = []
    right = wanted(case)
    for path in sorted({*right, *one.ours.files}):
        here, there = right.get(path), one.ours.files.get(path)
        if here != there:
            texts = [
                (side[0].decode(errors="backslashreplace").splitlines() if side else [])
                for side in (here, there)
            ]
            modes = [side[1] if side else "-" for side in (here, there)]
            lines += [
                f"{path}: modes {modes}",
                *difflib.unified_diff(texts[0], texts[1], "expected", "got", n=2, lineterm=""),
            ]
    return "\n".join(lines[:80])
