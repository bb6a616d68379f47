"""What the guard is made of."""

from __future__ import annotations

from contextlib import AsyncExitStack

from signalbox.v1 import guard_pb2, guard_pb2_grpc

from services.guard.screen import DeterministicScreen
from services.guard.screener import ModelPolicy, Screener
from services.guard.servicer import GuardServicer
from services.guard.settings import GuardSettings
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.models.chain import ModelChain
from services.kit.models.prompt_files import InvalidPromptsError, prompts_digest, use_prompts
from services.kit.models.verdict_model import ModelClient
from services.kit.settings import refuse
from services.kit.telemetry.names import AUDIENCE_GUARD
from services.kit.wire.needs import needed_text
from services.kit.wire.server import Registration, Service

SERVICE = guard_pb2.DESCRIPTOR.services_by_name["GuardService"].full_name


async def build(settings: GuardSettings, stack: AsyncExitStack) -> Service:
    """Puts the guard together; the model's connections close with the stack."""
    try:
        use_prompts(settings.prompts_dir, [__package__])
    except InvalidPromptsError as error:
        refuse(error.problems)
    parameters = settings.model
    # Each call of the model is counted where a verdict is asked for, and repeated there.
    chain = ModelChain("guard", parameters, timeout_s=settings.model_timeout_s, retries=0)
    model = ModelClient(chain, parameters.model)
    stack.push_async_callback(model.close)
    policy = ModelPolicy(
        parameters.model,
        settings.model_timeout_s,
        settings.model_max_tokens,
        settings.model_retries,
        prompts_digest([__package__]),
    )
    screener = Screener(DeterministicScreen(settings.restricted_tables, settings.owner_columns), model, policy)
    verifier = RunTokenVerifier(await needed_text(settings.run_token_public_key_file), AUDIENCE_GUARD)
    servicer = GuardServicer(verifier, screener)
    return Service([Registration(guard_pb2_grpc.add_GuardServiceServicer_to_server, servicer, SERVICE)])
