"""Finds attempts to be somebody else, or to talk the platform out of its rules."""

from __future__ import annotations

import re

_ROLES = r"(?:admin(?:istrator)?s?|root(?!\s+cause)|super\s?users?|sudo|postgres|dba|god)"
_ONE_OF_THEM = rf"(?:the(?:\s+|')|an?\s+)?{_ROLES}"
_OTHERS = r"(?:another|a\s+different|any\s+other|some(?:one|body)|any(?:one|body)|every(?:one|body))"
_OFF = (
    r"(?:ignore|disregard|forget|override|bypass|circumvent|skip|disable|drop|remove|omit|lift|deactivate"
    r"|turn\s+off|switch\s+off)"
)
_RULES = (
    r"(?:instructions?|rules?|prompts?|restrictions?|filters?|polic(?:y|ies)|guidelines?|limits|limitations?|security"
    r"|checks?|permissions?|guard(?:rails?)?|safety|constraints?|directives?|row\s+level)"
)
_ANSWER_AS = (
    r"(?:act|acting|answer|behave|respond|run|query|execute|log(?:ged)?\s?in|sign(?:ed)?\s?in|authenticate|pose|posing"
    r"|connect|treat\s+me|see\s+(?:it|this|them)|do\s+(?:it|this)|switch)"
)
_POWERS = r"(?:access|rights?|privileges?|permissions?|powers?)"

_MEASURED = r"(?:temperatures?|humidity|pressures?|battery|batteries|readings?|measurements?|values?)"
# A check or a filter that the question itself made: it may be taken back.
_OWN_FILTER = re.compile(
    r"(?<!user )(?<!owner )(?<!caller )(?<!row )(?<!level )(?<!access )(?<!tenant )(?<!security )(?<!id )"
    r"\b(?:checks?|filters?)\s+(?:for|on|by)\s+(?:(?:the|low|high)\s+)?"
    rf"(?:{_MEASURED}|kinds?|status|dates?|times?|days?|ports?)\b"
)
_RULES_OFF = (
    rf"\b{_OFF}\W+(?:\w+\W+){{0,5}}?{_RULES}\b",
    r"\bwithout\W+(?:(?:the|any|a|my|that|this|its|all)\W+)?"
    r"(?:(?:user|owner|row|caller|security|tenant|access|id|row\W+level)\W+){0,2}"
    r"(?:filters?|filtering|restrictions?|security|permission\s+checks?|access\s+control|rls)\b",
    r"\b(?:no|zero)\s+(?:user|owner|caller|row|tenant)\W+(?:filters?|restrictions?)\b",
    r"\b(?:regardless|irrespective)\s+of\W+(?:(?:the|its|their|which|who)\W+)?"
    r"(?:owners?|ownership|users?|callers?|owns|user\s+id)\b",
    r"\bno\s+matter\s+(?:who|which\s+user|whose)\b",
    # Languages that put the verb last, as the vocabulary marks them.
    rf"\b{_RULES}\W+(?:\w+\W+){{0,4}}?ignored\b",
    r"\bwho(?:m|so)?ever\b.{0,20}\b(?:owns?|belongs?)\b|\bwho(?:m|so)?ever\s+they\s+belong\b",
)
_PROMPT_TRICKS = (
    r"\b(?:new|updated|revised|real|actual|following)\s+(?:system\s+)?instructions?\s*(?:are|is|:)",
    r"\bsystem\s+(?:prompt|message|override|instructions?)\b|\bjailbr(?:ea|o)k",
    r"\b(?:developer|god|admin|dan|root)\s+mode\b",
    r"<\|?\W*(?:system|im[\s_]start|assistant|inst)\b|\[/?\s*inst\s*\]|^\W*(?:system|assistant)\s*:|\brole\W{1,4}system\b",
    r"\b(?:answer|reply|respond|say|output|return|print|write)\W+(?:\w+\W+){0,4}?(?:the\s+word\W+|with\W+)?"
    r"[\"']?allow(?:ed)?[\"']?(?!\w|\s+\w)",
    r"\bverdict\W+(?:is\W+)?allow\b",
)
_SESSION = (
    r"\b(?:set|reset)\s+(?:(?:local|session)\s+)?(?:role|session\s+authorization|authorization|app\.|search_path)",
    r"\bset[\s_]config\b|\bcurrent[\s_]setting\b|\bbypass\s?rls\b|\brow[\s_]security\b|\bapp\.(?:user|caller)",
    r"\balter\s+(?:role|user|policy|table)\b|\b(?:create|drop)\s+(?:role|user|policy)\b",
    r"\bgrant\s+(?:me|all|select|access|role|admin)\b",
    r"\bor\s+([\"']?)(\w+)\1\s*(?:=|like)\s*\1\2\1(?!\w)",
    rf"\b(?:or|where|and)\s+true\b(?!\s+{_MEASURED}\b)",
)
_SOMEBODY_ELSE = (
    r"\bimpersonat|\bmasquerad|\bpretend\b|\brole\s?-?play",
    rf"\b{_ANSWER_AS}\s+(?:\w+\s+){{0,3}}?(?:as|to)\s+(?:if\s+)?(?:(?:you|i)\s+(?:are|am|were|was)\s+)?"
    rf"(?:{_ONE_OF_THEM}|{_OTHERS})\b",
    rf"\bas\s+{_ONE_OF_THEM}\b",
    rf"\bas\s+{_OTHERS}\s+(?:users?|caller|person|account|customer|else)\b",
    r"\b(?:i\s+am|i'm|im|i\s+have\s+become|you\s+are|you're|consider\s+me|treat\s+me\s+as|make\s+me|become|be)\s+"
    rf"(?:(?:actually|really|now|also|in\s+fact|logged\s+in\s+as|signed\s+in\s+as)\s+)*(?:of\s+)?{_ONE_OF_THEM}\b",
    rf"\b(?:i|me|my)\b.{{0,20}}\b{_ROLES}\s+{_POWERS}\b",
    rf"\b(?:with|using|under|in|has|have)\s+(?:the\s+)?{_ROLES}\s+(?:{_POWERS}|roles?|identity)\b",
    r"\b(?:elevate|escalate|raise|extend|widen)\s+(?:my|the|our)\s+(?:privileges?|permissions?|access|rights?|roles?)\b",
    r"\b(?:change|switch|swap|replace|spoof|fake|alter|override|set)\s+(?:(?:the|my|this|current)\s+){0,2}"
    r"(?:user(?:[\s_]?id|[\s_]?name)?|caller|identity|subject|tenant|role)\b(?!\s+(?:interface|manual|guide)\b)",
    rf"\bswitch\s+(?:to\s+)?(?:the\s+)?(?:user|account|caller)\b(?!\s+(?:interface\b|of\s+{_MEASURED}\b))",
    r"\b(?:assume|take\s+on|adopt|steal|use)\s+(?:the\s+)?(?:identity|role|account|session|token|credentials)\s+of\b",
    rf"\bwith\s+the\s+{_POWERS}\s+of\b",
    r"\b(?:treat|consider|regard|see|count)\s+me\s+(?:as|to\s+be|like)\s+(?:the|an?|if)\s+(?:\w+\s+)?(?:owner|manager|captain|operator|boss)\b",
    r"\bon\s+behalf\s+of\b|\bin\s+the\s+name\s+of\s+(?!the\s+ship)",
)
_RULES_TAKEN_OFF = tuple(map(re.compile, _RULES_OFF))
_ALWAYS = tuple(re.compile(pattern) for pattern in (*_PROMPT_TRICKS, *_SESSION, *_SOMEBODY_ELSE))

_ID = r"[#\s:=\"'_.]*(?:(?:id|no|nr|number|num)\b[.\s:=#\"']*)*(?P<id>[\w@+-]*\d[\w@+-]*)"
_USER = r"(?:user|caller|account|customer|operator|owner|person|uid|userid)"
_MY_ID = (
    r"\bmy\s+(?:(?:real|actual|true|new|own|correct|other)\s+)?"
    r"(?:(?:user|caller|account|badge|staff|personnel|employee|customer|member)\s?)?(?:id|number|identity)"
)
# A number that stands for somebody: what it would count, of years or minutes, does not follow.
_WHO = (
    r"(?:(?:the|user|number|no\.?|nr\.?|id)\s+|#\s?)*(?P<id>\d+)(?=\s*(?:[,;:!?)]|\.(?!\d)|$"
    r"|(?:now|today|and|so|but|please|show|list|give|tell|count|how|what|which)\b))"
)
_UNLESS_OWN = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\bas\s+(?:if\s+)?(?:(?:you|i)\s+(?:are|am|were|was)\s+|for\s+)?(?:the\s+)?{_USER}{_ID}",
        r"\b(?:i\s+am|i'm|im|this\s+is|you\s+are|assume|suppose|imagine|say|become|consider\s+me|call\s+me)\s+"
        rf"(?:(?:that|actually|really|now|also|in\s+fact|to\s+be)\s+)*(?:the\s+)?{_USER}{_ID}",
        rf"(?:{_MY_ID}|\bmy\s+(?:(?:real|actual|true|new|own|correct|other)\s+)?(?:user|account))"
        r"\s+(?:is|=|was|should\s+be|:)\s*"
        rf"(?:now\s+|actually\s+|really\s+)?(?:{_USER})?{_ID}",
        rf"{_MY_ID}\s+(?:(?:has|have|was|got|been|is)\s+){{0,2}}(?:changed|switched|updated|moved|set)\s+"
        rf"(?:from\s+\S{{1,40}}\s+)?(?:in)?to\s+{_ID}",
        rf"{_MY_ID}\s+(?:used\s+to\s+be|was|had\s+been)\s+\S{{1,40}}\s+(?:(?:and|but|it|now|today)\s+){{0,3}}"
        rf"(?:is|became|changed\s+to)\s+(?:now\s+)?{_ID}",
        r"\b(?:id|number|account|identity)\s+(?:for|of)\s+me\b\W+(?:it|which|that|the\s+right\s+one)\s+"
        rf"(?:should\s+be|is|must\s+be)\s+(?:now\s+)?{_ID}",
        rf"\b(?:i\s+am|i'm|im)\s+(?:(?:actually|really|now|in\s+fact)\s+)*{_WHO}",
        rf"\b(?:speaking|writing|asking|talking|answer|act|acting|(?:logged|signed)\s+in)\s+as\s+{_WHO}",
        rf"\b(?:make|set|switch|change|treat|let)\b.{{0,30}}\b{_USER}{_ID}",
    )
)


def changes_caller(text: str, own_ids: frozenset[str]) -> bool:
    """Says whether a plain text tries to change who the caller is or what rules hold; the own id is no change."""
    others = _OWN_FILTER.sub(" ", text)
    if any(pattern.search(others) for pattern in _RULES_TAKEN_OFF):
        return True
    if any(pattern.search(text) for pattern in _ALWAYS):
        return True
    return any(match["id"] not in own_ids for pattern in _UNLESS_OWN for match in pattern.finditer(text))
