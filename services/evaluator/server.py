"""What the evaluator is made of."""

from __future__ import annotations

from contextlib import AsyncExitStack

from signalbox.v1 import evaluator_pb2, evaluator_pb2_grpc

from services.evaluator.evaluator import Evaluator
from services.evaluator.judge import Judge
from services.evaluator.servicer import EvaluatorServicer
from services.evaluator.settings import EvaluatorSettings
from services.kit.identity.run_tokens import RunTokenVerifier
from services.kit.models.chain import ModelChain
from services.kit.models.prompt_files import InvalidPromptsError, prompts_digest, use_prompts
from services.kit.models.verdict_model import ModelClient
from services.kit.settings import refuse
from services.kit.telemetry.evaluations import export_results
from services.kit.telemetry.names import AUDIENCE_EVALUATOR
from services.kit.wire.needs import needed_text
from services.kit.wire.server import Registration, Service

SERVICE = evaluator_pb2.DESCRIPTOR.services_by_name["EvaluatorService"].full_name


async def build(settings: EvaluatorSettings, stack: AsyncExitStack) -> Service:
    """Puts the evaluator together; what it holds closes with the stack."""
    export_results("evaluator", settings.otlp_endpoint, stack)
    try:
        use_prompts(settings.prompts_dir, [__package__])
    except InvalidPromptsError as error:
        refuse(error.problems)
    parameters = settings.model
    chain = ModelChain("evaluator", parameters, timeout_s=settings.model_timeout_s, retries=settings.model_retries)
    model = ModelClient(chain, parameters.model)
    stack.push_async_callback(model.close)
    judge = Judge(model, max_tokens=settings.model_max_tokens, prompts=prompts_digest([__package__]))
    evaluator = Evaluator(judge, prompt_code_characters=settings.prompt_code_characters)
    verifier = RunTokenVerifier(await needed_text(settings.run_token_public_key_file), AUDIENCE_EVALUATOR)
    servicer = EvaluatorServicer(verifier, evaluator)
    return Service([Registration(evaluator_pb2_grpc.add_EvaluatorServiceServicer_to_server, servicer, SERVICE)])
