"""Which judgement a finding calls for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from services.offline_model.code_review.commands import command, partial_path
from services.offline_model.code_review.documents import deserialization, external_entities, xml
from services.offline_model.code_review.flagged import Flagged
from services.offline_model.code_review.injections import evaluated, path, sql, ssrf, xss
from services.offline_model.code_review.literal_secrets import hardcoded_secret
from services.offline_model.code_review.misuse import (
    certificates,
    password_hash,
    temporary_files,
    timeouts,
    weak_crypto,
)
from services.offline_model.code_review.opinion import Opinion


@dataclass(frozen=True)
class Kind:
    """A kind of weakness: its name, which tells what takes the harm out of a value, and how it is judged."""

    weakness: str
    judge: Callable[[Flagged], Opinion]


SQL: Final = Kind("sql", sql)
COMMAND: Final = Kind("command", command)
CRYPTO: Final = Kind("crypto", weak_crypto)
LOADING: Final = Kind("loading", deserialization)
SECRET: Final = Kind("secret", hardcoded_secret)
PATH: Final = Kind("path", path)
XSS: Final = Kind("xss", xss)
SSRF: Final = Kind("ssrf", ssrf)
CODE: Final = Kind("code", evaluated)
XML: Final = Kind("xml", xml)
ENTITIES: Final = Kind("xml", external_entities)
CERTIFICATES: Final = Kind("certificates", certificates)

BY_CWE: dict[str, Kind] = {
    **dict.fromkeys(("CWE-89", "CWE-564", "CWE-943"), SQL),
    **dict.fromkeys(("CWE-78", "CWE-77", "CWE-88"), COMMAND),
    **dict.fromkeys(("CWE-326", "CWE-327", "CWE-328", "CWE-330", "CWE-338"), CRYPTO),
    **dict.fromkeys(("CWE-759", "CWE-916"), Kind("crypto", password_hash)),
    "CWE-502": LOADING,
    **dict.fromkeys(("CWE-259", "CWE-321", "CWE-798"), SECRET),
    **dict.fromkeys(("CWE-22", "CWE-23", "CWE-36", "CWE-73"), PATH),
    **dict.fromkeys(("CWE-79", "CWE-80", "CWE-83"), XSS),
    "CWE-918": SSRF,
    **dict.fromkeys(("CWE-94", "CWE-95", "CWE-96"), CODE),
    "CWE-611": ENTITIES,
    "CWE-776": XML,
    "CWE-295": CERTIFICATES,
}
# By the numbers that Bandit and Ruff share. Where a scanner's CWE is too general, its rule says more.
BY_RULE: dict[str, Kind] = {
    "506": LOADING, "301": LOADING, "302": LOADING, "403": LOADING, "307": CODE, "102": CODE, "201": CODE,
    "701": XSS, "310": SSRF, "404": COMMAND, "607": Kind("command", partial_path), "113": Kind("timeouts", timeouts),
    "306": Kind("files", temporary_files),
}  # fmt: skip
# For logs that name no CWE.
WITHOUT_CWE: dict[str, Kind] = {
    **dict.fromkeys(("602", "603", "604", "605", "606"), COMMAND),
    **dict.fromkeys(("303", "304", "305", "311", "324"), CRYPTO),
    **dict.fromkeys(("105", "106", "107"), SECRET),
    **dict.fromkeys(("313", "314", "315", "316", "317", "318", "319"), XML),
    **dict.fromkeys(("308", "702", "703", "704"), XSS),
    "202": PATH, "608": SQL, "501": CERTIFICATES, "614": LOADING,
}  # fmt: skip
