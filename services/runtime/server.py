"""Composition root of the runtime."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from uuid import uuid4

from signalbox.v1.maintenance_pb2_grpc import add_MaintenanceServiceServicer_to_server
from signalbox.v1.runs_pb2_grpc import add_RunServiceServicer_to_server
from signalbox.v1.threads_pb2_grpc import add_ThreadServiceServicer_to_server

from services.kit.identity import GatewayTokenVerifier, RunTokenMinter
from services.kit.server import Registration, Service
from services.runtime.agents.registry import open_agents
from services.runtime.callers import Callers
from services.runtime.engine.clock import ClockWatch
from services.runtime.engine.database import open_pool
from services.runtime.engine.engine import Engine, EngineLimits
from services.runtime.engine.events import EventStream
from services.runtime.engine.execution import Dependencies
from services.runtime.engine.history import CheckpointHistory
from services.runtime.engine.ledger import Ledger
from services.runtime.engine.liveness import LivenessLock
from services.runtime.engine.quota import CallerQuota
from services.runtime.engine.retention import Pruner, pruning
from services.runtime.engine.serde import make_serde
from services.runtime.engine.store import RunStore
from services.runtime.engine.threads import ThreadStore
from services.runtime.maintenance_servicer import MaintenanceServicer
from services.runtime.servicer import RunServicer
from services.runtime.settings import RuntimeSettings
from services.runtime.thread_servicer import ThreadServicer


async def build(settings: RuntimeSettings, stack: AsyncExitStack) -> Service:
    """Wires the runtime: database, liveness, agents, engine, servicer."""
    dsn = settings.database_dsn.get_secret_value()
    owner = f"{socket.gethostname()}-{uuid4().hex[:12]}"
    pool = await stack.enter_async_context(
        open_pool(dsn, size=settings.database_pool_size, prepare=settings.database_prepare)
    )
    liveness_dsn = settings.liveness_dsn.get_secret_value() if settings.liveness_dsn else dsn
    clock = ClockWatch(settings.clock_tolerance_s)
    await stack.enter_async_context(LivenessLock(liveness_dsn, owner, clock).held())
    agents = await open_agents(settings, stack)
    quota = CallerQuota(settings.caller_runs_at_once, settings.caller_runs_per_minute)
    store = RunStore(pool, owner=owner, lease_s=settings.lease_s, quota=quota)
    shared = Dependencies(
        pool=pool,
        serde=make_serde(),
        store=store,
        events=EventStream(pool),
        tokens=RunTokenMinter(settings.run_token_private_key_file.read_text()),
        agents=agents,
        graphs={name: agent.graph.compile() for name, agent in agents.items()},
    )
    limits = EngineLimits(
        settings.max_concurrent_runs,
        settings.lease_s,
        settings.sweep_interval_s,
        settings.drain_s,
        settings.max_idle_claims,
    )
    engine = Engine(shared, limits, clock)
    await stack.enter_async_context(engine.working())
    pruner = Pruner(pool, CheckpointHistory(pool, shared.serde), settings.retention, batch=settings.retention_batch)
    await stack.enter_async_context(pruning(pruner, interval_s=settings.retention_interval_s))
    verifier = GatewayTokenVerifier(settings.caller_token_public_key_file.read_text())
    servicer = RunServicer(engine, store, pool, agents, verifier, clock)
    routers = {router.name: router for agent in agents.values() for router in agent.graph.routers}
    callers = Callers(verifier, clock)
    maintenance = MaintenanceServicer(callers, pruner, Ledger(pool), routers)
    versions = {name: agent.graph.version for name, agent in agents.items()}
    threads = ThreadServicer(callers, ThreadStore(pool, shared.serde, store, versions))
    registrations = [
        Registration(add_RunServiceServicer_to_server, servicer, "signalbox.v1.RunService"),
        Registration(add_ThreadServiceServicer_to_server, threads, "signalbox.v1.ThreadService"),
        Registration(add_MaintenanceServiceServicer_to_server, maintenance, "signalbox.v1.MaintenanceService"),
    ]
    return Service(registrations, drain=engine.drain)
