"""The runs that are killed: the steps of the model, and the repository.

The model depends only on the conversation: it looks for its last step in the request, takes the next one, and repeats a
step that was reported as interrupted.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from repoagent.llm.model import OnText, Reply, Request, Usage
from tests.conftest import GitRepo
from tests.crash.scenes import own_work, plain

BIG = "".join(
    f"{n}: {n * n * 7919 % 1_000_003:x} is the content of this line, and nothing else\n" for n in range(360)
)
CHECKPOINT = (
    "# Goal\nAll steps.\n# Decisions\nNone.\n# Plan\nGo on.\n# Open\nThe rest.\n# Next step\nThe next.\n"
)


def patch(*files: str) -> str:
    return "```diff\n" + "".join(files) + "```\n"


def line(path: str, old: str, new: str) -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@\n-{old}\n+{new}\n"


GONE = "--- a/gone.txt\n+++ /dev/null\n@@\n-gone\n"
NEW = "--- /dev/null\n+++ b/n/ew/new.txt\n@@\n+new\n"
RENAMED = (
    "diff --git a/src/app.py b/src/main.py\nrename from src/app.py\nrename to src/main.py\n"
    "--- a/src/app.py\n+++ b/src/main.py\n@@\n # app\n-A = 1\n+A = 2\n # end\n"
)
READ = '<read path="a.txt"/>\n<read path="c.txt"/>\n<read path="gone.txt"/>\n<read path="src/app.py"/>\n'
FINISH = "<commit-message>Do all of it</commit-message>\n<finish>all steps are done</finish>"
WHOLE = (
    '<task add="Look"/>\n<task add="Change"/>\n' + READ,
    patch(line("a.txt", "line 2", "LINE 2"), line("c.txt", "c", "C")),
    patch(GONE, NEW, RENAMED) + '<task n="1" state="done"/>',
    "".join(f'<read path="big.txt" lines="{n}-{n + 119}"/>\n' for n in (1, 121, 241)),
    "<run>sh change.sh</run>",
    '<keep path="made.txt"/>\n<task n="2" state="done"/>',
    FINISH,
)
FAMILY = (
    '<read path="a.txt"/>',
    patch(line("a.txt", "line 2", "LINE 2")),
    '<delegate kind="worker">change c.txt</delegate>',
    FINISH,
)
CHILD = ('<read path="c.txt"/>', patch(line("c.txt", "c", "C")), "<finish>c is loud</finish>")
EACH = ('<read path="a.txt"/>\n<read path="c.txt"/>', WHOLE[1], patch(GONE, NEW, RENAMED), FINISH)


@dataclass(frozen=True)
class RunScene:
    steps: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    message: str = ""
    child: tuple[str, ...] = ()


SCENES = {
    "whole": RunScene(WHOLE, message="Mind the gap."),
    "family": RunScene(FAMILY, child=CHILD),
    "each": RunScene(EACH, ("--commit-per-edit",)),
}
# changes the layout only: after a kill, other unstaged changes of a hook would look like a save of the user
FORMATTER = "sed -i 's/^new$/  new/' n/ew/new.txt 2>/dev/null && git add n/ew/new.txt\nexit 0\n"
WORKER = "---\nname: worker\ndescription: makes the requested changes\ntools: [read, edit]\n---\nDo it.\n"


@dataclass
class Scripted:
    """A model that replies by the content of the request and adds a line to the file `calls` for each call."""

    steps: tuple[str, ...]
    calls: Path
    spec: str = "scripted/one"
    context_tokens: int | None = 22000
    takes: ClassVar[frozenset[str]] = frozenset()

    def complete(self, request: Request, on_text: OnText) -> Reply:
        text = self._reply(request)
        with self.calls.open("a") as file:
            file.write(f"{os.getpid()} {text.splitlines()[0]}\n")
        on_text(text)
        return Reply(text, "end", Usage(1000, 50))

    def _reply(self, request: Request) -> str:
        if request.key.endswith("checkpoint"):
            return CHECKPOINT
        said = [text for m in request.messages if m.role == "assistant" for text in [m.text]]
        found = [int(number) for text in said for number in re.findall(r"This is step (\d+)\.", text)]
        number = found[-1] + 1 if found else 1
        message = request.messages[-1].text
        if (
            (
                found
                and (
                    "This was interrupted" in message
                    or "the interrupted command" in message
                    or "was not performed because" in message
                    or "Nothing in your last reply" in message
                )
            )
            or "Files that your commands created" in message
            or "The subagent failed" in message
            or "The user has sent a message" in message
        ):
            number -= 1
        number = min(number, len(self.steps))
        news = re.search(r"the interrupted command started, the command or the user changed (.*):", message)
        keep = '<keep path="d.txt"/>\n' if news and "d.txt" in news[1] else ""
        return f"This is step {number}.\n{keep}{self.steps[number - 1]}"


def prepare(repo: GitRepo, scene: RunScene) -> None:
    """Write the files and the user's work, staged and not, in the files of the run and elsewhere."""
    repo.write("c.txt", "c\n")
    repo.write("d.txt", "d\n")
    repo.write("big.txt", BIG)
    repo.write("change.sh", "sed s/d/D/ d.txt > d.new\ncat d.new > d.txt\nrm d.new\necho made > made.txt\n")
    plain(repo)
    own_work(repo)
    if (
        not scene.arguments
    ):  # after a kill, the output of a formatter in the commit of an edit looks like a save
        repo.hook("pre-commit", FORMATTER)
    for sample in (repo.top / ".git/hooks").glob("*.sample"):
        sample.unlink()
    if scene.child:
        agents = (
            Path(os.environ["XDG_CONFIG_HOME"]) / "repoagent" / "agents"
        )  # an agent defined in a repository may not edit
        agents.mkdir(parents=True, exist_ok=True)
        (agents / "worker.md").write_text(WORKER)
    if scene.message:
        inbox = repo.write(".repoagent/runs/work/inbox/1.md", scene.message)
        os.utime(inbox, (time.time() - 60,) * 2)


def with_model(scene: RunScene, calls: Path) -> None:
    """Make this process and its subagents use scripted models."""
    from repoagent.edit import model_setup as opening
    from repoagent.tasks import subagents

    steps = scene.steps
    vars(opening)["open_model"] = lambda *_, **__: Scripted(steps, calls)
    vars(subagents)["ITSELF"] = ("-c", f"from tests.crash.run_scenes import child; child({str(calls)!r})")


def child(calls: str) -> None:
    """Run the program as a subagent, with the scripted model of CHILD."""
    from repoagent.cli import main

    with_model(RunScene(CHILD), Path(calls))
    main()
