"""A chat client over the kit's completions whose answers have been mended.

What it sends and understands is ChatOpenAI's; the request itself goes without the SDK, whose share of a run's CPU is
the largest (docs/adr/0008-lean-model-calls.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI
from pydantic import ConfigDict, SecretStr

from services.kit.models.answers import mend, schemas_of
from services.kit.models.chain import ASKED, Completes
from services.kit.models.completions import NOT_THE_APIS_FORM, CompletionError
from services.kit.models.streamed import ESTIMATED


class LenientChatOpenAI(ChatOpenAI):
    """ChatOpenAI whose requests go over `completions` and whose answers have been mended. Raises CompletionError."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    completions: Completes

    async def answer(
        self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]] = (), tool_choice: str | None = None
    ) -> AIMessage:
        """Sends messages and returns the answer; `tool_choice` names the tool that it must be. Raises CompletionError.

        What `ainvoke` adds to it, LangChain's own callbacks, is a third of a call's CPU and nothing that we use.
        """
        options: dict[str, Any] = {"tools": list(tools)} if tools else {}
        if tool_choice:
            options["tool_choice"] = {"type": "function", "function": {"name": tool_choice}}
        result = await self._agenerate(list(messages), **options)
        generation = result.generations[0]
        answer = cast(AIMessage, generation.message)
        # What `ainvoke` would add, as far as anybody here looks at it: whether it is whole, whose it is, who made it.
        answer.response_metadata |= {
            "finish_reason": (generation.generation_info or {}).get("finish_reason") or "",
            "model_name": (result.llm_output or {}).get("model_name") or self.model_name,
            "system_fingerprint": (result.llm_output or {}).get("system_fingerprint") or "",
        }
        return answer

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del run_manager
        request = self._get_request_payload(messages, stop=stop, **kwargs)
        answer = await self.completions.create(request)
        try:
            mend(answer, schemas_of(request.get("tools") or ()))
            result = self._create_chat_result(answer)
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            raise CompletionError(
                NOT_THE_APIS_FORM, f"the model's answer is not of the API's form: {error}", retryable=False
            ) from error
        about = result.generations[0].message.response_metadata
        about[ASKED] = answer.get(ASKED) or self.model_name
        about[ESTIMATED] = answer.get(ESTIMATED, False)
        return result


def make_client(completions: Completes, model: str) -> LenientChatOpenAI:
    """Returns a client of one model; a self-hosted endpoint has no Responses API, so that is never used."""
    return LenientChatOpenAI(
        model=model,
        completions=completions,
        # The completions have the key; ChatOpenAI insists on one of its own.
        api_key=SecretStr("none"),
        temperature=0,
        use_responses_api=False,
        stream_usage=True,
    )
