"""The program itself: the git and the Python that it runs on, and what it was installed with."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.util import cache_from_source, find_spec

from repoagent import __version__
from repoagent.doctor.check import Check, error, ok, warning

OLDEST_PYTHON = (3, 10)
# what an extra adds: the modules that tell that it is installed
EXTRAS = {
    "openai": ("openai",),
    "bedrock": ("boto3",),
    "vertex": ("google.auth",),
    "local": ("xllamacpp",),
    "languages": ("tree_sitter_ruby", "tree_sitter_language_pack", "tree_sitter_languages"),
    "mcp": ("mcp",),
    "python": ("jupyter_client",),
    "browse": ("trafilatura",),
}


def check_program() -> Iterator[Check]:
    """repoagent, Python, git."""
    yield ok("repoagent", f"{__version__} in {os.path.dirname(os.path.dirname(__file__))}")  # noqa: PTH120
    python = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < OLDEST_PYTHON:
        yield error("python", python, "install repoagent with Python 3.10 or newer")
    else:
        yield ok("python", python)
    if slow := without_bytecode():
        yield ok("start", slow)
    yield check_git()


def without_bytecode() -> str:
    """What to do where each start compiles the package `anthropic` again, as in images that set
    PYTHONDONTWRITEBYTECODE; "" where that is not so."""
    spec = find_spec("anthropic")
    if spec is None or spec.origin is None or os.path.exists(cache_from_source(spec.origin)):  # noqa: PTH110
        return ""
    packages = os.path.dirname(os.path.dirname(spec.origin))  # noqa: PTH120
    command = f"PYTHONDONTWRITEBYTECODE= {sys.executable} -m compileall -q {packages}"
    return (
        f"about 2 s of each are spent on compiling the package anthropic; run `{command}` once to save them"
    )


def check_git() -> Check:
    """Whether git is there and new enough; `OLDEST_GIT` is the one place that says what that is."""
    from shutil import which

    from repoagent.repo.run import git
    from repoagent.repo.worktree import OLDEST_GIT

    place = which("git")
    if place is None:
        return error("git", "not found on PATH", f"install git {OLDEST_GIT} or newer")
    said = os.fsdecode(git("/", "version")).strip().removeprefix("git version ")
    version = re.match(r"(\d+)\.(\d+)", said)
    oldest = tuple(map(int, OLDEST_GIT.split(".")))
    if version is None:
        return warning("git", f"{place} says {said!r}", f"repoagent needs git {OLDEST_GIT} or newer")
    if (int(version[1]), int(version[2])) < oldest:
        return error("git", f"{said} ({place})", f"install git {OLDEST_GIT} or newer")
    return ok("git", f"{said} ({place}); {OLDEST_GIT} is the oldest that works")


def check_grammars() -> Iterator[Check]:
    """Whether the grammars that were installed can be loaded."""
    from repoagent.split.languages import LANGUAGES, grammar

    broken = []
    for name in LANGUAGES:
        try:
            grammar(name)
        except (ImportError, AttributeError, OSError, TypeError, ValueError) as problem:
            broken.append(f"{name} ({type(problem).__name__}: {problem})")
    if broken:
        yield error("grammars", f"can't be loaded: {', '.join(broken)}", "install repoagent anew")
    else:
        yield ok("grammars", f"{len(LANGUAGES)} languages")


def check_extras() -> Iterator[Check]:
    """Which extras are installed. None has to be; a model that needs one says so."""
    there = [name for name, modules in EXTRAS.items() if any(map(is_installed, modules))]
    missing = [name for name in EXTRAS if name not in there]
    rest = f"; not installed: {', '.join(missing)}" if missing else ""
    yield ok("extras", f"{', '.join(there) or 'none'}{rest}")


def is_installed(module: str) -> bool:
    """Whether a module could be imported, without doing so."""
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # the package above it is missing, or half loaded
        return False
