"""`python -m demo`, or `make demo`: the main commands of repoagent in a temporary repository.

The model's reply is recorded; everything else really runs. The exit code is 0 if each step has the expected result.
KEEP=1 keeps the repository.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from demo.repository import ACCOUNT, create

REQUEST = "Reject negative amounts in deposit and withdraw with ValueError."
TERMINAL = sys.stdout.isatty()
COLOUR = TERMINAL and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


class Failed(Exception):
    """A step of the demo did not have the expected result."""


@dataclass(frozen=True)
class Stage:
    """Where the commands run."""

    top: Path
    env: dict[str, str]

    def run(self, command: str, expected: int = 0) -> None:
        """Show `command`, then what it prints. Raises Failed if its exit code is not `expected`."""
        say(f"$ {command}", "1")
        code = self._shell(command)
        say("")
        expect(code == expected, f"{command.split()[1]} exits with {expected}, not {code}")

    def _shell(self, command: str) -> int:
        if TERMINAL:
            return subprocess.run(command, shell=True, cwd=self.top, env=self.env, check=False).returncode
        # A pipe or a log gets what a terminal of 80 columns would have shown.
        env = [f"{name}={value}" for name, value in (self.env | {"TERM": "dumb", "COLUMNS": "80"}).items()]
        script = ["/bin/sh", "-c", f"cd '{self.top}' && {command}"]
        status = pty.spawn(
            ["env", "-i", *env, *script], lambda fd: os.read(fd, 65_536).replace(b"\r\n", b"\n")
        )
        return os.waitstatus_to_exitcode(status)

    def git(self, *words: str) -> str:
        command = ["git", *words]
        return subprocess.run(
            command, cwd=self.top, env=self.env, text=True, capture_output=True, check=True
        ).stdout


def play(stage: Stage) -> None:
    before = stage.git("rev-parse", "HEAD")
    say("Which files change together with this one?", "36")
    stage.run(f"repoagent neighbors {ACCOUNT} -n 3")

    say("One request, one commit if the tests pass (recorded reply of a small model):", "36")
    stage.run(f'repoagent edit {ACCOUNT} \\\n    "{REQUEST}" \\\n    --check "python3 -m unittest -q" --yes')
    expect(stage.git("rev-parse", "HEAD^") == before, "there is one new commit")
    expect(stage.git("diff", "--name-only", "HEAD^", "HEAD") == f"{ACCOUNT}\n", f"it changes {ACCOUNT} alone")

    account = stage.top / ACCOUNT
    account.write_text(account.read_text().replace("def transfer(", "def move("))
    stage.git("add", ACCOUNT)
    say("Rename `transfer` to `move` and stage that. Is it ready to commit?", "36")
    stage.run("repoagent review", expected=1)

    say("Undo the edit. What you have staged stays staged:", "36")
    stage.run("repoagent undo")
    stage.run("git status --short")
    expect(stage.git("rev-parse", "HEAD") == before, "the branch is where it was")
    expect(
        stage.git("diff") == "" and "+def move(" in stage.git("diff", "--cached"),
        "your own changes are as they were",
    )


def say(text: str, style: str = "") -> None:
    coloured = "\n".join(f"\033[{style}m{line}\033[m" for line in text.split("\n"))
    print(coloured if COLOUR and style else text, flush=True)  # noqa: T201


def expect(holds: bool, what: str) -> None:
    """Raises Failed unless `what` holds: the demo is a test as well."""
    if not holds:
        raise Failed(f"expected that {what}")


def main() -> int:
    if not shutil.which("git"):
        return _fail("git is not on PATH: install git first")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # there are no questions
    folder, started = Path(tempfile.mkdtemp(prefix="repoagent-demo-")).resolve(), time.monotonic()
    try:
        play(Stage(*create(folder)))
    except Failed as error:
        return _fail(f"the demo failed: {error}")
    except KeyboardInterrupt:
        return 130
    finally:
        if os.environ.get("KEEP"):
            say(f"The repository is {folder / 'ledger'}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    say(
        f"All steps had the expected result, in {time.monotonic() - started:.0f} s. Next: README.md, `Install`."
    )
    return 0


def _fail(message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return 1


sys.exit(main())
