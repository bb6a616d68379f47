"""A whole evaluation: the mechanical checks, then the model; nothing stands that did not pass both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final

from services.evaluator.answers import CauseAnswer, CritiqueAnswer, InvestigationAnswer, Outcome
from services.evaluator.bank import CodeBank
from services.evaluator.causes import CAUSE, NamedCause, cause_document, cause_prompt
from services.evaluator.checks import check_draft
from services.evaluator.citations import Problem, Reason
from services.evaluator.draft import Draft, Finding, Verdict
from services.evaluator.judge import AnswerT, Judge, Judgement
from services.evaluator.metrics import EVALUATIONS, PROBLEMS
from services.evaluator.prompt import CRITIQUE, INVESTIGATION, case_document, critique_prompt, investigation_prompt
from services.evaluator.words import check_words
from services.kit.models.provider_words import says_too_long
from services.kit.models.usage import ModelUsage
from services.kit.models.verdict_model import ModelUnusable
from services.kit.telemetry.evaluations import record_result
from services.kit.telemetry.logs import get_logger
from services.kit.telemetry.metrics import from_zero, model_calls_from_zero

MECHANICAL = "evidence_checks"
FINAL, NOT_FINAL = "final", "not_final"
# How much less of a case is shown to a model whose context is too short for it.
TIGHTER: Final = 4
CONFIRMED, REFUTED = "confirmed", "refuted"
log = get_logger()
# What is mended by reading more code, and not by thinking again about the code that is there.
_READ_MORE = frozenset({Reason.UNKNOWN_FILE, Reason.NOT_IN_CODE_BANK, Reason.UNREAD})


class Stage(StrEnum):
    """The part of the evaluator that decided."""

    MECHANICAL = "mechanical"
    MODEL = "model"


@dataclass(frozen=True)
class Case:
    """What is to be judged."""

    finding: Finding
    draft: Draft
    bank: CodeBank


@dataclass(frozen=True)
class Evaluation:
    """The word on an investigation; `verdict` is NEEDS_REVIEW unless it is final."""

    is_final: bool
    verdict: Verdict
    confidence: float
    justification: str
    gaps: tuple[str, ...]
    problems: tuple[Problem, ...]
    stage: Stage
    usage: ModelUsage | None = None


@dataclass(frozen=True)
class Critique:
    """The word on a drafted verdict."""

    outcome: Outcome
    missing: tuple[str, ...]
    problems: tuple[Problem, ...]
    reason: str
    stage: Stage
    usage: ModelUsage | None = None


@dataclass(frozen=True)
class Validation:
    """The word on the cause of an incident."""

    confirmed: bool
    problems: tuple[str, ...]
    stage: Stage
    usage: ModelUsage | None = None


class Evaluator:
    """Judges investigations, verdicts and causes."""

    def __init__(self, judge: Judge, *, prompt_code_characters: int) -> None:
        self._judge = judge
        self._code_characters = prompt_code_characters

    async def evaluate(self, case: Case, *, last_word: bool) -> Evaluation:
        """Says whether an investigation is complete. Raises ModelUnavailable, ModelUnusable."""
        problems = await asyncio.to_thread(_problems, case)
        if problems:
            evaluation = _not_final("The draft's evidence does not hold.", _messages(problems), problems)
        else:
            system = investigation_prompt(last_word=last_word)
            judgement = await self._judged(INVESTIGATION, system, partial(_document, case), InvestigationAnswer)
            evaluation = await asyncio.to_thread(_weigh, case, judgement)
        _count(INVESTIGATION, FINAL if evaluation.is_final else NOT_FINAL, evaluation.stage)
        if evaluation.stage is Stage.MODEL:
            # The model's confidence is no score: nobody here knows for which models that was measured.
            record_result(
                INVESTIGATION,
                score=float(evaluation.is_final),
                label=evaluation.verdict if evaluation.is_final else NOT_FINAL,
                explanation=evaluation.justification,
            )
        return evaluation

    async def critique(self, case: Case) -> Critique:
        """Approves a verdict, or says what is wrong with it. Raises ModelUnavailable, ModelUnusable."""
        problems = await asyncio.to_thread(_problems, case)
        if problems:
            critique = _rejected(problems)
        else:
            judgement = await self._judged(CRITIQUE, critique_prompt(), partial(_document, case), CritiqueAnswer)
            critique = _word(judgement)
        _count(CRITIQUE, critique.outcome, critique.stage)
        if critique.stage is Stage.MODEL:
            approved = critique.outcome is Outcome.APPROVED
            record_result(CRITIQUE, score=float(approved), label=critique.outcome, explanation=critique.reason)
        return critique

    async def validate_cause(self, cause: NamedCause) -> Validation:
        """Says whether evidence shows the cause of an incident. Raises ModelUnavailable, ModelUnusable."""
        problems = tuple(cause.problems())
        if problems:
            validation = Validation(confirmed=False, problems=problems, stage=Stage.MECHANICAL)
        else:
            judgement = await self._judged(CAUSE, cause_prompt(), partial(cause_document, cause), CauseAnswer)
            validation = _validated(judgement)
        word = CONFIRMED if validation.confirmed else REFUTED
        _count(CAUSE, word, validation.stage)
        if validation.stage is Stage.MODEL:
            told = " ".join(validation.problems)
            record_result(CAUSE, score=float(validation.confirmed), label=word, explanation=told)
        return validation

    async def _judged(
        self, purpose: str, system: str, document: Callable[[int], str], kind: type[AnswerT]
    ) -> Judgement[AnswerT]:
        """Puts a case to the model; once more with less of it where that says that its context is too short."""
        # Writing it down takes a while when much was read.
        written = await asyncio.to_thread(document, self._code_characters)
        try:
            return await self._judge.ask(purpose, system, written, kind)
        except ModelUnusable as error:
            if not says_too_long(error.message):
                raise
        written = await asyncio.to_thread(document, self._code_characters // TIGHTER)
        return await self._judge.ask(purpose, system, written, kind)


def _problems(case: Case) -> tuple[Problem, ...]:
    """Checks a draft; busy for a while when much was read."""
    problems = tuple(check_draft(case.draft, case.finding, case.bank))
    claims = len(case.draft.evidence)
    failed = len({problem.index for problem in problems})
    record_result(
        MECHANICAL,
        score=max(0.0, 1 - failed / max(claims, 1)),
        label="fail" if problems else "pass",
        explanation=" ".join(_messages(problems)) or f"{claims} claims checked against the code.",
    )
    return problems


def _document(case: Case, characters: int) -> str:
    return case_document(case.finding, case.draft, case.bank, code_characters=characters)


def _weigh(case: Case, judgement: Judgement[InvestigationAnswer]) -> Evaluation:
    answer, usage, draft = judgement.answer, judgement.usage, case.draft
    if answer is None:
        reason = f"The evaluator's model gave no readable answer ({judgement.problem})."
        return _not_final(reason, (), (), usage)
    if not answer.is_final:
        return _not_final(answer.justification, answer.exploration_gaps, (), usage)
    if answer.verdict is not draft.verdict:
        # The claims that were checked are for the draft's verdict; another one has no evidence yet.
        gap = f"The evaluator came to {answer.verdict}, the draft to {draft.verdict}: {answer.justification}"
        return _not_final(answer.justification, (gap,), (), usage)
    said = replace(draft, justification=answer.justification, evidence=())
    settled = draft.verdict is not Verdict.NEEDS_REVIEW
    problems = check_words(said, case.finding, case.bank) if settled else []
    if contradicted := tuple(each for each in problems if each.reason is Reason.CONTRADICTED):
        return _not_final(answer.justification, _messages(contradicted), (), usage)
    return Evaluation(
        is_final=True,
        verdict=draft.verdict,
        confidence=answer.confidence,
        # Words that do not hold cost no verdict: the draft's were checked.
        justification=draft.justification if problems else answer.justification,
        gaps=(),
        problems=(),
        stage=Stage.MODEL,
        usage=usage,
    )


def _not_final(
    justification: str, gaps: tuple[str, ...], problems: tuple[Problem, ...], usage: ModelUsage | None = None
) -> Evaluation:
    return Evaluation(
        is_final=False,
        verdict=Verdict.NEEDS_REVIEW,
        confidence=0.0,
        justification=justification,
        gaps=gaps,
        problems=problems,
        stage=Stage.MODEL if usage else Stage.MECHANICAL,
        usage=usage,
    )


def _rejected(problems: tuple[Problem, ...]) -> Critique:
    research = any(problem.reason in _READ_MORE for problem in problems)
    return Critique(
        outcome=Outcome.NEEDS_RESEARCH if research else Outcome.NEEDS_REANALYSIS,
        missing=_messages(problems),
        problems=problems,
        reason="The draft's evidence does not hold.",
        stage=Stage.MECHANICAL,
    )


def _word(judgement: Judgement[CritiqueAnswer]) -> Critique:
    answer, usage = judgement.answer, judgement.usage
    if answer is None:
        reason = f"The evaluator's model gave no readable answer ({judgement.problem})."
        return Critique(Outcome.NEEDS_REANALYSIS, (), (), reason, Stage.MODEL, usage)
    return Critique(answer.outcome, answer.missing, (), answer.reason, Stage.MODEL, usage)


def _validated(judgement: Judgement[CauseAnswer]) -> Validation:
    answer, usage = judgement.answer, judgement.usage
    if answer is None:
        problem = f"The evaluator's model gave no readable answer ({judgement.problem})."
        return Validation(confirmed=False, problems=(problem,), stage=Stage.MODEL, usage=usage)
    return Validation(confirmed=answer.confirmed, problems=answer.problems, stage=Stage.MODEL, usage=usage)


def _messages(problems: tuple[Problem, ...]) -> tuple[str, ...]:
    return tuple(
        problem.message if problem.index < 0 else f"Claim {problem.index + 1}: {problem.message}"
        for problem in problems
    )


model_calls_from_zero(INVESTIGATION, CRITIQUE, CAUSE)


def _count(kind: str, outcome: str, stage: Stage) -> None:
    EVALUATIONS.labels(kind, outcome, stage).inc()
    log.info("evaluated", kind=kind, outcome=outcome, stage=stage)


from_zero(EVALUATIONS, [INVESTIGATION], [FINAL], [Stage.MODEL])
from_zero(EVALUATIONS, [INVESTIGATION], [NOT_FINAL], Stage)
from_zero(EVALUATIONS, [CRITIQUE], [Outcome.APPROVED], [Stage.MODEL])
from_zero(EVALUATIONS, [CRITIQUE], [Outcome.NEEDS_RESEARCH, Outcome.NEEDS_REANALYSIS], Stage)
from_zero(EVALUATIONS, [CAUSE], [CONFIRMED], [Stage.MODEL])
from_zero(EVALUATIONS, [CAUSE], [REFUTED], Stage)
from_zero(PROBLEMS, Reason)
