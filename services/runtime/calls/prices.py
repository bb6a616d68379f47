"""What models' tokens cost, for an estimate: the providers' bills are theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from services.kit.telemetry.logs import get_logger
from services.runtime.calls.model_price import ModelPrice
from services.runtime.metrics import AGENT_COST, AGENT_TOKENS, AGENT_TOKENS_UNPRICED, COST_BY_MODEL, TOKENS_BY_MODEL
from services.runtime.routing.recorder import CallRecord

log = get_logger()
# An endpoint may name its models as it likes.
MOST_MODELS = 20


@dataclass
class ModelTokens:
    """What a model was asked for: calls that took tokens, and these; `cached` are among those that were given."""

    model: str
    calls: int = 0
    given: int = 0
    made: int = 0
    cached: int = 0


class Prices:
    """The prices of models by the name that their endpoint gives them, and their currency."""

    def __init__(self, prices: Mapping[str, ModelPrice] | None = None, currency: str = "") -> None:
        self._prices = dict(prices or {})
        self.currency = currency
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
                cost = price.cost(given, made, call.get("cached_tokens", 0))
                AGENT_COST.labels(agent).inc(cost)
                COST_BY_MODEL.labels(model).inc(cost)
            else:
                AGENT_TOKENS_UNPRICED.labels(agent).inc(given + made)
                self._miss(call["name"])

    def cost(self, tokens: ModelTokens) -> float | None:
        """Returns what tokens of a model cost; None where it has no price."""
        price = self._prices.get(tokens.model)
        return price.cost(tokens.given, tokens.made, tokens.cached) if price else None

    def _label(self, model: str) -> str:
        """Returns what a model is counted as: by its name, as long as there are not too many."""
        if len(self._counted) < MOST_MODELS:
            self._counted.add(model)
        return model if model in self._counted else "other"

    def _miss(self, model: str) -> None:
        if self._prices and model not in self._missed:
            self._missed.add(model)
            log.warning("a model has no price; its tokens are counted as unpriced", model=model)


def tokens_by_model(calls: Iterable[CallRecord]) -> Sequence[ModelTokens]:
    """Returns the tokens of calls by model, the most first."""
    found: dict[str, ModelTokens] = {}
    for call in calls:
        given, made = int(call["input_tokens"]), int(call["output_tokens"])
        if given or made:
            each = found.setdefault(call["name"], ModelTokens(call["name"]))
            each.calls += 1
            each.given += given
            each.made += made
            each.cached += call.get("cached_tokens", 0)
    return sorted(found.values(), key=lambda each: each.given + each.made, reverse=True)
