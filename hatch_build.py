"""Build hook: generates the man pages from the command line interface and installs them in share/man/man1."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface[Any]):
    """Used for wheels and editable installs. The package needs click to import, which [build-system] asks for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path[:0] = [self.root, str(Path(self.root, "docs"))]
        from man import pages

        self.folder = TemporaryDirectory()
        for name, text in pages().items():
            path = Path(self.folder.name, name)
            path.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(path)] = f"share/man/man1/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.folder.cleanup()
