"""Composition root of the runtime."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from uuid import uuid4

import psycopg
from signalbox.v1.agents_pb2_grpc import add_AgentServiceServicer_to_server
from signalbox.v1.maintenance_pb2_grpc import add_MaintenanceServiceServicer_to_server
from signalbox.v1.questions_pb2_grpc import add_QuestionServiceServicer_to_server
from signalbox.v1.runs_pb2_grpc import add_RunServiceServicer_to_server
from signalbox.v1.store_pb2_grpc import add_StoreServiceServicer_to_server
from signalbox.v1.threads_pb2_grpc import add_ThreadServiceServicer_to_server
from signalbox_routing.facts import Record

from services.kit.identity.batch_tokens import BatchTokenVerifier
from services.kit.identity.caller_tokens import CallerTokenVerifier
from services.kit.identity.run_tokens import RunTokenMinter
from services.kit.postgres import leads_through_pooler
from services.kit.settings import refuse
from services.kit.telemetry.logs import get_logger
from services.kit.wire.needs import needed, needed_text
from services.kit.wire.server import Registration, Service
from services.runtime.agents.limits_in_force import LimitSource, limits_of
from services.runtime.agents.policies import InvalidPoliciesError, Limits
from services.runtime.agents.registry import (
    limits_in_force,
    limits_in_shadow,
    open_agents,
    open_connections,
    open_hosted,
    prompt_problems,
    unknown_roles,
)
from services.runtime.api.agent_directory import AgentDirectory, offers_of
from services.runtime.api.agent_servicer import AgentServicer
from services.runtime.api.answer_screening import GuardedAnswers
from services.runtime.api.callers import Callers
from services.runtime.api.maintenance_servicer import MaintenanceServicer
from services.runtime.api.question_servicer import QuestionServicer
from services.runtime.api.run_servicer import RunServicer
from services.runtime.api.store_servicer import StoreServicer
from services.runtime.api.thread_servicer import ThreadServicer
from services.runtime.calls.prices import Prices
from services.runtime.engine.admission import Admission
from services.runtime.engine.carrier import Carrier
from services.runtime.engine.clock import ClockWatch
from services.runtime.engine.database import open_pools
from services.runtime.engine.engine import Engine, EngineLimits
from services.runtime.engine.events import EventStream
from services.runtime.engine.execution import Dependencies
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.limit_changes import Deployment, LimitChanges, LimitRecord
from services.runtime.engine.liveness import LivenessLock
from services.runtime.engine.loop_lag import measuring_loop_lag
from services.runtime.engine.offers import OfferedByOthersError, Offers
from services.runtime.engine.pins import Pins
from services.runtime.engine.questions import Questions
from services.runtime.engine.quota import CallerQuota, TokensSpent
from services.runtime.engine.retention import Pruner, pruning
from services.runtime.engine.retention_policy import DEFAULT
from services.runtime.engine.run_states import RunStates
from services.runtime.engine.serde import make_serde
from services.runtime.engine.store import RunStore
from services.runtime.engine.store_policy import StorePolicies
from services.runtime.engine.threads import ThreadStore
from services.runtime.engine.upkeep import Upkeep
from services.runtime.engine.watches import Watches
from services.runtime.errors import DatabaseAway
from services.runtime.hosted.caller_store import CallerStore
from services.runtime.hosted.containment import contain
from services.runtime.hosted.definition import HostedDefinition
from services.runtime.hosted.executor_catalogs import ExecutorCatalogs
from services.runtime.hosted.langgraph_json import InvalidAgentsError
from services.runtime.hosted.store_index import compares_vectors
from services.runtime.metrics import count_from_zero, tell_versions
from services.runtime.routing.shadow import Shadow
from services.runtime.settings import POOLER_IN_THE_WAY, RuntimeSettings

DATABASE = "the platform database"


log = get_logger()


async def _hosted(
    settings: RuntimeSettings, stack: AsyncExitStack, catalogs: ExecutorCatalogs
) -> list[HostedDefinition]:
    """Returns the graphs that teams have brought; ends the program when they can't be hosted."""
    try:
        hosted = await open_hosted(settings, stack, catalogs)
    except InvalidAgentsError as error:
        refuse(error.problems)
    if hosted:
        contain(asyncio.get_running_loop(), threads=settings.sync_node_threads)
    return hosted


def checked_limits(
    settings: RuntimeSettings, hosted: Sequence[HostedDefinition] = ()
) -> tuple[dict[str, Limits], dict[str, Record]]:
    """Returns the limits of every agent, and those in shadow; ends the program when settings are wrong about them."""
    problems = prompt_problems(settings) + unknown_roles(settings) + _unknown_stores(settings, hosted)
    try:
        limits = limits_in_force(settings, hosted)
        shadow = limits_in_shadow(settings.shadow_policies, limits, hosted)
    except InvalidPoliciesError as error:
        problems += error.problems
    else:
        problems += _unscreenable(settings, limits)
    if problems:
        refuse(problems)
    return limits, shadow


def _unknown_stores(settings: RuntimeSettings, hosted: Sequence[HostedDefinition]) -> list[str]:
    """Returns for which names a store is set up that no graph here has."""
    known = [DEFAULT, *sorted(each.name for each in hosted)]
    return [
        f"SIGNALBOX_STORES [{name}]: no graph that is loaded here is called so; there are {', '.join(known)}"
        for name in settings.stores
        if name not in known
    ]


def _unscreenable(settings: RuntimeSettings, limits: Mapping[str, Limits]) -> list[str]:
    """Returns for which graphs the guard is to screen inputs, where nobody can ask it."""
    if settings.guard_target and settings.run_token_private_key_file:
        return []
    return [
        f"{name}.screened_input: the guard is asked under a run token; set SIGNALBOX_GUARD_TARGET and "
        "SIGNALBOX_RUN_TOKEN_PRIVATE_KEY_FILE"
        for name, each in limits.items()
        if getattr(each.policy, "screened_input", "")
    ]


async def _enter(offers: Offers) -> None:
    """Writes down what this pool offers; ends the program when that is another's."""
    try:
        await offers.enter()
    except OfferedByOthersError as error:
        refuse(error.problems)


async def _minter(settings: RuntimeSettings) -> RunTokenMinter | None:
    file = settings.run_token_private_key_file
    return RunTokenMinter(await needed_text(file), ttl_s=settings.run_token_ttl_s) if file else None


async def _batches(settings: RuntimeSettings) -> BatchTokenVerifier | None:
    file = settings.batch_token_public_key_file
    return BatchTokenVerifier(await needed_text(file)) if file else None


async def build(settings: RuntimeSettings, stack: AsyncExitStack) -> Service:
    """Wires the runtime: database, liveness, agents, engine, servicer."""
    connections = await open_connections(settings, stack)
    hosted = await _hosted(settings, stack, ExecutorCatalogs(connections, lambda: _minter(settings)))
    limits, shadow = checked_limits(settings, hosted)
    dsn = settings.database_dsn.get_secret_value()
    owner = f"{socket.gethostname()}-{uuid4().hex[:12]}"
    clock = ClockWatch(settings.clock_tolerance_s)
    liveness = LivenessLock(settings.session_dsn, owner, clock)
    away = (psycopg.OperationalError,)
    # First the one connection, which says at once what is wrong: a pool would try by itself, for long.
    pooled = await needed(DATABASE, lambda: leads_through_pooler(dsn), absent=away)
    if pooled and settings.direct_dsn is None:
        refuse([POOLER_IN_THE_WAY])
    await needed(DATABASE, lambda: stack.enter_async_context(liveness.held()), absent=away)
    pools = await needed(
        DATABASE,
        lambda: stack.enter_async_context(
            open_pools(dsn, size=settings.database_pool_size, prepare=settings.database_prepare and not pooled)
        ),
        absent=away,
    )
    events = EventStream(pools.calls)
    watches = Watches(pools, events, owner)
    liveness.on_news = watches.news
    if any(each.store_index for each in hosted) and not await compares_vectors(pools.upkeep):
        log.warning("stores are not searched by meaning: the database has no pgvector (`CREATE EXTENSION vector`)")
        for each in hosted:
            each.store_index = None
    agents = open_agents(settings, limits, connections, hosted)
    count_from_zero((agent.in_force, agent.definition.outcomes) for agent in agents.values())
    tell_versions((agent.in_force, agent.limits.prompts) for agent in agents.values())
    offers = Offers(
        pools.upkeep, offers_of(agents, settings.pool), pool_name=settings.pool, succeeds=settings.pool_succeeds
    )
    await _enter(offers)
    await stack.enter_async_context(offers.keeping())
    given = LimitSource.FILE if settings.policy_file else LimitSource.SETTING
    record = LimitRecord(
        pools.upkeep,
        [limits_of(agent, given) for agent in agents.values()],
        Deployment(
            version("signalbox"), settings.release_revision, settings.changed_by.strip(), settings.change_reason.strip()
        ),
    )
    await needed(DATABASE, record.tell, absent=(*away, DatabaseAway))
    await stack.enter_async_context(record.keeping())
    pins = Pins(pools.steps, {name: agent.limits for name, agent in agents.items()})
    quota = CallerQuota(
        settings.caller_runs_at_once,
        settings.caller_runs_per_minute,
        settings.caller_tokens_per_day,
        settings.caller_runs_waiting,
    )
    store = RunStore(pools, pins, owner=owner, lease_s=settings.lease_s, quota=quota)
    upkeep = Upkeep(pools, pins, owner=owner, lease_s=settings.lease_s, suspect_after=settings.max_idle_claims)
    tokens = await _minter(settings)
    tokens_spent, prices = TokensSpent(), Prices(settings.model_prices, settings.price_currency)
    serde = make_serde(set().union(*(each.types for each in hosted)))
    graphs = {name: agent.outline for name, agent in agents.items()}
    carrier = Carrier(pools.upkeep, serde, graphs, lambda: offers.lost)
    await stack.enter_async_context(carrier.looking(interval_s=settings.sweep_interval_s))
    shared = Dependencies(
        pool=pools.steps,
        serde=serde,
        store=store,
        questions=Questions(pools.calls, GuardedAnswers(agents, tokens, tokens_spent, prices) if tokens else None),
        events=events,
        tokens=tokens,
        agents=agents,
        pins=pins,
        carrier=carrier,
        offers=offers,
        tokens_spent=tokens_spent,
        prices=prices,
        stores=StorePolicies(settings.stores),
        shadow=Shadow((agent.in_force for agent in agents.values()), shadow),
    )
    engine_limits = EngineLimits(
        settings.max_concurrent_runs,
        settings.lease_s,
        settings.sweep_interval_s,
        settings.drain_s,
    )
    admission = Admission(pools, most_calls=settings.max_waiting_calls, most_runs=settings.max_pending_runs)
    engine = Engine(shared, upkeep, engine_limits, admission=admission, clock=clock, settled=lambda: liveness.settled)
    liveness.on_work = engine.look
    stack.enter_context(measuring_loop_lag(lambda: engine.busy))
    await stack.enter_async_context(watches.keeping())
    await stack.enter_async_context(engine.working())
    # It reads histories while it holds a connection of its own: out of one small pool, it would wait for itself.
    history = CheckpointHistory(pools.steps, shared.serde)
    pruner = Pruner(
        pools.calls,
        history,
        settings.retention,
        batch=settings.retention_batch,
        pool_name=settings.pool,
        agents=agents,
    )
    await stack.enter_async_context(pruning(pruner, interval_s=settings.retention_interval_s))
    verifier = CallerTokenVerifier(await needed_text(settings.caller_token_public_key_file))
    callers = Callers(verifier, clock, admission, await _batches(settings))
    # Callers' connections for what callers ask.
    directory = AgentDirectory(agents, Offers(pools.calls), settings.pool, carrier.is_here)
    servicer = RunServicer(
        engine, store, pools.calls, directory, callers, pins, prices, records_all=settings.record_runs
    )
    routers = {router.name: router for agent in agents.values() for router in agent.in_force.routers}
    maintenance = MaintenanceServicer(callers, pruner, Ledger(pools.calls), routers, LimitChanges(pools.calls))
    threads = ThreadServicer(
        callers,
        ThreadStore(pools.calls, shared.serde, store, agents),
        RunStates(pools.calls, shared.serde, store, agents),
        engine.tell_of_fork,
    )
    questions = QuestionServicer(callers, engine, shared.questions)
    listing = AgentServicer(callers, directory)
    stores = StoreServicer(callers, CallerStore(pools.calls, shared.stores))
    registrations = [
        Registration(add_RunServiceServicer_to_server, servicer, "signalbox.v1.RunService"),
        Registration(add_AgentServiceServicer_to_server, listing, "signalbox.v1.AgentService"),
        Registration(add_ThreadServiceServicer_to_server, threads, "signalbox.v1.ThreadService"),
        Registration(add_QuestionServiceServicer_to_server, questions, "signalbox.v1.QuestionService"),
        Registration(add_StoreServiceServicer_to_server, stores, "signalbox.v1.StoreService"),
        Registration(add_MaintenanceServiceServicer_to_server, maintenance, "signalbox.v1.MaintenanceService"),
    ]
    return Service(registrations, drain=engine.drain)
