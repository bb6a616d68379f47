"""Composition root of the code executor."""

from __future__ import annotations

import asyncio
import shutil
import sysconfig
from contextlib import AsyncExitStack
from pathlib import Path

from signalbox.v1 import tools_pb2_grpc

from services.code_executor.catalogue import Commits, code_tools
from services.code_executor.fetching import Fetching
from services.code_executor.git import Git, GitOptions
from services.code_executor.lookup import Symbols
from services.code_executor.readings import Readings
from services.code_executor.repositories import Repositories
from services.code_executor.ripgrep import Ripgrep
from services.code_executor.searching import Searching
from services.code_executor.settings import CodeExecutorSettings
from services.code_executor.snapshots import Snapshots
from services.code_executor.sources import SourcePolicy
from services.code_executor.store import Store
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.telemetry.names import AUDIENCE_CODE_EXECUTOR
from services.kit.tools.executor import SERVICE_NAME, ReadingToolExecutor
from services.kit.wire.needs import needed_text
from services.kit.wire.server import Registration, Service


async def build(settings: CodeExecutorSettings, stack: AsyncExitStack) -> Service:
    """Builds the service. Raises FileNotFoundError when git or ripgrep is missing."""
    limits = settings.limits()
    # Resolved once: a relative cache folder would mean another place to each program that is given it.
    cache = await asyncio.to_thread(_made, settings.code_cache_dir)
    options = GitOptions(settings.code_git_credentials, settings.code_git_ca, settings.code_git_proxy)
    git = Git(_program(settings.code_git), cache / "git", options)
    await git.prepare()
    store = Store(cache, settings.code_cache_bytes)
    await asyncio.to_thread(store.prepare)
    stack.push_async_callback(store.aclose)
    ripgrep = Ripgrep(_ripgrep(settings.code_ripgrep), limits)
    symbols = Symbols(ripgrep, limits)
    tools = code_tools(
        Commits(
            SourcePolicy(settings.code_local_roots, settings.code_url_prefixes),
            Snapshots(git, store, Repositories(git, store, limits), limits),
        ),
        Fetching(symbols, limits),
        Searching(ripgrep, limits),
        Readings(symbols.of, limits),
    )
    public_key = await needed_text(settings.run_token_public_key_file)
    servicer = ReadingToolExecutor(tools, RunTokenVerifier(public_key, AUDIENCE_CODE_EXECUTOR))
    registration = Registration(tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server, servicer, SERVICE_NAME)
    return Service([registration])


def _made(cache: Path) -> Path:
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    return cache.resolve()


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"the program {name!r} is not there; install it, or name it in the settings")
    return Path(found).absolute()


def _ripgrep(name: str) -> Path:
    installed = Path(sysconfig.get_path("scripts")) / "rg"
    return installed if not name and installed.is_file() else _program(name or "rg")
