"""Tasks with commands that change files, fail, print much, serve or never end; and with hooks."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable

import pytest

from repoagent.agent.approvals.policy import Verdict
from repoagent.errors import CheckFailed
from tests.tasks.bare import User
from tests.tasks.scenarios.rules import replace_line
from tests.tasks.scenarios.sight import Sight, edit, finish, patch
from tests.tasks.scenarios.stage import Stage

Make = Callable[..., Stage]

FORMATTER = "for f in docs/*.md; do sed -i 's/^One /1 /' $f; done; ls docs | wc -l > count.txt"
BUMP = replace_line("README.md", "Converts units.", "Converts all units.", "Say all")


def formats(see: Sight) -> str:
    """Run a formatter, and keep the file that it created."""
    result = see.ran(FORMATTER)
    if result.exit != 0:
        return "<reject>the formatter fails</reject>"
    made = re.search(r"It created (\S+), which git does not track", result.seen or "")
    if made and see.last("keep") is None and "keep" in see.words:
        return f'<keep path="{made[1]}"/>'
    return finish("Format the documentation", result.seen or "")


@pytest.mark.parametrize("keeps", [True, False])
def test_changes_of_a_formatter_are_committed_and_new_files_if_kept(stage: Make, keeps: bool) -> None:
    task = stage("python")
    task.go(formats, "Format the docs" + (", and keep what it makes." if keeps else "."))
    docs = [path.relative_to(task.repo.top).as_posix() for path in (task.repo.top / "docs").iterdir()]
    assert len(docs) == 8
    assert task.repo.status() == ("" if keeps else "?? count.txt\n")
    task.sound()
    task.committed(*docs, *(["count.txt"] if keeps else []))
    if not keeps:
        (task.repo.top / "count.txt").unlink()
    task.undone()


@pytest.mark.parametrize("by", ["hook", "before_finish"])
def test_a_hook_that_always_fails(stage: Make, by: str) -> None:
    task = stage("python")
    if by == "hook":
        task.repo.hook("pre-commit", "echo never; exit 1\n")
    config = {"run.before_finish": "echo never; exit 3"} if by == "before_finish" else {}

    def stubborn(see: Sight) -> str:
        tries = len(see.results(by))
        return BUMP(see).replace("<finish>", f"<run>true</run>\n<finish>try {tries + 1}: ")

    end = r"never(.|\n)*Nothing was committed after 3 tries\. Your files contain the change"
    with pytest.raises(CheckFailed, match=end) as failed:
        task.go(stubborn, "Say all units.", config=config)
    assert (int(failed.value.exit_code), task.kinds().count("finish")) == (6, 3)
    assert task.before is not None
    assert (task.repo.head(), task.repo.status()) == (task.before.head, " M README.md\n")
    task.sound("failed")
    assert task.record()["exit"] == 6
    (task.repo.top / ".git/hooks/pre-commit").unlink(missing_ok=True)
    task.go(stubborn)
    task.whole("README.md")


def test_the_model_reads_before_finish_and_after_edit(stage: Make) -> None:
    """`after_edit` formats, which is reported; `before_finish` requires a word that the model reads in its output."""

    def rule(see: Sight) -> str:
        wanted = re.search(r"say (\w+) in README", "\n".join(see.results("before_finish")))
        lines = see.lines("README.md")
        if wanted and not any(wanted[1] in line for line in lines):
            return edit(patch("README.md", lines, [*lines, f"{wanted[1]}."]))
        return BUMP(see)

    task = stage("python")
    config = {
        "run.before_finish": "grep -q Celsius README.md || { echo say Celsius in README; exit 1; }",
        "run.after_edit": "sed -i 's/All units/all units/; s/[ ]*$//' README.md; echo formatted $AGENT_PATHS",
    }
    task.go(rule, "Say all units.", config=config)
    assert any("formatted README.md" in text for text in task.server.requests[-1].text.split("</observation"))  # type: ignore[union-attr]
    task.whole("README.md")


def test_recovers_from_errors_of_all_kinds(stage: Make) -> None:
    """Each error states a remedy, and the model applies it."""
    steps = (
        ('<read path="src/nowhere.c"/>', "read", "there is no file"),
        ('<search pattern="(unclosed"/>', "search", "missing closing parenthesis"),
        ("<read path=src/add.c/>", "correction", "Nothing in your last reply was performed"),
        ("<run>no-such-program --x</run>", "run", r"exit 127"),
        ('<run timeout="0.3">sleep 20</run>', "run", "(timeout)"),
        ("<run>exit 9</run>", "run", "exit 9"),
        ('<run cwd="../">ls</run>', "run", "is outside the repository"),
        ("<run>vim src/add.c</run>", "run", "interactive|terminal|editor"),
    )

    def rule(see: Sight) -> str:
        for number, (reply, kind, wanted) in enumerate(steps):
            seen = [text for other, text in see.observations if other == kind]
            index = sum(other == kind for _, other, _ in steps[:number])
            if len(seen) <= index:
                return reply
            if not re.search(wanted, seen[index]):
                return f"<reject>{kind} says {seen[index]}, not {wanted}</reject>"
        return replace_line("src/add.c", "a + b", "b + a")(see)

    task = stage("c")
    assert task.go(rule, "Swap them.").kind == "done"
    task.whole("src/add.c")


def test_five_megabytes_of_output(stage: Make) -> None:
    """The relevant line is in the middle; the model searches the rest of the output."""

    def rule(see: Sight) -> str:
        result = see.ran("seq 1 700000 | sed 's/^350000$/the answer is Kelvin/'", again=False)
        rest = re.search(r"(@output/\S+) lines (\d+)-(\d+)", result.output)
        if not rest:
            return f"<reject>all {len(result.output)} characters are here?</reject>"
        pattern = "the answer is"
        found = see.once("search", f'<search path="{rest[1]}" pattern="{pattern}"/>', path=rest[1])
        line = re.search(r"^(\d+):the answer is (\w+)", found, re.MULTILINE)
        if not line:
            return f"<reject>not found: {found[:200]}</reject>"
        around = see.once("read", f'<read path="{rest[1]}" lines="{line[1]}-{line[1]}"/>', path=rest[1])
        if line[2] not in around:
            return f"<reject>not there: {around[:200]}</reject>"
        return replace_line("README.md", "Converts units.", f"Converts {line[2]}.")(see)

    task = stage("python")
    task.go(rule, "Say what the program says.")
    assert b"Converts Kelvin." in task.repo.read("README.md")
    assert max(len(received.text) for received in task.server.requests) < 60_000  # type: ignore[union-attr]
    task.whole("README.md")


def test_a_server_in_the_background(stage: Make) -> None:
    """Start it, wait for its first line, send a request, kill it; it is gone after the run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = f"python3 -u -S -c 'import http.server as h; h.test(h.SimpleHTTPRequestHandler, port={port}, bind=\"127.0.0.1\")'"
    get = f"python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:{port}/README.md\").read().decode())'"

    def rule(see: Sight) -> str:
        began = see.ran(serve, background="yes", again=False)
        name = re.search(r'<wait command="(\w+)"/>', began.seen or "")
        if not name:
            return f"<reject>{began.seen}</reject>"
        waited = see.once(
            "wait", f'<wait command="{name[1]}" for="Serving HTTP" seconds="20"/>', command=name[1]
        )
        if "Ready. " not in waited:
            return f"<reject>{waited}</reject>"
        page = see.ran(get, again=False)
        if page.exit != 0:
            return f"<reject>{page.seen}</reject>"
        see.once("kill", f'<kill command="{name[1]}"/>', command=name[1])
        return replace_line("README.md", "Converts units.", f"Serves {len(page.output.split())} words.")(see)

    task = stage("python")
    user = User(allows=lambda request: Verdict(True))
    task.go(rule, "Say how many words the server serves.", user=user, confine=False)
    assert b"Serves " in task.repo.read("README.md")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    task.whole("README.md")
