"""Has what people answer in words of their own screened, as what a run was asked is: a model will read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from signalbox.v1 import guard_pb2

from services.kit.identity.caller import Caller, RunClaims
from services.kit.identity.run_tokens import RunTokenMinter
from services.runtime.agents.offered import Offered
from services.runtime.agents.screening import refusal
from services.runtime.calls.prices import Prices
from services.runtime.engine.questions import WordsOfRun
from services.runtime.engine.quota import TokensSpent
from services.runtime.errors import AnswerBlocked, AnswerUnscreened, DependencyAway, GuardFailed
from services.runtime.routing.calls import collecting
from services.runtime.routing.recorder import CallRecord
from services.runtime.routing.run_context import RunContext

# As the guard's proto has it.
MOST_TURNS = 20
LONGEST_TEXT = 4000


class GuardedAnswers:
    """Asks the guard as whoever answers; what comes of no use to the run is charged to them."""

    def __init__(
        self, agents: Mapping[str, Offered], tokens: RunTokenMinter, tokens_spent: TokensSpent, prices: Prices
    ) -> None:
        self._agents = agents
        self._tokens = tokens
        self._tokens_spent = tokens_spent
        self._prices = prices

    async def screen(self, caller: Caller, words: WordsOfRun, answer: str) -> list[CallRecord]:
        """Returns the calls that it took to have an answer allowed. Raises AnswerBlocked, AnswerUnscreened."""
        agent = self._agents.get(words.agent)
        if agent is None:
            raise AnswerUnscreened(f"the agent {words.agent} is not offered here; ask another replica")
        metadata = {"run_id": words.run_id}
        with collecting() as calls:
            try:
                screening = await agent.guard.screen(
                    self._run(caller, words),
                    answer,
                    list(turns_of(agent.words_of(words.input), words.asked))[-MOST_TURNS:],
                    guard_pb2.TEXT_KIND_ANSWER,
                )
            except (DependencyAway, GuardFailed) as away:
                self.charge(caller, words.agent, calls)
                raise AnswerUnscreened(
                    f"the guard gives no verdict on the answer ({away.cause}); answer again later",
                    metadata={**metadata, "cause": away.cause},
                ) from away
        if not screening.allowed:
            self.charge(caller, words.agent, calls)
            raise AnswerBlocked(refusal("answer", screening.reason), metadata={**metadata, "reason": screening.reason})
        return calls

    def charge(self, caller: Caller, agent: str, calls: list[CallRecord]) -> None:
        """Charges whoever gave an answer that was not taken with the calls of its screening."""
        self._tokens_spent.add(caller.subject, sum(call["input_tokens"] + call["output_tokens"] for call in calls))
        self._prices.count(agent, calls)

    def _run(self, caller: Caller, words: WordsOfRun) -> RunContext:
        claims = RunClaims(caller, words.run_id, words.agent, frozenset(), words.epoch)
        return RunContext(
            words.run_id,
            words.correlation_id,
            caller,
            words.epoch,
            lambda audience: self._tokens.mint(claims, audience),
        )


def turns_of(said: str, asked: list[list[str]]) -> Iterator[guard_pb2.ScreenedTurn]:
    """Yields what was said, each time with what the run asked then."""
    for question, answer in asked:
        if said:
            yield guard_pb2.ScreenedTurn(question=said[:LONGEST_TEXT], answer=question[:LONGEST_TEXT])
        said = answer
