"""Models for summaries: small programs behind `command:` that answer as they are asked, or badly."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

# Answers each line that is asked for; REPLY may spoil it. Each prompt is kept.
PROGRAM = """\
import os, sys
folder = os.path.dirname(os.path.abspath(__file__))
text = sys.stdin.read()
count = sum(name.startswith("prompt-") for name in os.listdir(folder))
open(f"{folder}/prompt-{count:02}", "w").write(text)
asked = text.rpartition("Answer with these lines:")[2].strip().splitlines()
asked = [line.split(":")[0] for line in asked if line[:1].isdigit()]
lines = [f"{number}: says {number} in call {count}" for number in asked]
REPLY
print("\\n".join(lines))
"""


@dataclass(frozen=True)
class Program:
    folder: Path

    @property
    def spec(self) -> str:
        return f"command:python3 -SE {self.folder / 'model.py'}"

    @property
    def prompts(self) -> list[str]:
        return [path.read_text() for path in sorted(self.folder.glob("prompt-*"))]

    def answers(self, spoil: str = "") -> None:
        """From now on it answers; `spoil` is Python that changes `lines` first."""
        (self.folder / "model.py").write_text(PROGRAM.replace("REPLY", spoil))


@pytest.fixture
def model(tmp_path: Path) -> Program:
    folder = tmp_path / "model"
    folder.mkdir()
    program = Program(folder)
    program.answers()
    return program
