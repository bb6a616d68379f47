"""Which judgement a finding calls for."""

from __future__ import annotations

from collections.abc import Callable

from services.offline_model.code_review.commands import command, partial_path
from services.offline_model.code_review.flagged import Flagged
from services.offline_model.code_review.injections import (
    deserialization,
    evaluated,
    path,
    sql,
    ssrf,
    xml,
    xss,
)
from services.offline_model.code_review.literal_secrets import hardcoded_secret
from services.offline_model.code_review.misuse import (
    certificates,
    temporary_files,
    timeouts,
    weak_crypto,
)
from services.offline_model.code_review.opinion import Opinion

Judgement = Callable[[Flagged], Opinion]
BY_CWE: dict[str, Judgement] = {
    **dict.fromkeys(("CWE-89", "CWE-564", "CWE-943"), sql),
    **dict.fromkeys(("CWE-78", "CWE-77", "CWE-88"), command),
    **dict.fromkeys(("CWE-326", "CWE-327", "CWE-328", "CWE-330", "CWE-338", "CWE-759", "CWE-916"), weak_crypto),
    "CWE-502": deserialization,
    **dict.fromkeys(("CWE-259", "CWE-321", "CWE-798"), hardcoded_secret),
    **dict.fromkeys(("CWE-22", "CWE-23", "CWE-36", "CWE-73"), path),
    **dict.fromkeys(("CWE-79", "CWE-80", "CWE-83"), xss),
    "CWE-918": ssrf,
    **dict.fromkeys(("CWE-94", "CWE-95", "CWE-96"), evaluated),
    **dict.fromkeys(("CWE-611", "CWE-776"), xml),
    "CWE-295": certificates,
}
# Where a scanner's CWE is too general, its rule says more.
BY_RULE: dict[str, Judgement] = {
    "B506": deserialization, "B301": deserialization, "B302": deserialization, "B403": deserialization,
    "B307": evaluated, "B102": evaluated, "B201": evaluated, "B701": xss, "B310": ssrf, "B404": command,
    "B607": partial_path, "B113": timeouts, "B306": temporary_files,
}  # fmt: skip
