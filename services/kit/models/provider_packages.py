"""Packages that models of providers need."""

from __future__ import annotations

import importlib.util
from typing import Final

# LangChain's package for a provider, as `init_chat_model` has it, for those that there are extras for.
_PACKAGES: Final = {
    "anthropic": ("langchain_anthropic", "anthropic"),
    "bedrock_converse": ("langchain_aws", "bedrock"),
    "google_genai": ("langchain_google_genai", "vertex"),
    "azure_openai": ("langchain_openai", "azure"),
}


def missing_for(provider: str) -> str:
    """Returns what is not installed that models of a provider need, and the extra that brings it; else nothing."""
    package, extra = _PACKAGES.get(provider, ("langchain", ""))
    if importlib.util.find_spec("langchain") is None or importlib.util.find_spec(package) is None:
        wanted = f"'signalbox[{extra}]'" if extra else package.replace("_", "-")
        return f"models of {provider} need {package}: pip install {wanted}"
    return ""
