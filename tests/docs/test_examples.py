"""Every example of the pages is run, and every command that they name is one."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from repoagent.cli.app import cli
from tests.cli.screens import Screen
from tests.conftest import GitRepo
from tests.docs import stage

TOP = Path(__file__).parents[2]
PAGES = [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))]
SPOKEN = [(page, line) for page in PAGES for line in stage.spoken(page)]
# Reach out to a network, or need a program that only some have.
NOT_RUN = re.compile(r"git (fetch|push)|pip install|tree_sitter_language_pack|export ANTHROPIC|cd your/")


@pytest.mark.soak
@pytest.mark.parametrize("page", [page for page in PAGES if stage.examples(page)], ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Path, repo: GitRepo, tmp_path: Path) -> None:
    """In their order, in one repository, at a terminal on which every question is answered with yes."""
    lines = stage.examples(page)
    env = {**stage.build(repo, tmp_path / "home", lines), "CI": ""}
    failed = []
    blob = repo.git("rev-parse", "HEAD:src/app.py")[:7]
    lines = [re.sub(r"(?<==)[0-9a-f]{7}\b", blob, line) for line in lines]  # the pages name one of their own
    for line in [stage.BEFORE, *(line for line in lines if not NOT_RUN.search(line))]:
        with Screen(["/bin/bash", "-c", line], repo.top, env=env) as screen:
            # what an import brings is there already: the page's own commands have exported it
            if screen.end(yes=True) != (1 if re.search("memory import .*--dry-run", line) else 0):
                failed.append(f"{line}\n{screen.seen}")
    assert not failed, "\n\n".join(failed)


@pytest.mark.soak
def test_the_python_examples_run(repo: GitRepo, tmp_path: Path) -> None:
    """In their order, as one program, with the model of the stage for the one that the page names; warnings are errors."""
    page = (TOP / "docs/library.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    env = {**os.environ, **stage.build(repo, tmp_path / "home", [])}
    program = "\n".join(blocks).replace("path/to/project", str(repo.top))
    program = re.sub(r'model="anthropic/[\w.-]+"', f"model={env['REPOAGENT_MODEL']!r}", program)
    before = repo.head()
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "declined" not in done.stdout and repo.head() != before and repo.status() == ""


@pytest.mark.parametrize(("page", "line"), SPOKEN, ids=[f"{page.name}: {line[:60]}" for page, line in SPOKEN])
def test_a_command_that_is_named_takes_these_options(page: Path, line: str) -> None:
    """Names of commands and options are looked up; what stands for a name of the reader's choice is not."""
    words = shlex.split(line.replace("...", "").replace("…", ""), comments=True)
    words = words[1:] if words[0] == "git" else words
    words = words[: words.index("|")] if "|" in words else words
    at: click.Command = cli
    context = click.Context(cli, info_name="repoagent", **cli.context_settings)
    rest = words[1:]
    while isinstance(at, click.Group) and rest and not rest[0].startswith("-"):
        found = at.get_command(context, rest[0])
        if found is None and at is not cli:
            break
        assert found is not None, f"{page.name}: {line}: there is no command {rest[0]}"
        at, rest = found, rest[1:]
        context = click.Context(at, parent=context, info_name=words[0], **at.context_settings)
    if rest and (verb := getattr(at, "verbs", {}).get(rest[0])):
        at, rest = verb, rest[1:]
    known = {name for option in at.get_params(context) for name in (*option.opts, *option.secondary_opts)}
    known |= {name for option in cli.get_params(context) for name in option.opts}
    for word in rest:
        if re.match(r"--?[A-Za-z]", word):
            name = word.split("=")[0]
            short = not name.startswith("--")
            assert (name[:2] if short else name) in known, f"{page.name}: {line}: there is no option {name}"


def test_links_lead_somewhere() -> None:
    """Each relative link is a file, and what stands behind its # a heading there."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", stage.without_blocks(page)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            place = page if not name else Path(os.path.normpath(page.parent / name))
            assert place.exists(), f"{page.name}: {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)", place.read_text(encoding="utf-8"), re.MULTILINE)
                assert anchor in {slug(heading) for heading in headings}, f"{page.name}: {target}"


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"([\w/-]+\.md)", (TOP / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed == {page.relative_to(TOP / "docs").as_posix() for page in (TOP / "docs").rglob("*.md")}


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub and mkdocs make it."""
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.strip().lower()))
