"""`memory.db` when several make it at once."""

from __future__ import annotations

import threading
from pathlib import Path

from repoagent.memory.identity.cache import connect


def test_one_who_opens_it_while_another_makes_it_does_not_take_it_for_a_stranger(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"{number}.db"
        together = threading.Barrier(4)
        said: list[str] = []

        def open_it(
            path: Path = path, together: threading.Barrier = together, said: list[str] = said
        ) -> None:
            together.wait()
            connect(path, said.append).close()
            said.append("opened")

        threads = [threading.Thread(target=open_it) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert said == ["opened"] * 4
