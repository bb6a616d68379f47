"""Composition root of the MCP executor."""

from __future__ import annotations

from contextlib import AsyncExitStack

from signalbox.v1 import tools_pb2_grpc

from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.settings import refuse
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.names import AUDIENCE_MCP_EXECUTOR
from services.kit.text.policy_file import PolicyFileError, load_policy_file
from services.kit.tools.executor import SERVICE_NAME
from services.kit.wire.needs import needed_text
from services.kit.wire.server import Registration, Service
from services.mcp_executor.accepted import Accepted, AcceptedFileError, read_accepted
from services.mcp_executor.executor import AcceptedTool, McpToolExecutor
from services.mcp_executor.metrics import LEFT_OUT
from services.mcp_executor.offer import offered
from services.mcp_executor.schemas import ResultChecks
from services.mcp_executor.servers import McpServers
from services.mcp_executor.settings import McpExecutorSettings
from services.mcp_executor.tool_server import ToolServer

log = get_logger()


async def build(settings: McpExecutorSettings, stack: AsyncExitStack) -> Service:
    """Builds the service; it starts whether or not the servers are there."""
    servers, accepted = _files(settings)
    tools: list[AcceptedTool] = []
    checks = ResultChecks()
    left_bytes = settings.max_message_bytes
    for name, server in servers.servers.items():
        offer = offered(name, server, accepted.get(name, {}), most_bytes=left_bytes)
        left_bytes -= offer.size_bytes
        for place, why in offer.left_out.items():
            log.warning("tool is not offered", tool=place, why=why)
        LEFT_OUT.labels(name).set(len(offer.left_out))
        there = ToolServer(name, server, {tool: each for tool, each, _ in offer.tools.values()}, settings, checks)
        stack.push_async_callback(there.aclose)
        tools += [AcceptedTool(called, there, *each) for called, each in offer.tools.items()]
    public_key = await needed_text(settings.run_token_public_key_file)
    verifier = RunTokenVerifier(public_key, AUDIENCE_MCP_EXECUTOR)
    servicer = McpToolExecutor(tools, verifier)
    return Service([Registration(tools_pb2_grpc.add_ToolExecutorServiceServicer_to_server, servicer, SERVICE_NAME)])


def _files(settings: McpExecutorSettings) -> tuple[McpServers, Accepted]:
    try:
        return load_policy_file(settings.mcp_servers, McpServers), read_accepted(settings.accepted_file)
    except (PolicyFileError, AcceptedFileError) as error:
        refuse(str(error).splitlines())
