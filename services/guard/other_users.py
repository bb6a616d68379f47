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
# "user with the number 31" and "the user whose number is 31", whatever the small words between them are in a language.
_SMALL = r"(?:(?!(?:ships?|rooms?|ports?|decks?|boats?|rows?|units?|of|for|from|on|at|in)\s)[^\W\d]{1,5}\s+)"
_BY_NUMBER = re.compile(
    rf"\b{_USER}\s+{_SMALL}{{0,3}}(?:ids?|numbers?|no|nr)\s+{_SMALL}?#?(?P<after>\d+)"
    rf"|\b(?:ids?|numbers?|no|nr)\s+{_SMALL}?#?(?P<before>\d+)\s+{_SMALL}{{0,3}}{_USER}\b"
)
_NTH = re.compile(rf"\b(?P<ids>\d+)(?:(?:st|nd|rd|th)|\s+numbered)\s+{_USER}\b")
# "do it for id 28 instead of me", "swap my id with 31"
_INSTEAD = re.compile(
    r"\b(?:for|as|with|of|by)\s+(?:(?:the|user|id|number|no)\W+){0,3}(?P<ids>\d+)\s+(?:instead|rather\s+than\s+(?:me|mine))\b"
    r"|\b(?:swap|replace|exchange|change|use)\s+(?:my|the)\s+(?:user\s+)?id\s+(?:with|by|for|to)\s+(?P<new>\d+)"
)
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
_PLACES = r"(?:ports?|rooms?|cabins?|suites?|decks?|panels?|stations?|consoles?)"
_ON_BOARD = (
    r"many\s+(?:people|persons)\s+(?:are|were)\s+(?:on|in|aboard|inside)\s+(?:the|this|that|my)\s+(?:\w+\s+)?"
    rf"(?:ships?|ferry|boat|vessel|tanker|trawler|{_PLACES})\b"
)
# What somebody misses who sees their own: a device, or what was measured some time.
_MISSED = (
    r"\s+(?:(?:the|my|any)\s+)*(?:(?:devices?|sensors?)\s+\d"
    r"|(?:readings?|data|values?|temperatures?|measurements?)\s+(?:of|from|for|since)\s+"
    r"(?:today|yesterday|this\s|last\s|(?:devices?|sensors?)\s+\d))"
)
_WORK = r"(?:repair|fix|service|maintain|check|clean|inspect|replace)"
_EVERYBODY = tuple(
    re.compile(pattern)
    for pattern in (
        # all users, any other user, everyone
        rf"\b(?!{_ON_BOARD}){_MANY}\s+(?:(?:of|the|my|other|our|registered|single|existing|active)\s+)*(?:{_PEOPLE}|accounts?)\b",
        r"\bevery(?:one|body)(?:'s|\s+else|\s+(?:has|have|owns?|sees?|measures?))\b",
        r"\b(?:of|for|from|to|by|show|list|about|as)\s+every(?:one|body)\b(?!\s+on\b)",
        r"\b(?:some|any|no)(?:one|body)(?:'s|\s+else)\b|\bwho\s+else\b|\bothers'",
        rf"\b(?:do|does|can|could|will|did)\s+(?:the\s+)?other(?:s|\s+{_PEOPLE})\s+(?:have|own|see|get|measure|ask|use)",
        rf"\b(?:{_THINGS}|those|that|everything|as)\s+(?:of|for|from)\s+(?:the\s+)?others\b",
        r"\b(?:how\s+many|number\s+of|count(?:\s+of)?(?:\s+the)?|list(?:\s+of)?(?:\s+the)?|which|who\s+are(?:\s+the)?)\s+"
        r"(?:user|account|operator|customer|client)s\b",
        r"\b(?:e-?mails?|e-?mail\s+addresses|names|phone\s+numbers?|addresses)\s+of\s+(?:the|all|any)\s+(?:\w+\s+)?"
        r"(?:users?|operators?|customers?|clients?|people|crew|staff|owners?)\b",
        # what is kept from the caller
        r"\b(?:that\s+)?(?:i|we)(?:'m|\s+am|\s+are)?\s*(?:not|n't)\s+(?:supposed|allowed|permitted|meant|authori[sz]ed)\s+to\b",
        r"\b(?:i|we)\s+(?:can't|cannot|can\s+not|may\s+not|mustn't|must\s+not|am\s+not\s+able\s+to)\s+(?:see|access|read|view)\b"
        rf"(?!{_MISSED})",
        r"\b(?:hidden|invisible|secret|private|confidential)\s+(?:rows?|data|records?|devices?|tables?|columns?)\b",
        r"\bwho(?:se)?(?:so)?ever's?\b",
        r"\b(?:not|nor)\s+(?:only|just)\s+(?:mine|my|those\s+(?:of\s+mine|i))\b",
        r"\bthe\s+(?:user|caller|person|account)\s+(?:after|before|above|below|next\s+to)\s+me\b",
        rf"\bother'?s\s+{_THINGS}\b|\busers'\s",
        rf"\b{_PEOPLE}\s+(?:on|in|of|using)\s+(?:this|the)\s+(?:platform|system|service|app|application|database)\b",
        rf"\b(?:per|by|across|between|among|amongst)\s+(?:(?:the|all|other)\s+)*{_PEOPLE}(?:\s+ids?)?\b"
        rf"(?!\s+{_PLACES}\b)",
        rf"\b{_THINGS}\s+(?:of|for|from|belonging\s+to|owned\s+by)\s+(?:(?:the|other)\s+)*{_THEIRS}\b",
        r"\bwhich\s+(?:other\s+)?(?:users?|people|customers?|operators?)\s+(?:has|have|owns?|sees?|got|can)\b",
        # what is not mine
        rf"(?:\b(?:is|are|was|were)n't\s+|\bnot\s+)mine\b(?!\s+to\s+{_WORK}\b)",
        r"\b(?:is|are|was|were)(?:n't|\s+not)\s+(?:my\s|assigned\s+to\s+me|owned\s+by\s+me)",
        r"\b(?:do|does|did)(?:n't|\s+not)\s+belong\s+to\s+me\b|\bnot\s+(?:belonging|assigned)\s+to\s+me\b",
        r"\bi\s+do(?:n't|\s+not)\s+own\b",
        r"\b(?:besides|beyond|except|other\s+than|apart\s+from|not\s+only|not\s+just)\s+"
        r"(?:mine|my\s+(?:own|devices?|data)|me|myself)\b",
    )
)
_SECRETS = re.compile(
    r"\b(?:passwords?|passwd|pass\s?phrases?|password\s?hash(?:es)?|credentials?|api\s?keys?|private\s+keys?|secret\s+keys?"
    r"|connection\s+strings?|(?:caller|database|session)\s+secrets?|access\s+tokens?)\b"
    r"|\b(?:dump|export|download|copy|leak)\s+(?:(?:the|all|a|whole|entire|complete)\s+){0,3}(?:database|db|tables|schema)\b"
    r"(?!\s+(?:of|with)\s+my\s+(?:own\s+)?(?:devices?|sensors?|readings?|data|measurements?)\b(?!'))"
    r"|\ball\s+(?:the\s+)?(?:hidden\s+)?tables\b|\bpg_\w|\binformation_schema\b"
)


# Whether one is needed is not a secret.
_NEEDS_PASSWORD = re.compile(r"\bis\s+(?:there\s+)?an?\s+passwords?\s+(?:needed|required|necessary)\b")


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
    ) or any(
        _any_other(next(filter(None, match.groups())), own)
        for pattern in (_INSTEAD, _BY_NUMBER)
        for match in pattern.finditer(text)
    )


def asks_for_secrets(text: str) -> bool:
    """Says whether a plain text asks for credentials, or for the database itself rather than for what it holds."""
    return _SECRETS.search(_NEEDS_PASSWORD.sub(" ", text)) is not None


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
