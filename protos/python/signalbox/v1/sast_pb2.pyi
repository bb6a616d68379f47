from buf.validate import validate_pb2 as _validate_pb2
from signalbox.v1 import caller_pb2 as _caller_pb2
from signalbox.v1 import code_reading_pb2 as _code_reading_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_TRUE_POSITIVE: _ClassVar[Verdict]
    VERDICT_FALSE_POSITIVE: _ClassVar[Verdict]
    VERDICT_NEEDS_REVIEW: _ClassVar[Verdict]
VERDICT_UNSPECIFIED: Verdict
VERDICT_TRUE_POSITIVE: Verdict
VERDICT_FALSE_POSITIVE: Verdict
VERDICT_NEEDS_REVIEW: Verdict

class CodeSource(_message.Message):
    __slots__ = ("repository", "commit")
    REPOSITORY_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    repository: str
    commit: str
    def __init__(self, repository: _Optional[str] = ..., commit: _Optional[str] = ...) -> None: ...

class CodeLocation(_message.Message):
    __slots__ = ("file", "first_line", "last_line", "message")
    FILE_FIELD_NUMBER: _ClassVar[int]
    FIRST_LINE_FIELD_NUMBER: _ClassVar[int]
    LAST_LINE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    file: str
    first_line: int
    last_line: int
    message: str
    def __init__(self, file: _Optional[str] = ..., first_line: _Optional[int] = ..., last_line: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("fingerprint", "rule_id", "cwe", "message", "location", "snippet", "trace", "related", "check_snippet", "notes")
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    RULE_ID_FIELD_NUMBER: _ClassVar[int]
    CWE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    SNIPPET_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    RELATED_FIELD_NUMBER: _ClassVar[int]
    CHECK_SNIPPET_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    fingerprint: str
    rule_id: str
    cwe: str
    message: str
    location: CodeLocation
    snippet: str
    trace: _containers.RepeatedCompositeFieldContainer[CodeLocation]
    related: _containers.RepeatedCompositeFieldContainer[CodeLocation]
    check_snippet: bool
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, fingerprint: _Optional[str] = ..., rule_id: _Optional[str] = ..., cwe: _Optional[str] = ..., message: _Optional[str] = ..., location: _Optional[_Union[CodeLocation, _Mapping]] = ..., snippet: _Optional[str] = ..., trace: _Optional[_Iterable[_Union[CodeLocation, _Mapping]]] = ..., related: _Optional[_Iterable[_Union[CodeLocation, _Mapping]]] = ..., check_snippet: _Optional[bool] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class Evidence(_message.Message):
    __slots__ = ("claim", "file", "first_line", "last_line", "commit", "quote")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    FIRST_LINE_FIELD_NUMBER: _ClassVar[int]
    LAST_LINE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    QUOTE_FIELD_NUMBER: _ClassVar[int]
    claim: str
    file: str
    first_line: int
    last_line: int
    commit: str
    quote: str
    def __init__(self, claim: _Optional[str] = ..., file: _Optional[str] = ..., first_line: _Optional[int] = ..., last_line: _Optional[int] = ..., commit: _Optional[str] = ..., quote: _Optional[str] = ...) -> None: ...

class CodeFragment(_message.Message):
    __slots__ = ("file", "first_line", "last_line", "commit", "content", "total_lines", "symbol", "reading")
    FILE_FIELD_NUMBER: _ClassVar[int]
    FIRST_LINE_FIELD_NUMBER: _ClassVar[int]
    LAST_LINE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LINES_FIELD_NUMBER: _ClassVar[int]
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    READING_FIELD_NUMBER: _ClassVar[int]
    file: str
    first_line: int
    last_line: int
    commit: str
    content: str
    total_lines: int
    symbol: str
    reading: _code_reading_pb2.CodeReading
    def __init__(self, file: _Optional[str] = ..., first_line: _Optional[int] = ..., last_line: _Optional[int] = ..., commit: _Optional[str] = ..., content: _Optional[str] = ..., total_lines: _Optional[int] = ..., symbol: _Optional[str] = ..., reading: _Optional[_Union[_code_reading_pb2.CodeReading, _Mapping]] = ...) -> None: ...

class SastTriageInput(_message.Message):
    __slots__ = ("finding", "source")
    FINDING_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    finding: Finding
    source: CodeSource
    def __init__(self, finding: _Optional[_Union[Finding, _Mapping]] = ..., source: _Optional[_Union[CodeSource, _Mapping]] = ...) -> None: ...

class SastTriageOutput(_message.Message):
    __slots__ = ("verdict", "confidence", "justification", "evidence", "token_usage", "iterations", "drafted_verdicts", "confidence_calibrated", "offline_model_calls", "read", "open_question", "notes")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    JUSTIFICATION_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_VERDICTS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_CALIBRATED_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_MODEL_CALLS_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    OPEN_QUESTION_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    confidence: float
    justification: str
    evidence: _containers.RepeatedCompositeFieldContainer[Evidence]
    token_usage: _caller_pb2.TokenUsage
    iterations: int
    drafted_verdicts: _containers.RepeatedScalarFieldContainer[Verdict]
    confidence_calibrated: bool
    offline_model_calls: int
    read: _containers.RepeatedCompositeFieldContainer[CodeLocation]
    open_question: str
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., confidence: _Optional[float] = ..., justification: _Optional[str] = ..., evidence: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., iterations: _Optional[int] = ..., drafted_verdicts: _Optional[_Iterable[_Union[Verdict, str]]] = ..., confidence_calibrated: _Optional[bool] = ..., offline_model_calls: _Optional[int] = ..., read: _Optional[_Iterable[_Union[CodeLocation, _Mapping]]] = ..., open_question: _Optional[str] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...

class SastInvestigationInput(_message.Message):
    __slots__ = ("finding", "source")
    FINDING_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    finding: Finding
    source: CodeSource
    def __init__(self, finding: _Optional[_Union[Finding, _Mapping]] = ..., source: _Optional[_Union[CodeSource, _Mapping]] = ...) -> None: ...

class SastInvestigationOutput(_message.Message):
    __slots__ = ("verdict", "confidence", "justification", "evidence", "token_usage", "iterations", "fetched_files", "drafted_verdicts", "confidence_calibrated", "offline_model_calls", "read", "open_question", "notes")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    JUSTIFICATION_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_USAGE_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    FETCHED_FILES_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_VERDICTS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_CALIBRATED_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_MODEL_CALLS_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    OPEN_QUESTION_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    confidence: float
    justification: str
    evidence: _containers.RepeatedCompositeFieldContainer[Evidence]
    token_usage: _caller_pb2.TokenUsage
    iterations: int
    fetched_files: _containers.RepeatedScalarFieldContainer[str]
    drafted_verdicts: _containers.RepeatedScalarFieldContainer[Verdict]
    confidence_calibrated: bool
    offline_model_calls: int
    read: _containers.RepeatedCompositeFieldContainer[CodeLocation]
    open_question: str
    notes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., confidence: _Optional[float] = ..., justification: _Optional[str] = ..., evidence: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ..., token_usage: _Optional[_Union[_caller_pb2.TokenUsage, _Mapping]] = ..., iterations: _Optional[int] = ..., fetched_files: _Optional[_Iterable[str]] = ..., drafted_verdicts: _Optional[_Iterable[_Union[Verdict, str]]] = ..., confidence_calibrated: _Optional[bool] = ..., offline_model_calls: _Optional[int] = ..., read: _Optional[_Iterable[_Union[CodeLocation, _Mapping]]] = ..., open_question: _Optional[str] = ..., notes: _Optional[_Iterable[str]] = ...) -> None: ...
