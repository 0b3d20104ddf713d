"""Which skills there are: the person's own, then those of the repository, each read as far as its front matter."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.store.report import Warn
from repoagent.work.texts import Place, Value, front_matter, names_in, one_line, read_text
from repoagent.work.texts.places import WhyNot, inside

FILE = "SKILL.md"
LARGEST = 64 * 1024  # bytes of a SKILL.md, and of a file beside it that is shown
OF_OTHERS = (".claude/skills", ".agents/skills")  # where repositories keep what all assistants read
_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")
_LONGEST_NAME = 64


@dataclass(frozen=True)
class Skill:
    """One skill. `folder` is where it was found, `place` says what it may reach from there."""

    name: str
    description: str
    folder: Path
    place: Place

    @property
    def own(self) -> bool:
        """Whether it is the person's; the text of a repository's is data."""
        return self.place.own


def skill_places(
    top: Path, root: Path, user_folder: Path, *, further: Sequence[str] = (), why_not: WhyNot | None = None
) -> tuple[Place, ...]:
    """Where skills may stand, those that win first: the folder of the person, the `further` ones of the option
    `run.skills`, then of the repository `.repoagent/skills` and OF_OTHERS.

    top: of the work tree. root: the `.repoagent` folder. user_folder: the one of `config.user_file`.
    """
    named = [Path(os.path.expanduser(name)) for name in further]  # noqa: PTH111  (a Path raises for an unknown user)
    return (
        Place(user_folder / "skills"),
        *(Place(folder, named="run.skills") for folder in named),
        Place(root / "skills", root.parent, root.parent, why_not),
        *(Place(top / name, top, top, why_not) for name in OF_OTHERS),
    )


def find_skills(places: Iterable[Place], warn: Warn) -> tuple[Skill, ...]:
    """The skills in `places`, by name. Of two with one name the first counts; `warn` is told, a sentence for each that
    is left out."""
    found: dict[str, Skill] = {}
    seen: set[str] = set()
    for place in places:
        try:
            names = names_in(place, warn)
        except Refused as error:
            warn(f"{place.shown(place.folder)} {error}: no skills are taken from there")
            continue
        for name in names:
            folder = place.folder / name
            real = os.path.realpath(folder)
            if real in seen or not os.path.isdir(folder):  # noqa: PTH112  (a Path may raise)
                continue
            seen.add(real)
            try:
                skill = _read(place, folder)
            except Refused as error:
                warn(f"the skill {place.shown(folder)} {error}: it is left out")
                continue
            if first := found.get(skill.name):
                whose = "yours" if first.own else "the first"
                warn(
                    f"{place.shown(folder)} and {first.place.shown(first.folder)} are skills of the same name: "
                    f"{whose} counts"
                )
            else:
                found[skill.name] = skill
    return tuple(found[name] for name in sorted(found))


def _read(place: Place, folder: Path) -> Skill:
    """Raises Refused, worded as the end of a sentence about the skill."""
    inside(place, folder)
    try:
        text = read_text(place, folder / FILE, LARGEST)
    except Refused as error:
        raise Refused(f"has a {FILE} that {error}") from error
    if text is None:
        raise Refused(f"has no {FILE}")
    fields, _ = front_matter(text)
    name, description = _text(fields, "name"), _text(fields, "description")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise Refused(f"has the name {name!r}, which has to be letters, digits and dashes")
    if name != folder.name:
        raise Refused(f"is called {name} in its {FILE}, and its folder is not")
    return Skill(name, description, folder, place)


def _text(fields: dict[str, Value], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str) or not (said := one_line(value)):
        raise Refused(f"has no {key} in its front matter")
    return said
