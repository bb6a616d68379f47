"""Which agents this runtime offers: those whose services are configured."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

from services.kit.client import connect
from services.kit.completions import Completions, Endpoint
from services.runtime.agents.agent import Agent
from services.runtime.agents.code_review.code_tools import CodeTools
from services.runtime.agents.data_chat.graph import DataChat
from services.runtime.agents.data_chat.nodes import DataChatNodes
from services.runtime.agents.data_chat.policy import DataChatPolicy
from services.runtime.agents.sast_investigation.checklist import load_checklists
from services.runtime.agents.sast_investigation.graph import SastInvestigation
from services.runtime.agents.sast_investigation.nodes import SastInvestigationNodes
from services.runtime.agents.sast_investigation.policy import SastInvestigationPolicy
from services.runtime.agents.sast_investigation.research import Research
from services.runtime.agents.sast_triage.graph import SastTriage
from services.runtime.agents.sast_triage.nodes import SastTriageNodes
from services.runtime.agents.sast_triage.policy import SastTriagePolicy
from services.runtime.chat_model import ChatModel
from services.runtime.evaluator_client import EvaluatorClient
from services.runtime.guard_client import GuardClient
from services.runtime.settings import RuntimeSettings
from services.runtime.tool_client import ToolClient


async def open_agents(settings: RuntimeSettings, stack: AsyncExitStack) -> Mapping[str, Agent]:
    """Returns the agents by name, connected to their services for as long as the stack is open."""
    agents: dict[str, Agent] = {"data_chat": await _data_chat(settings, stack)}
    if settings.code_executor_target and settings.evaluator_target:
        agents |= await _code_agents(settings, stack)
    return agents


async def _data_chat(settings: RuntimeSettings, stack: AsyncExitStack) -> DataChat:
    guard = await stack.enter_async_context(connect(settings.guard_target, settings))
    sql = await stack.enter_async_context(connect(settings.sql_executor_target, settings))
    completions = _completions(settings, stack)
    policy = DataChatPolicy()
    nodes = DataChatNodes(
        guard=GuardClient(guard, timeout_s=settings.guard_timeout_s),
        sql=ToolClient(sql, service="SQL executor", timeout_s=settings.tool_timeout_s),
        agent_model=ChatModel(completions, settings.agent_model),
        format_model=ChatModel(completions, settings.format_model),
        policy=policy,
    )
    return DataChat(nodes, policy)


async def _code_agents(settings: RuntimeSettings, stack: AsyncExitStack) -> dict[str, Agent]:
    executor = await stack.enter_async_context(connect(settings.code_executor_target, settings))
    judge = await stack.enter_async_context(connect(settings.evaluator_target, settings))
    code = CodeTools(ToolClient(executor, service="code executor", timeout_s=settings.tool_timeout_s))
    evaluator = EvaluatorClient(judge, timeout_s=settings.evaluator_timeout_s)
    triage_policy = SastTriagePolicy()
    triage_model = ChatModel(_completions(settings, stack), settings.triage_model or settings.agent_model)
    triage = SastTriageNodes(code=code, evaluator=evaluator, model=triage_model, policy=triage_policy)
    investigation = _investigation(settings, stack, code, evaluator)
    return {"sast_triage": SastTriage(triage, triage_policy), "sast_investigation": investigation}


def _investigation(
    settings: RuntimeSettings, stack: AsyncExitStack, code: CodeTools, evaluator: EvaluatorClient
) -> SastInvestigation:
    policy = SastInvestigationPolicy()
    # Research retries in its own middleware, and each attempt is a call of its own.
    research_model = ChatModel(
        _completions(settings, stack, retries=0), settings.research_model or settings.agent_model
    )
    analysis_model = ChatModel(_completions(settings, stack), settings.analysis_model or settings.agent_model)
    nodes = SastInvestigationNodes(
        research=Research(code=code, model=research_model, policy=policy, retries=settings.model_retries),
        analysis_model=analysis_model,
        evaluator=evaluator,
        checklists=load_checklists(),
        policy=policy,
    )
    return SastInvestigation(nodes, policy)


def _completions(settings: RuntimeSettings, stack: AsyncExitStack, *, retries: int | None = None) -> Completions:
    endpoint = Endpoint(
        settings.model_base_url,
        settings.model_api_key.get_secret_value(),
        settings.model_timeout_s,
        settings.model_retries if retries is None else retries,
    )
    completions = Completions(endpoint)
    stack.push_async_callback(completions.close)
    return completions
