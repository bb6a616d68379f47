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
# By the numbers that Bandit and Ruff share. Where a scanner's CWE is too general, its rule says more.
BY_RULE: dict[str, Judgement] = {
    "506": deserialization, "301": deserialization, "302": deserialization, "403": deserialization,
    "307": evaluated, "102": evaluated, "201": evaluated, "701": xss, "310": ssrf, "404": command,
    "607": partial_path, "113": timeouts, "306": temporary_files,
}  # fmt: skip
# For logs that name no CWE.
WITHOUT_CWE: dict[str, Judgement] = {
    **dict.fromkeys(("602", "603", "604", "605", "606"), command),
    **dict.fromkeys(("303", "304", "305", "311", "324"), weak_crypto),
    **dict.fromkeys(("105", "106", "107"), hardcoded_secret),
    **dict.fromkeys(("313", "314", "315", "316", "317", "318", "319"), xml),
    **dict.fromkeys(("308", "702", "703", "704"), xss),
    "202": path, "608": sql, "501": certificates, "614": deserialization,
}  # fmt: skip
