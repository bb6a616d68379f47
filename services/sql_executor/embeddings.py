"""Embeddings from any OpenAI-compatible endpoint.

Imported only where an endpoint is set: the library behind it is half of what the executor takes to start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import openai

from services.kit.models.call import model_call
from services.kit.wire import deadline
from services.sql_executor.errors import EmbeddingsUnavailable

OPERATION = "embeddings"
BATCH = 64  # inputs per request: small servers refuse hundreds


class EmbeddingsClient:
    """Asks one embeddings model; the caller closes it."""

    def __init__(self, *, base_url: str, api_key: str, model: str, timeout_s: float, retries: int = 1) -> None:
        self.model = model
        self._timeout_s = timeout_s
        self._client = openai.AsyncOpenAI(base_url=base_url, api_key=api_key or "none", max_retries=retries)

    async def embed(self, purpose: str, texts: Sequence[str]) -> list[list[float]]:
        """Returns one vector per text, in order, all of one length; raises EmbeddingsUnavailable."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), BATCH):
            vectors += await self._embed_batch(purpose, texts[start : start + BATCH])
        if len({len(vector) for vector in vectors}) > 1:
            raise EmbeddingsUnavailable(
                f"the embeddings model {self.model!r} answered with vectors of different lengths"
            )
        return vectors

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    async def _embed_batch(self, purpose: str, texts: Sequence[str]) -> list[list[float]]:
        try:
            with model_call(OPERATION, purpose, self.model):
                return await self._ask(texts)
        except openai.OpenAIError as error:
            raise EmbeddingsUnavailable(
                f"the embeddings model {self.model!r} did not answer: {type(error).__name__}"
            ) from error

    async def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        # asked for as floats: the SDK's own default, base64, is not understood by every server
        answer = await self._client.embeddings.create(
            model=self.model, input=list(texts), encoding_format="float", timeout=deadline.remaining(self._timeout_s)
        )
        vectors = [each.embedding for each in sorted(answer.data or [], key=lambda each: each.index)]
        if len(vectors) != len(texts):
            raise EmbeddingsUnavailable(
                f"the embeddings model {self.model!r} answered with {len(vectors)} vectors for {len(texts)} texts"
            )
        for vector in vectors:
            if not vector or not all(map(math.isfinite, vector)) or not any(vector):
                raise EmbeddingsUnavailable(
                    f"the embeddings model {self.model!r} answered with an empty or broken vector"
                )
        return vectors
