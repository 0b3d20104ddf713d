"""The scenes of the demo. Each shows real commands and then looks whether they did what they should."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from demo.stage import Stage, expect, gap, heading, say, show

ACCOUNT = "demo/ledger/src/account.py"
README = "demo/ledger/README.md"
CHECK = "python3 -m unittest discover -q demo/ledger"
CONFIG = "demo/notes/src/config.py"
ADD_DEFAULTS = "Return the defaults when the config file is missing instead of raising."
CONFIG_CHECK = "python3 -m unittest discover -q demo/notes"
REJECT = "Reject negative amounts in deposit and withdraw with ValueError."
ADD_ROW = "Add the setting `debug`, default `false`, to the table."
STAGED, UNSTAGED = "Ask Ada before you change the port.", "TODO: how to run it behind a proxy."
MEANING = {
    1: "it made no edit",
    3: "its edit does not fit",
    4: "it can't be reached, or its answers are of no use",
    5: "a limit was reached",
    6: "its edits do not pass the check",
}


class ModelFailed(Exception):
    """A model that was asked live did not manage an edit. `code` is the exit code of `repoagent edit`."""

    def __init__(self, code: int) -> None:
        why = MEANING.get(code, "something went wrong")
        super().__init__(f"the model did not manage the edit: {why} (exit code {code})")
        self.code = code


@dataclass(frozen=True)
class Play:
    """What all scenes need: a stage in the repository, whether a model is asked live, where to record it."""

    stage: Stage
    live: bool
    record: Path | None = None

    def edit(self, command: str) -> None:
        """Run `repoagent edit`. Raises ModelFailed when a live model fails, Failed if that left a trace."""
        before = self.state()
        options = f" \\\n    --record {self.record}" if self.record else ""
        code = self.stage.run(command + options)
        if code:
            expect(self.state() == before, "a failed edit leaves everything as it was")
            expect(self.live, "the recorded conversation ends in a commit")
            raise ModelFailed(code)
        expect(self.git("rev-parse", "HEAD^") == before[0], "there is one new commit")

    def state(self) -> tuple[str, ...]:
        commands = ["rev-parse", "HEAD"], ["status", "--porcelain"], ["diff"], ["diff", "--cached"]
        return tuple(self.git(*command) for command in commands)

    def git(self, *arguments: str) -> str:
        return self.stage.ask("git", *arguments).rstrip("\n")

    def passes(self, check: str = CHECK) -> bool:
        return self.stage.quietly("/bin/sh", "-c", check).returncode == 0


def one_request_one_commit(play: Play) -> None:
    stage = play.stage
    heading("1. One request, one commit")
    say(f"{ACCOUNT} keeps the balance of an account. Its tests want more than it can do yet:")
    stage.run(f"{CHECK} 2>&1 |\n    tail -n 6")
    expect(not play.passes(), "the tests fail before the edit")
    gap()
    say("So ask for it. The answer counts if the tests pass:")
    play.edit(f'repoagent edit {ACCOUNT} \\\n    "{REJECT}" \\\n    --check "{CHECK}" --yes')
    expect(play.passes(), "the tests pass after the edit")
    expect(play.git("diff", "--name-only", "HEAD^", "HEAD") == ACCOUNT, f"the commit changes {ACCOUNT} only")
    expect("repoagent:" in play.git("log", "-1", "--format=%B"), "the commit says which model helped")
    gap()
    say("A commit like any other. The trailers say which model helped, in which edit, on which text.")
    stage.must("git show")
    stage.must("git status")
    expect(play.git("status", "--porcelain") == "", "nothing is left over")


def what_is_remembered(play: Play) -> None:
    stage = play.stage
    heading("2. What is remembered")
    say("Plain files, yours to read, edit and delete. They belong to the file, wherever it is moved to:")
    stage.must("ls .repoagent/memory/account-py-*")
    stage.must("head -n 12 .repoagent/memory/account-py-*/conversation.md")
    conversations = stage.folder.glob(".repoagent/memory/*/conversation.md")
    told = "".join(path.read_text(encoding="utf-8") for path in conversations)
    expect(REJECT in told, "the conversation is remembered")
    expect(str(stage.folder) not in told, "the model is told nothing of where the repository is")
    gap()
    say("The next request about this file begins with it:")
    stage.must(
        f'repoagent edit {ACCOUNT} "And now?" \\\n    --show-prompt 2>/dev/null | sed -n "/^Memory:/,/^$/p"'
    )


def take_it_back(play: Play) -> None:
    stage, made = play.stage, play.git("rev-parse", "HEAD")
    heading("3. Take it back, make it again")
    stage.must("repoagent undo")
    expect(play.git("rev-parse", "HEAD") == play.git("rev-parse", f"{made}^"), "the branch is where it was")
    expect(play.git("status", "--porcelain") == "" and not play.passes(), "the file is as it was")
    stage.must("git log --oneline -2")
    gap()
    stage.must("repoagent redo")
    expect(play.git("diff", made, "HEAD") == "" and play.passes(), "the edit is back")
    stage.must("git log --oneline -2")


def a_check_that_fails(play: Play) -> None:
    stage = play.stage
    heading("4. A first answer that is not good enough")
    say(
        "Here the tests know a trap: the defaults must not be handed out to be changed. When an answer does not "
        "pass, the file is put back, the model is shown why, and it tries again. Only what passes is committed."
    )
    play.edit(f'repoagent edit {CONFIG} \\\n    "{ADD_DEFAULTS}" \\\n    --check "{CONFIG_CHECK}" --yes')
    expect(play.passes(CONFIG_CHECK), "the tests pass after the edit")
    stage.must("git show --format=%s")


def your_own_work(play: Play) -> None:
    stage = play.stage
    heading("5. Your own work stays yours")
    say("In the middle of something, one line staged and another not, in the very file that is to be edited:")
    for command in (
        f'echo "{STAGED}" >>{README}',
        f"git add {README}",
        f'echo "{UNSTAGED}" >>{README}',
        "git status --short",
    ):
        stage.must(command)
    gap()
    play.edit(f"repoagent edit {README} \\\n    '{ADD_ROW}' \\\n    --check \"grep debug {README}\" --yes")
    gap()
    say("The commit holds the new row and nothing else:")
    stage.must("git show --format=%s")
    expect(play.git("diff", "--name-only", "HEAD^", "HEAD") == README, f"the commit changes {README} only")
    committed = play.git("show", f"HEAD:{README}")
    expect("debug" in committed, "the commit has the row")
    expect(
        not (STAGED in committed or UNSTAGED in committed), "the commit has nothing of the user's own work"
    )
    gap()
    say("What was staged is still staged, what was not is still not:")
    stage.must(f"git diff --cached -U0 {README}")
    stage.must(f"git diff -U0 {README}")
    expect(_added(play.git("diff", "--cached")) == [STAGED], "the staged line is still staged, alone")
    expect(_added(play.git("diff")) == [UNSTAGED], "the other line is still not staged")


def _added(diff: str) -> list[str]:
    return [line[1:] for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]


def next_steps(play: Play) -> None:
    heading("What next")
    program = str(Path(play.stage.env["PATH"].split(os.pathsep)[0]) / "repoagent")
    program = min(program, os.path.relpath(program), key=len)
    say("In a repository of your own, with a key of console.anthropic.com or a program that knows a model:")
    show("export ANTHROPIC_API_KEY=...")
    show("export REPOAGENT_MODEL='command:claude -p'   # or this")
    show(f'{program} edit FILE "what to change"')
    show(f"{program} edit --help")
    if not play.live:
        gap()
        say("This demo, live:")
        show("REPOAGENT_MODEL=anthropic/claude-sonnet-5-5 make demo")
