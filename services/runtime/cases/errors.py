"""Errors of cases.

CaseError
├── CaseUnreadable     the file is none, or damaged, or of another form
├── CaseUnfit          this release can't replay it: its agent, its policy, the changes asked for
└── AnswerMissing      a node asks what the recording has no answer for
"""

from __future__ import annotations


class CaseError(Exception):
    """A case that can't be replayed, or not to its end."""


class CaseUnreadable(CaseError):
    """The file is not a case, or damaged, or of another form."""


class CaseUnfit(CaseError):
    """This release can't replay the case."""


class AnswerMissing(CaseError):
    """A node asks what the recording has no answer for."""
