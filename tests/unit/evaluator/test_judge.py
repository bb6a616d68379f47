"""What asking the evaluator's model costs, also where no answer comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from services.evaluator.answers import CauseAnswer
from services.evaluator.judge import Judge
from services.kit.models.verdict_model import Completion, ModelUnavailable


class Failing:
    """A model that goes away after an answer of nothing."""

    async def complete(self, *_: Any, **__: Any) -> Completion:
        """Fails, and says what that took."""
        failed = ModelUnavailable("it is away", metadata={"cause": "http_503"})
        failed.took = Completion("", "m", 1000, 50, 1.0)
        raise failed


async def test_what_an_answer_of_nothing_took_is_told_with_the_outage_that_follows() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        await Judge(Failing(), max_tokens=9).ask("validate_cause", "s", "c", CauseAnswer)
    told = caught.value.metadata
    assert (told["cause"], told["model"], told["model_calls"]) == ("http_503", "m", "1")
    assert (told["input_tokens"], told["output_tokens"]) == ("1000", "50")
