"""Finds other users in a question: by id, by name, or all of them at once."""

from __future__ import annotations

import re

_USER = (
    r"(?:users?|usr|user\s?names?|user\s?ids?|uids?|accounts?|customers?|clients?|owners?|callers?|operators?|tenants?"
    r"|persons?|subjects?)"
)
_MARK = (
    r"(?:ids?|nos?|nr|num|numbers?|names?|with\s+(?:the\s+)?(?:user\s+)?(?:ids?|numbers?)|having\s+(?:the\s+)?ids?"
    r"|whose\s+ids?|named|called|is|are|equals?|equal\s+to|in\s*\(|==?|:|№|like)"
)
_EXCLUDING = (
    r"(?:not\s+in\s*\(?|is\s+not|isn't|not|other\s+than|except(?:\s+for)?|besides|but\s+not|!=|<>|>=?|<=?|between"
    r"|above|below|over|under|from|(?:greater|larger|higher|bigger|less|lower|smaller|more)\s+than)"
)
_ID = r"[\w@+-]*\d[\w@+-]*(?:\.[a-z]\w*)*"
_LIST = (
    rf"{_ID}(?:\s*(?:,|;|\b(?:and|or|to|through|until|plus|minus)\b|&|/|\.{{2,3}}|-|\+)\s*(?:{_USER}\s*)?#?\s*{_ID})*"
)
_BY_ID = re.compile(
    rf"\b{_USER}[\s_.#\"'()\[\]-]*(?:{_MARK}[\s_.#\"'()\[\]-]*){{0,3}}"
    rf"(?P<excluding>{_EXCLUDING}[\s_#\"'(\[-]*)?(?P<ids>{_LIST})"
)
_OWNED = re.compile(
    r"\b(?:belong(?:s|ing)?\s+to|owned\s+by|assigned\s+to|registered\s+(?:to|for|by)|property\s+of|owner\s*(?:is|=)"
    r"|(?:devices?|sensors?|data|account|profile|things?|stuff|rows)\s+of)\s+"
    rf"(?:#|number\s+|no\.?\s+|id\s+)*(?P<ids>{_LIST})(?!\s*[%\w])"
)
_NTH = re.compile(rf"\b(?P<ids>\d+)(?:st|nd|rd|th)\s+{_USER}\b")
# "31's devices", but neither "device 31's readings" nor "the 1990's".
_POSSESSIVE = re.compile(
    r"(?:^|[.,;:?!]\s*|\b(?:of|for|show|list|me|count|and|or|all|the|from|get|display|about|to|is|are|what|which|how|many"
    r"|give|see|find|only)\s+)#?(?P<ids>(?!(?:19|20)\d0's)\d+)'s?\s"
)
_BY_NAME = re.compile(
    r"\b(?:user\s?name|login|e-?mail(?:\s+address)?)\s*(?:is|=|:|of)?\s*[\"'](?P<quoted>[^\"']{1,128})[\"']"
    r"|\b(?:users?|persons?|people|customers?|operators?|accounts?)\s+(?:named|called)\s+[\"']?(?P<named>[\w.@+-]+)"
    r"|\busers?\s*[\"'](?P<user>[^\"']{1,128})[\"']"
    r"|\buser\s?name\s*[=:]?\s*(?P<bare>[a-z][\w.-]{2,})\b(?<!\bthe)(?<!\band)(?<!\bfor)"
)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_PEOPLE = (
    r"(?:users?|people|persons?|customers?|clients?|callers?|owners?|operators?|tenants?|colleagues?|employees?"
    r"|members?)"
)
_MANY = (
    r"(?:all|any|every|each|other|another|both|several|multiple|different|various|remaining|rest\s+of|most|many|whole"
    r"|entire)"
)
_THINGS = r"(?:devices?|data|readings?|sensors?|records?|rows?|temperatures?)"
_THEIRS = r"(?:users|people|customers|colleagues|operators|owners|others)"
_EVERYBODY = tuple(
    re.compile(pattern)
    for pattern in (
        # all users, any other user, everyone
        rf"\b{_MANY}\s+(?:(?:of|the|my|other|our|registered|single|existing|active)\s+)*(?:{_PEOPLE}|accounts?)\b",
        r"\bevery(?:one|body)\b|\b(?:some|any|no)(?:one|body)(?:'s|\s+else)\b|\bwho\s+else\b|\bothers'",
        rf"\bother'?s\s+{_THINGS}\b|\busers'\s",
        rf"\b(?:per|by|across|between|among|amongst)\s+(?:(?:the|all|other)\s+)*{_PEOPLE}(?:\s+ids?)?\b",
        rf"\b{_THINGS}\s+(?:of|for|from|belonging\s+to|owned\s+by)\s+(?:(?:the|other)\s+)*{_THEIRS}\b",
        r"\bwhich\s+(?:other\s+)?(?:users?|people|customers?|operators?)\s+(?:has|have|owns?|sees?|got|can)\b",
        # what is not mine
        r"\b(?:is|are|was|were)(?:n't|\s+not)\s+(?:mine|my\s|assigned\s+to\s+me|owned\s+by\s+me)|\bnot\s+mine\b",
        r"\b(?:do|does|did)(?:n't|\s+not)\s+belong\s+to\s+me\b|\bnot\s+(?:belonging|assigned)\s+to\s+me\b",
        r"\bi\s+do(?:n't|\s+not)\s+own\b",
        r"\b(?:besides|beyond|except|other\s+than|apart\s+from|not\s+only|not\s+just)\s+"
        r"(?:mine|my\s+(?:own|devices?|data)|me|myself)\b",
        # people one knows
        r"\bmy\s+(?:\w+\s+)?(?:colleagues?|co-?\s?workers?|boss|manager|supervisor|team\s?mates?|neighbou?rs?|friends?"
        r"|predecessors?|competitors?)\b",
    )
)


def own_ids(subject: str) -> frozenset[str]:
    """The spellings of the caller's own id, taken from a plain text of it."""
    return frozenset({subject, subject.lstrip("0") or "0"} if subject.isdecimal() else {subject})


def names_other_user(text: str, own: frozenset[str]) -> bool:
    """Says whether a plain text asks about anybody but the caller."""
    if any(pattern.search(text) for pattern in _EVERYBODY) or _by_other_name(text, own):
        return True
    for match in _BY_ID.finditer(text):
        if match["excluding"] or _any_other(match["ids"], own):
            return True
    return any(
        _any_other(match["ids"], own) for pattern in (_OWNED, _POSSESSIVE, _NTH) for match in pattern.finditer(text)
    )


def _any_other(ids: str, own: frozenset[str]) -> bool:
    if ids in own:
        return False
    return any(_bare(found[0]) not in own for found in re.finditer(_ID, ids))


def _bare(identifier: str) -> str:
    number = identifier.removesuffix("s").strip("-_+")
    return number.lstrip("0") or "0" if number.isdecimal() else identifier.strip("-_+")


def _by_other_name(text: str, own: frozenset[str]) -> bool:
    names = [next(group for group in match.groups() if group) for match in _BY_NAME.finditer(text)]
    return any(name not in own for name in [*names, *_EMAIL.findall(text)])
