"""What the offline model server is made of."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack

from services.kit.text.policy_file import load_policy_file
from services.kit.wire.server import Running
from services.kit.wire.web_service import WebService
from services.kit.wire.web_service import running as running_service
from services.offline_model.app import make_app
from services.offline_model.settings import OfflineModelSettings
from services.offline_model.skills import make_skills
from services.offline_model.vocabulary import Vocabulary

NAME = "offline_model"


async def build(settings: OfflineModelSettings, _stack: AsyncExitStack) -> WebService:
    """Puts the server together. Raises PolicyFileError."""
    file = settings.vocabulary_file
    vocabulary = load_policy_file(file, Vocabulary) if file else Vocabulary()
    return WebService(make_app(make_skills(vocabulary), max_request_bytes=settings.max_request_bytes))


def running(settings: OfflineModelSettings) -> AbstractAsyncContextManager[Running]:
    """Serves inside the context."""
    return running_service(NAME, settings, build)
