"""What models' tokens cost, for an estimate: the providers' bills are theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.kit.telemetry.logs import get_logger
from services.runtime.calls.model_price import ModelPrice
from services.runtime.metrics import AGENT_COST, AGENT_TOKENS, AGENT_TOKENS_UNPRICED, COST_BY_MODEL, TOKENS_BY_MODEL
from services.runtime.routing.recorder import CallRecord

log = get_logger()
TOKENS_PER_PRICE = 1_000_000
# An endpoint may name its models as it likes.
MOST_MODELS = 20


class Prices:
    """The prices of models by the name that their endpoint gives them."""

    def __init__(self, prices: Mapping[str, ModelPrice] | None = None) -> None:
        self._prices = dict(prices or {})
        self._missed: set[str] = set()
        self._counted: set[str] = set()

    def count(self, agent: str, calls: Iterable[CallRecord]) -> None:
        """Counts the tokens of an agent's calls, and what they cost as far as their models have prices."""
        for call in calls:
            given, made = call["input_tokens"], call["output_tokens"]
            if not given and not made:
                continue
            AGENT_TOKENS.labels(agent, "input").inc(given)
            AGENT_TOKENS.labels(agent, "output").inc(made)
            model = self._label(call["name"])
            TOKENS_BY_MODEL.labels(model).inc(given + made)
            if price := self._prices.get(call["name"]):
                cost = (given * price.input + made * price.output) / TOKENS_PER_PRICE
                AGENT_COST.labels(agent).inc(cost)
                COST_BY_MODEL.labels(model).inc(cost)
            else:
                AGENT_TOKENS_UNPRICED.labels(agent).inc(given + made)
                self._miss(call["name"])

    def _label(self, model: str) -> str:
        """Returns what a model is counted as: by its name, as long as there are not too many."""
        if len(self._counted) < MOST_MODELS:
            self._counted.add(model)
        return model if model in self._counted else "other"

    def _miss(self, model: str) -> None:
        if self._prices and model not in self._missed:
            self._missed.add(model)
            log.warning("a model has no price; its tokens are counted as unpriced", model=model)
