"""Research: a ReAct agent that gathers code, bounded, and never empty-handed when it is cut short."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any, cast

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_core.messages import HumanMessage
from langgraph.errors import GraphRecursionError

from services.kit.models.prompts import data_block
from services.kit.telemetry.logs import get_logger
from services.runtime.agents.code_review.code_bank import BankLimits, bank_of, new_code
from services.runtime.agents.code_review.code_tools import CodeTools
from services.runtime.agents.code_review.finding import described
from services.runtime.agents.sast_investigation.middleware import CodeGathering, ResearchLimits, StatelessPrompt
from services.runtime.agents.sast_investigation.policy import SastInvestigationPolicy
from services.runtime.agents.sast_investigation.task import (
    BUDGET_SPENT,
    DONE,
    MODEL_FAILED,
    STEP_LIMIT,
    Gathered,
    ResearchState,
    ResearchTask,
)
from services.runtime.calls.chat_model import ChatModel, is_transient
from services.runtime.errors import BudgetSpent, DependencyAway, ModelFailed, ModelRefused
from services.runtime.routing.calls import left_s, note
from services.runtime.routing.inner import InnerGraph
from services.runtime.routing.waiting import waited_for

log = get_logger()
MAX_RETRY_DELAY_S = 10.0
# What the graph of `create_agent` is, said before there are a model and tools to make it of.
RESEARCH = InnerGraph(frozenset({"__start__", "model", "tools"}), ResearchState)


class Research:
    """The agent, built once; each task goes through it on its own.

    Its steps are checkpointed under the node that runs it, so that a crash costs one of them, and a drained
    run stops between two.
    """

    def __init__(
        self,
        *,
        code: CodeTools,
        model: ChatModel,
        policy: SastInvestigationPolicy,
        retries: int,
        retry_delay_s: float = 0.5,
    ) -> None:
        self._policy = policy
        self._limits = BankLimits(policy.bank_fragments, policy.bank_chars)
        retry: Any = ModelRetryMiddleware(
            max_retries=retries,
            retry_on=is_transient,
            on_failure="error",
            initial_delay=retry_delay_s,
            max_delay=MAX_RETRY_DELAY_S,
        )
        middleware: list[Any] = [
            retry,
            ResearchLimits(),
            StatelessPrompt(code, model, policy),
            CodeGathering(code, self._limits),
        ]
        self.graph = create_agent(
            model.client,
            middleware=middleware,
            state_schema=ResearchState,
            context_schema=ResearchTask,
            name="research",
        )
        RESEARCH.check(self.graph)

    async def gather(self, task: ResearchTask) -> Gathered:
        """Gathers code; at the step limit, the end of the run's time, and where the model fails, returns what there is.

        Raises DependencyAway, whose cost is then this attempt's alone, ServiceFailed; without any code ModelRefused and
        ModelFailed.
        """
        reached: dict[str, Any] = {}
        ended, limited_by, elapsed_before_s = "", "wall_time_s", None
        config: Any = {"recursion_limit": self._policy.research_steps}
        begin: Any = {"messages": [HumanMessage(data_block({"finding": described(task.finding)}))]}
        left = left_s()
        limit = asyncio.timeout(left if math.isfinite(left) else None)
        try:
            async with limit:
                async for values in self.graph.astream(begin, config, context=task, stream_mode="values"):
                    reached = cast("dict[str, Any]", values)
                    if elapsed_before_s is None:
                        elapsed_before_s = reached.get("elapsed_s", 0.0)
        except TimeoutError:
            if not limit.expired():
                _note_calls(reached)
                raise
            ended = BUDGET_SPENT
        except BudgetSpent as spent:
            ended, limited_by = BUDGET_SPENT, spent.limit
        except GraphRecursionError:
            ended = STEP_LIMIT
            log.warning("research cut at its step limit", steps=self._policy.research_steps)
        except DependencyAway as away:
            _charge(away, reached, task)
            raise
        except BaseException as error:
            if not (_is_models(error) and (task.code_bank or reached.get("code_bank"))):
                _note_calls(reached)
                raise
            ended = MODEL_FAILED
        out_of_time = ended == BUDGET_SPENT and limited_by == "wall_time_s"
        _check_not_in_vain(reached, elapsed_before_s or 0.0, task, out_of_time=out_of_time)
        _note_calls(reached)
        return Gathered(
            code_bank=new_code(task.code_bank, bank_of(reached), self._limits),
            fetched_files=list(dict.fromkeys(reached.get("fetched_files") or ())),
            tool_call_history=list(reached.get("tool_call_history") or ()),
            ended=ended or reached.get("ended") or DONE,
            elapsed_before_s=elapsed_before_s or 0.0,
        )


def _check_not_in_vain(
    reached: Mapping[str, Any], elapsed_before_s: float, task: ResearchTask, *, out_of_time: bool
) -> None:
    """Raises the outage that was waited for last, where the time that was left did not do for another try."""
    has_come_on = reached.get("elapsed_s", 0.0) > elapsed_before_s
    if out_of_time and not has_come_on and (last := waited_for(task.node.run.attempts)):
        _charge(last, reached, task)
        raise last


def _is_models(error: BaseException) -> bool:
    """Tells whether the model is what failed; then what was gathered is analysed all the same."""
    if isinstance(error, ModelFailed | ModelRefused):
        log.warning("research cut short by its model", error=error.message)
        return True
    return False


def _charge(away: DependencyAway, reached: Mapping[str, Any], task: ResearchTask) -> None:
    """Has an outage say what to charge: what steps have done is saved under the node, and charged when that ends."""
    away.saved_s, away.unsaved_s = reached.get("elapsed_s", 0.0), task.stopwatch.elapsed_s()
    away.saved_calls = reached.get("calls") or ()


def _note_calls(reached: Mapping[str, Any]) -> None:
    for call in reached.get("calls") or ():
        note(call)
