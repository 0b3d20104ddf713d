"""A provider's prompt cache, as it is documented: a prefix is kept at each mark, and found again from a mark or from
one of the twenty blocks before it; less than 1,024 tokens are not kept. What is kept is taken to stay for the run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from repoagent.llm.model import Request, Usage
from repoagent.llm.usage import estimate_tokens

LEAST, MARKS, BACK = 1_024, 4, 20


@dataclass
class Cache:
    kept: set[bytes] = field(default_factory=set)

    def sent(self, request: Request) -> Usage:
        """What of the request is read from the cache, written to it, and neither; all as input tokens."""
        blocks = [("system", part) for part in request.system]
        blocks += [(message.role, part) for message in request.messages for part in message.parts]
        whole = hashlib.sha256()
        prefixes: list[tuple[bytes, int]] = []
        size = 0
        for role, part in blocks:
            whole.update(f"{role}\0{part.text}\0".encode())
            size += estimate_tokens(part.text)
            prefixes.append((whole.digest(), size))
        marks = [number for number, (_, part) in enumerate(blocks) if part.cache][-MARKS:]
        near = {number - back for number in marks for back in range(BACK) if number >= back}
        found = max((prefixes[number][1] for number in near if prefixes[number][0] in self.kept), default=0)
        written = 0
        for number in marks:
            digest, upto = prefixes[number]
            if upto >= LEAST:
                self.kept.add(digest)
                written = max(written, upto - found)
        return Usage(input=size - found - written, cache_read=found, cache_write=written)
