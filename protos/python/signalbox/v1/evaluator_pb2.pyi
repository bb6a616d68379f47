import datetime

from buf.validate import validate_pb2 as _validate_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from signalbox.v1 import caller_pb2 as _caller_pb2
from signalbox.v1 import sast_pb2 as _sast_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EvaluationStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVALUATION_STAGE_UNSPECIFIED: _ClassVar[EvaluationStage]
    EVALUATION_STAGE_MECHANICAL: _ClassVar[EvaluationStage]
    EVALUATION_STAGE_MODEL: _ClassVar[EvaluationStage]

class CritiqueOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CRITIQUE_OUTCOME_UNSPECIFIED: _ClassVar[CritiqueOutcome]
    CRITIQUE_OUTCOME_APPROVED: _ClassVar[CritiqueOutcome]
    CRITIQUE_OUTCOME_NEEDS_RESEARCH: _ClassVar[CritiqueOutcome]
    CRITIQUE_OUTCOME_NEEDS_REANALYSIS: _ClassVar[CritiqueOutcome]
EVALUATION_STAGE_UNSPECIFIED: EvaluationStage
EVALUATION_STAGE_MECHANICAL: EvaluationStage
EVALUATION_STAGE_MODEL: EvaluationStage
CRITIQUE_OUTCOME_UNSPECIFIED: CritiqueOutcome
CRITIQUE_OUTCOME_APPROVED: CritiqueOutcome
CRITIQUE_OUTCOME_NEEDS_RESEARCH: CritiqueOutcome
CRITIQUE_OUTCOME_NEEDS_REANALYSIS: CritiqueOutcome

class DraftVerdict(_message.Message):
    __slots__ = ("verdict", "confidence", "justification", "evidence")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    JUSTIFICATION_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    verdict: _sast_pb2.Verdict
    confidence: float
    justification: str
    evidence: _containers.RepeatedCompositeFieldContainer[_sast_pb2.Evidence]
    def __init__(self, verdict: _Optional[_Union[_sast_pb2.Verdict, str]] = ..., confidence: _Optional[float] = ..., justification: _Optional[str] = ..., evidence: _Optional[_Iterable[_Union[_sast_pb2.Evidence, _Mapping]]] = ...) -> None: ...

class EvidenceProblem(_message.Message):
    __slots__ = ("index", "reason", "message")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    index: int
    reason: str
    message: str
    def __init__(self, index: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class EvaluationModelCall(_message.Message):
    __slots__ = ("model", "token_usage", "elapsed_ms", "calls", "offline_rules", "prompts", "cached_tokens")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_MS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_RULES_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    model: str
    token_usage: _caller_pb2.TokenUsage
    elapsed_ms: float
    calls: int
    offline_rules: bool
    prompts: str
    cached_tokens: int
    def __init__(self, model: _Optional[str] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., elapsed_ms: _Optional[float] = ..., calls: _Optional[int] = ..., offline_rules: _Optional[bool] = ..., prompts: _Optional[str] = ..., cached_tokens: _Optional[int] = ...) -> None: ...

class EvaluateInvestigationRequest(_message.Message):
    __slots__ = ("finding", "source", "draft", "code_bank", "last_word")
    FINDING_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DRAFT_FIELD_NUMBER: _ClassVar[int]
    CODE_BANK_FIELD_NUMBER: _ClassVar[int]
    LAST_WORD_FIELD_NUMBER: _ClassVar[int]
    finding: _sast_pb2.Finding
    source: _sast_pb2.CodeSource
    draft: DraftVerdict
    code_bank: _containers.RepeatedCompositeFieldContainer[_sast_pb2.CodeFragment]
    last_word: bool
    def __init__(self, finding: _Optional[_Union[_sast_pb2.Finding, _Mapping]] = ..., source: _Optional[_Union[_sast_pb2.CodeSource, _Mapping]] = ..., draft: _Optional[_Union[DraftVerdict, _Mapping]] = ..., code_bank: _Optional[_Iterable[_Union[_sast_pb2.CodeFragment, _Mapping]]] = ..., last_word: _Optional[bool] = ...) -> None: ...

class EvaluateInvestigationResponse(_message.Message):
    __slots__ = ("is_final", "verdict", "confidence", "justification", "exploration_gaps", "problems", "stage", "model_call")
    IS_FINAL_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    JUSTIFICATION_FIELD_NUMBER: _ClassVar[int]
    EXPLORATION_GAPS_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALL_FIELD_NUMBER: _ClassVar[int]
    is_final: bool
    verdict: _sast_pb2.Verdict
    confidence: float
    justification: str
    exploration_gaps: _containers.RepeatedScalarFieldContainer[str]
    problems: _containers.RepeatedCompositeFieldContainer[EvidenceProblem]
    stage: EvaluationStage
    model_call: EvaluationModelCall
    def __init__(self, is_final: _Optional[bool] = ..., verdict: _Optional[_Union[_sast_pb2.Verdict, str]] = ..., confidence: _Optional[float] = ..., justification: _Optional[str] = ..., exploration_gaps: _Optional[_Iterable[str]] = ..., problems: _Optional[_Iterable[_Union[EvidenceProblem, _Mapping]]] = ..., stage: _Optional[_Union[EvaluationStage, str]] = ..., model_call: _Optional[_Union[EvaluationModelCall, _Mapping]] = ...) -> None: ...

class CritiqueVerdictRequest(_message.Message):
    __slots__ = ("finding", "source", "draft", "code_bank")
    FINDING_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DRAFT_FIELD_NUMBER: _ClassVar[int]
    CODE_BANK_FIELD_NUMBER: _ClassVar[int]
    finding: _sast_pb2.Finding
    source: _sast_pb2.CodeSource
    draft: DraftVerdict
    code_bank: _containers.RepeatedCompositeFieldContainer[_sast_pb2.CodeFragment]
    def __init__(self, finding: _Optional[_Union[_sast_pb2.Finding, _Mapping]] = ..., source: _Optional[_Union[_sast_pb2.CodeSource, _Mapping]] = ..., draft: _Optional[_Union[DraftVerdict, _Mapping]] = ..., code_bank: _Optional[_Iterable[_Union[_sast_pb2.CodeFragment, _Mapping]]] = ...) -> None: ...

class CritiqueVerdictResponse(_message.Message):
    __slots__ = ("outcome", "missing", "problems", "reason", "stage", "model_call")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALL_FIELD_NUMBER: _ClassVar[int]
    outcome: CritiqueOutcome
    missing: _containers.RepeatedScalarFieldContainer[str]
    problems: _containers.RepeatedCompositeFieldContainer[EvidenceProblem]
    reason: str
    stage: EvaluationStage
    model_call: EvaluationModelCall
    def __init__(self, outcome: _Optional[_Union[CritiqueOutcome, str]] = ..., missing: _Optional[_Iterable[str]] = ..., problems: _Optional[_Iterable[_Union[EvidenceProblem, _Mapping]]] = ..., reason: _Optional[str] = ..., stage: _Optional[_Union[EvaluationStage, str]] = ..., model_call: _Optional[_Union[EvaluationModelCall, _Mapping]] = ...) -> None: ...

class CauseEvidence(_message.Message):
    __slots__ = ("claim", "source", "found", "problem")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    claim: str
    source: _struct_pb2.Struct
    found: str
    problem: str
    def __init__(self, claim: _Optional[str] = ..., source: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., found: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class GatheredResult(_message.Message):
    __slots__ = ("tool", "arguments", "result")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    tool: str
    arguments: _struct_pb2.Struct
    result: str
    def __init__(self, tool: _Optional[str] = ..., arguments: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., result: _Optional[str] = ...) -> None: ...

class ValidateCauseRequest(_message.Message):
    __slots__ = ("title", "service", "started_at", "text", "root_cause", "explanation", "evidence", "gathered")
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ROOT_CAUSE_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    GATHERED_FIELD_NUMBER: _ClassVar[int]
    title: str
    service: str
    started_at: _timestamp_pb2.Timestamp
    text: str
    root_cause: str
    explanation: str
    evidence: _containers.RepeatedCompositeFieldContainer[CauseEvidence]
    gathered: _containers.RepeatedCompositeFieldContainer[GatheredResult]
    def __init__(self, title: _Optional[str] = ..., service: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., text: _Optional[str] = ..., root_cause: _Optional[str] = ..., explanation: _Optional[str] = ..., evidence: _Optional[_Iterable[_Union[CauseEvidence, _Mapping]]] = ..., gathered: _Optional[_Iterable[_Union[GatheredResult, _Mapping]]] = ...) -> None: ...

class ValidateCauseResponse(_message.Message):
    __slots__ = ("confirmed", "problems", "stage", "model_call")
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALL_FIELD_NUMBER: _ClassVar[int]
    confirmed: bool
    problems: _containers.RepeatedScalarFieldContainer[str]
    stage: EvaluationStage
    model_call: EvaluationModelCall
    def __init__(self, confirmed: _Optional[bool] = ..., problems: _Optional[_Iterable[str]] = ..., stage: _Optional[_Union[EvaluationStage, str]] = ..., model_call: _Optional[_Union[EvaluationModelCall, _Mapping]] = ...) -> None: ...
