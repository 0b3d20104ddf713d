"""A stage for the shell examples of the pages: a repository with the files that they name, a model, stand-ins for programs."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from tests.conftest import GitRepo

_TEXT = {
    ".py": '"""Stands here for the page."""\n\n\ndef start(path):\n    """Begin."""\n    return open(path).read()\n\n\n'
    "def stop():\n    return None\n\n\n# One more.\n\n\ndef fix():\n    return None\n\n\n# And one.\n\n\ndef ans():\n    return None\n",
    ".c": "/* Stands here for the page. */\nint start(void)\n{\n    return 0;\n}\n",
    ".h": "/* Stands here for the page. */\nint start(void);\n",
}

_PATCH = """\
--- a/src/app.py
+++ b/src/app.py
@@ -1,2 +1,2 @@
 def NAME():
-    return None
+    return 1
"""
_LARGE = "".join(
    f"int part_{number}(int given)\n{{\n" + f"    given += {number};\n" * 50 + "    return given;\n}\n\n"
    for number in range(60)
)

# Answers an edit with a diff that changes the first file of the prompt, lines that are asked for by number with lines,
# and all else with a sentence.
MODEL = r"""
import re, sys
prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
asked = prompt.rpartition("Answer with these lines:")[2]
numbers = re.findall(r"^(\d[\d.]*):", asked, re.M) if asked != prompt else []
file = re.search(r"^File (\S+) \(file to edit;.*\n<file .*>\n(.*\n)", prompt, re.M)
if numbers:
    print("\n".join(f"{number}: does what its name says" for number in numbers))
elif file:
    line = file[2].rstrip("\n")
    print(f"Begin with a remark.\n\n```diff\n--- a/{file[1]}\n+++ b/{file[1]}\n@@ -1,1 +1,1 @@\n-{line}\n+{line} \n```")
else:
    print("It begins and stops what the rest of the program needs.")
"""
BEFORE = 'repoagent edit src/app.py "say why the cache is shared" --yes'  # something to undo, and to remember


def examples(page: Path) -> list[str]:
    """The commands of a page's console blocks, continued lines joined. In a block with a prompt sign, what has none
    is output."""
    found = []
    whole = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^( *)```console\n(.*?)^\1```", whole, re.MULTILINE | re.DOTALL):
        text = re.sub(rf"^{block[1]}", "", block[2], flags=re.MULTILINE).replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line.strip()]
        found += [line[2:] for line in lines if line.startswith("$ ")] or lines
    return found


def without_blocks(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^( *)(`{3,}).*?^\1\2", "", text, flags=re.MULTILINE | re.DOTALL)


def spoken(page: Path) -> list[str]:
    """Our commands that stand within sentences and tables, as `repoagent ...` in backticks."""
    found = re.findall(r"`((?:git )?repoagent [^`\n]+)`", without_blocks(page))
    return [span.replace("\\|", "|") for span in found]


def build(repo: GitRepo, home: Path, lines: list[str]) -> dict[str, str]:
    """Set the stage for these commands; the environment they need."""
    words = {word for line in lines for word in re.split(r"[\s='\"]+", line)}
    file = re.compile(r"[A-Za-z][\w-]*(?:/[\w.-]+)*\.(?:py|c|h|md|js|go|patch|toml)")
    names = {word for word in words if file.fullmatch(word)} | {"src/app.py", "src/config.py"}
    names |= {f"{word}/part.py" for word in words if re.fullmatch(r"[a-z][\w-]*(?:/[\w-]+)+", word)}
    for number in range(3):
        for name in sorted(names):
            kind = Path(name).suffix
            text = _TEXT.get(kind, "# Stands here for the page\n\nsome text\n")
            remark: str | None = {".py": "#", ".c": "//", ".h": "//"}.get(kind, "")
            if kind == ".c":
                text += _LARGE  # is split into several segments
            if name in ("fix.patch", "answer.md"):
                text, remark = _PATCH.replace("NAME", name[:3]), None
            repo.write(name, text + f"{remark} version {number}\n" * (number > 0 and remark is not None))
        repo.commit(f"version {number}")
    programs = home / "bin"
    programs.mkdir(parents=True)
    scripts = {"claude": "git show HEAD:fix.patch | sed s/fix/stop/", "editor": 'echo >> "$1"'}
    scripts |= dict.fromkeys(("pytest", "make", "pipx", "pip"), "exit 0")
    ours = f'exec {shlex.quote(sys.executable)} -m repoagent "$@"'
    scripts |= dict.fromkeys(("repoagent", "git-repoagent"), ours)
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    (home / "model.py").write_text(MODEL)
    return {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "EDITOR": "editor",
        "REPOAGENT_MODEL": f"command:{sys.executable} -SE {home / 'model.py'}",
        "GIT_PAGER": "cat",
    }
