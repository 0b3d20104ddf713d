"""Where a model thinks aloud before it answers."""

from __future__ import annotations

from repoagent.llm.rendering import wire_text

_OPEN, _CLOSE = "<think>", "</think>"


class ThoughtSplitter:
    """Tells a thought from the reply where a text may start with <think>…</think>, whatever its pieces are."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"

    def feed(self, piece: str) -> tuple[str, str]:
        """The thought and the text that are sure by now."""
        self._held += piece
        thought = ""
        if self._state == "start":
            body = self._held.lstrip()
            if len(body) < len(_OPEN) and _OPEN.startswith(body):
                return "", ""
            self._state = "thought" if body.startswith(_OPEN) else "text"
            if self._state == "thought":
                self._held = body[len(_OPEN) :]
        if self._state == "thought":
            thought, found, rest = self._held.partition(_CLOSE)
            if not found:
                sure = max(0, len(self._held) - len(_CLOSE) + 1)
                thought, self._held = self._held[:sure], self._held[sure:]
                return thought, ""
            self._held, self._state = rest, "after"
        if self._state == "after":
            self._held = self._held.lstrip("\r\n")
            if not self._held:
                return thought, ""
            self._state = "text"
        # half a character of JSON's \ud83d\ude00 may come in one piece, half in the next
        sure = len(self._held) - ("\ud800" <= self._held[-1:] <= "\udbff")
        text, self._held = self._held[:sure], self._held[sure:]
        return thought, wire_text(text)

    def rest(self) -> tuple[str, str]:
        """What was held back, when nothing more comes."""
        held, self._held = wire_text(self._held), ""
        return (held, "") if self._state == "thought" else ("", held)
