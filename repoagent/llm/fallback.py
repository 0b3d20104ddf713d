"""Several models behind one: who is overloaded, or can't be reached, is replaced by the next."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.dataclass import dataclass
from repoagent.llm.model import Model, OnText, Reply, Request, Retryable

TRIES = 2  # at each but the last, before the next one is taken
PATIENCE = 20.0  # seconds; who asks for more is left at once


@dataclass
class Fallback:
    """`models` in the order in which they are to be asked. Once left, a model is not asked again: what made it
    fail seldom passes within a run, and each attempt costs the person's time."""

    models: Sequence[Model]
    _at: int = 0
    _failed: int = 0

    @property
    def now(self) -> Model:
        """The model that is asked next."""
        return self.models[self._at]

    @property
    def takes(self) -> frozenset[str]:
        """Tools only where all take them: which are offered is settled before it is known who will answer."""
        tools = all("tools" in model.takes for model in self.models)
        return self.now.takes if tools else self.now.takes - {"tools"}

    @property
    def spec(self) -> str:
        return self.now.spec

    @property
    def context_tokens(self) -> int | None:
        return self.now.context_tokens

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """See `llm.model.Model`."""
        try:
            reply = self.now.complete(request, on_text)
        except Retryable as error:
            self._failed += 1
            hopeless = self._failed >= TRIES or (error.retry_after or 0.0) > PATIENCE
            if not hopeless or self._at + 1 == len(self.models):
                raise
            self._at, self._failed = self._at + 1, 0
            raise Retryable(
                f"{error}: going on with {self.spec}", retry_after=0.0, usage=error.usage
            ) from error
        self._failed = 0
        return reply
