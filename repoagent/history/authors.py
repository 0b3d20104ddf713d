"""The authors of a file's commits, people and programs apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

from repoagent.dataclass import dataclass
from repoagent.history.log import FileCommit

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
class Author:
    """A person or program, by the name that `.mailmap` gives; `first` and `last` are author dates, YYYY-MM-DD."""

    name: str
    commits: int
    first: str
    last: str
    bot: bool = False


@dataclass(frozen=True)
class Authors:
    """Who made `commits` commits, most first. `partial`: there may be older commits by others."""

    persons: tuple[Author, ...] = ()
    bots: tuple[Author, ...] = ()
    commits: int = 0
    partial: bool = False


def is_bot(name: str, email: str) -> bool:
    """Whether the author is a program: `[bot]` in the name or the address, or a service known to be one."""
    return bool(_NAME.fullmatch(name.strip()) or _ADDRESS.fullmatch(email.strip()))


def authors_of(commits: Iterable[FileCommit], *, partial: bool = False) -> Authors:
    """The authors of `commits`. One name is one person, whatever addresses it has."""
    dates: dict[tuple[str, bool], list[str]] = {}
    for commit in commits:
        author = (commit.author, is_bot(commit.author, commit.email))
        dates.setdefault(author, []).append(commit.date[:10])
    found = [Author(name, len(days), min(days), max(days), bot) for (name, bot), days in dates.items()]
    found.sort(key=lambda author: author.name)
    found.sort(key=lambda author: (author.commits, author.last), reverse=True)
    persons, bots = (tuple(author for author in found if author.bot is bot) for bot in (False, True))
    return Authors(persons, bots, sum(author.commits for author in found), partial)
