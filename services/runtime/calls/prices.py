"""What models' tokens cost, for an estimate: the providers' bills are theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.kit.telemetry.logs import get_logger
from services.runtime.calls.model_price import ModelPrice
from services.runtime.metrics import AGENT_COST, AGENT_TOKENS, AGENT_TOKENS_UNPRICED
from services.runtime.routing.recorder import CallRecord

log = get_logger()
TOKENS_PER_PRICE = 1_000_000


class Prices:
    """The prices of models by the name that their endpoint gives them."""

    def __init__(self, prices: Mapping[str, ModelPrice] | None = None) -> None:
        self._prices = dict(prices or {})
        self._missed: set[str] = set()

    def count(self, agent: str, calls: Iterable[CallRecord]) -> None:
        """Counts the tokens of an agent's calls, and what they cost as far as their models have prices."""
        for call in calls:
            given, made = call["input_tokens"], call["output_tokens"]
            if not given and not made:
                continue
            AGENT_TOKENS.labels(agent, "input").inc(given)
            AGENT_TOKENS.labels(agent, "output").inc(made)
            if price := self._prices.get(call["name"]):
                AGENT_COST.labels(agent).inc((given * price.input + made * price.output) / TOKENS_PER_PRICE)
            else:
                AGENT_TOKENS_UNPRICED.labels(agent).inc(given + made)
                self._miss(call["name"])

    def _miss(self, model: str) -> None:
        if self._prices and model not in self._missed:
            self._missed.add(model)
            log.warning("a model has no price; its tokens are counted as unpriced", model=model)
