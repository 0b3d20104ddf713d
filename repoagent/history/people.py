"""Who has worked on a file: by `.mailmap`, how often and when, programs apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

from repoagent.dataclass import dataclass
from repoagent.history.parse import FileCommit

# Accounts of services that open changes by themselves and do not call themselves [bot].
_SERVICES = (
    "dependabot|dependabot-preview|renovate|renovatebot|greenkeeper|greenkeeperio|snyk|github[ -]actions?|"
    "pre-commit-ci|pre-commit[ .]ci|allcontributors|imgbot|mergify|bors|semantic-release|release-please|depfu|pyup|"
    "whitesource|mend|copybara-service|copybara|google-oss-robot|k8s-ci-robot|weblate|hosted weblate|travis ci|"
    "scala-steward|scala steward|r-ryantm|deepsource-autofix|restyled-io|codecov|crowdin|transifex"
)
_NAME = re.compile(rf".*\[bot\]|(?:.*[\s_-])?bot|(?:{_SERVICES})(?:[\s_-](?:bot|app|ci))?", re.IGNORECASE)
_ADDRESS = re.compile(
    rf".*\[bot\]@.*|(?:\d+\+)?(?:{_SERVICES})(?:-?bot)?@.*|bot@.*|action@github\.com"
    r"|(?:noreply|no-reply)@(?!github\.com).*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Person:
    """Somebody, by the name that `.mailmap` gives, with the number of commits and the first and last date of them
    (author's dates, YYYY-MM-DD)."""

    name: str
    commits: int
    first: str
    last: str
    bot: bool = False


@dataclass(frozen=True)
class People:
    """Who made `commits` commits, most first; programs apart. `partial`: there may be older commits by others."""

    persons: tuple[Person, ...] = ()
    bots: tuple[Person, ...] = ()
    commits: int = 0
    partial: bool = False


def is_bot(name: str, email: str) -> bool:
    """Whether the author is a program: `[bot]` in the name or the address, or a service known to be one."""
    return bool(_NAME.fullmatch(name.strip()) or _ADDRESS.fullmatch(email.strip()))


def people_of(commits: Iterable[FileCommit], *, partial: bool = False) -> People:
    """The authors of `commits`. One name is one person, whatever addresses it has."""
    dates: dict[tuple[str, bool], list[str]] = {}
    for commit in commits:
        author = (commit.author, is_bot(commit.author, commit.email))
        dates.setdefault(author, []).append(commit.date[:10])
    found = [Person(name, len(days), min(days), max(days), bot) for (name, bot), days in dates.items()]
    found.sort(key=lambda person: (-person.commits, _newest_first(person.last), person.name))
    return People(
        tuple(person for person in found if not person.bot),
        tuple(person for person in found if person.bot),
        sum(person.commits for person in found),
        partial,
    )


def _newest_first(day: str) -> tuple[int, ...]:
    return tuple(-ord(character) for character in day)
