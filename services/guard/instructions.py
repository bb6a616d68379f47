"""Finds texts that talk to whoever reads them instead of saying what is wanted or wrong: for goals, answers, incidents.

A goal may delete things, name people, rules and roles, and set any property to any words: who may do that is decided
where it is done. It may not claim another identity, tell its readers to forget what they were told, or ask for what the
platform keeps to itself.
"""

from __future__ import annotations

import re

_ROLES = r"(?:admin(?:istrator)?s?|root(?!\s+cause)|super\s?users?|sudo|dba|god)"
_OTHERS = r"(?:another|a\s+different|any\s+other|some(?:one|body)\s+else|any(?:one|body)|every(?:one|body))"
_POWERS = r"(?:access|rights?|privileges?|permissions?|powers?)"
_DO = (
    r"(?:act|acting|answer|behave|respond|run|execute|apply|perform|proceed|do\s+(?:it|this|that|so)|log(?:ged)?\s?in)"
)
_OFF = (
    r"(?:ignor(?:e|es|ed|ing)|disregard|forget|override|bypass|circumvent|skip|disable|drop|omit|lift|deactivate"
    r"|turn\s+off|switch\s+off|stop\s+following|do\s+not\s+follow|don't\s+follow)"
)
# What readers were told, which is no node of a graph: "your rules", "all previous instructions", "the rules above".
_EARLIER = r"(?:previous|prior|preceding|earlier|above|former|existing|original|initial|given)"
_WHOSE = rf"(?:your|{_EARLIER}|system|the\s+guard'?s?|the\s+platform'?s?|signalbox'?s?|safety|security|access)"
_TOLD = (
    r"(?:instructions?|rules?|prompts?|restrictions?|filters?|polic(?:y|ies)|guidelines?|limits|limitations?|checks?"
    r"|guard(?:rails?)?|constraints?|directives?|orders?|safeguards?)"
)
_WORDS = r"\W+(?:\w+\W+){0,3}?"

_RULES_OFF = (
    rf"\b{_OFF}{_WORDS}{_WHOSE}\W+(?:\w+\W+){{0,2}}?{_TOLD}\b",
    # Bare instructions are never a graph's.
    rf"\b{_OFF}{_WORDS}(?:instructions?|prompts?|guardrails?|directives?|safeguards?)\b",
    rf"\b{_OFF}\W+(?:all|any|every)\W+(?:\w+\W+){{0,2}}?{_TOLD}\b",
    rf"\b{_OFF}{_WORDS}(?:what|everything|anything|all)\W+(?:\w+\W+){{0,2}}?(?:told|said|above|before|instructed)\b",
    rf"\b{_TOLD}\W+(?:above|before\s+this|so\s+far)\W+(?:\w+\W+){{0,4}}?(?:void|invalid|obsolete|no\s+longer|do\s+not\s+apply)",
    # Languages that put the verb last, as the vocabulary marks them.
    rf"\b(?:instructions?|prompts?|guardrails?|{_EARLIER}\W+{_TOLD})\W+(?:\w+\W+){{0,4}}?ignored\b",
)
_PROMPT_TRICKS = (
    r"\b(?:new|updated|revised|real|actual)\s+(?:system\s+)?instructions?\s*(?:are|is|:)",
    r"\bsystem\s+(?:prompt|override)\b|\bjailbr(?:ea|o)k",
    r"\b(?:enter|activate|enable|you\s+are(?:\s+now)?\s+in|switch\s+(?:in)?to)\W+(?:\w+\W+){0,2}?"
    r"(?:developer|god|admin|dan|root|debug|maintenance)\s+mode\b",
    r"<\|?\W*(?:system|im[\s_]start|assistant|inst)\b|\[/?\s*inst\s*\]|^\W*(?:system|assistant)\s*:|\{\W*role\W{1,6}system\b",
    r"\b(?:answer|reply|respond|say|output|return|print)\W+(?:\w+\W+){0,4}?(?:the\s+word\W+|with\W+)?"
    r"[\"']?allow(?:ed)?[\"']?(?!\w|\s+\w)",
    r"\bverdict\W+(?:is\W+)?allow\b",
    r"\bfrom\s+now\s+on\W+(?:\w+\W+){0,2}?(?:you|your)\b|\byou\s+are\s+no\s+longer\b|\byou\s+are\s+now\s+(?:an?|the)\b",
    r"\byou\s+(?:must|may|can|should|will)\s+(?:now\s+)?(?:ignore|disregard|forget|obey\s+only)\b",
)
_SOMEBODY_ELSE = (
    r"\bimpersonat|\bmasquerad|\b(?:pretend|act)\s+(?:that\s+|as\s+if\s+|to\s+be\s+|like\s+)+(?:you|i|we|the|an?)\b|\brole\s?-?play",
    r"\bpretend\s+(?:you|i)\b",
    rf"\b{_DO}\s+(?:[\w-]+\s+){{0,6}}?as\s+(?:if\s+)?(?:(?:you|i)\s+(?:are|am|were|was)\s+)?(?:the\s+|an?\s+)?(?:{_ROLES}|{_OTHERS})\b",
    r"\b(?:i\s+am|i'm|im|i\s+have\s+become|you\s+are|you're|consider\s+me|treat\s+me\s+as|make\s+me|let\s+me\s+be)\s+"
    rf"(?:(?:actually|really|now|also|in\s+fact|logged\s+in\s+as|signed\s+in\s+as)\s+)*(?:the\s+|an?\s+|of\s+)?{_ROLES}\b",
    rf"\b(?:i\s+have|i've\s+got)\W+(?:\w+\W+){{0,2}}?{_ROLES}\s+(?:{_POWERS}|roles?)\b",
    rf"\b(?:grant|give)\s+me\b.{{0,30}}\b(?:{_POWERS}|roles?)\b",
    rf"\b(?:using|under)\s+(?:the\s+)?{_ROLES}\s+(?:{_POWERS}|roles?|identity)\b",
    rf"\b{_DO}\s+(?:[\w-]+\s+){{0,6}}?with\s+(?:the\s+)?{_ROLES}\s+(?:{_POWERS}|roles?|identity)\b",
    r"\b(?:elevate|escalate|raise|extend|widen)\s+(?:my|our)\s+(?:privileges?|permissions?|access|rights?|roles?)\b",
    r"\b(?:change|switch|swap|replace|spoof|fake|alter|override|set)\s+(?:my|the\s+(?:current|calling)|this\s+run's)\s+"
    r"(?:user(?:[\s_]?id|[\s_]?name)?|caller|identity|subject|tenant|role)\b",
    r"\b(?:spoof|fake|forge|change|switch|override|set)\s+(?:(?:the|my)\s+)?(?:caller|identity|run\s+token)\b",
    r"\bswitch\s+(?:to\s+)(?:the\s+)?(?:user|account|caller)\b",
    r"\b(?:assume|take\s+on|adopt|steal|use)\s+(?:the\s+)?(?:identity|session|token|credentials|account)\s+of\b",
    rf"\b(?:on\s+behalf\s+of|in\s+the\s+name\s+of)\s+(?:the\s+|an?\s+)?(?:{_ROLES}|{_OTHERS})\b",
    r"\bi\s+(?:am\s+|'m\s+)?(?:act(?:ing)?|speak(?:ing)?|ask(?:ing)?|do(?:ing)?\s+this)\s+(?:on\s+behalf|in\s+the\s+name)\s+of\b",
)
_SHOW = (
    r"(?:reveal|show|print|repeat|tell|give|output|display|leak|dump|send|write|copy|recite|quote|summari[sz]e|translate"
    r"|encode|store|save|put|include|what\s+(?:is|are|was|were))"
)
_PLATFORMS_OWN = (
    rf"\b{_SHOW}\b(?:\W+\w+){{0,6}}?\W+your\W+(?:\w+\W+){{0,2}}?"
    r"(?:instructions?|prompts?|guidelines|directives?|rules|context|system\s+messages?)\b",
    rf"\b{_SHOW}\b(?:\W+\w+){{0,6}}?\W+(?:system|hidden|initial|original|secret)\W+(?:instructions?|prompts?|directives?)\b",
    r"\b(?:repeat|print|output|copy|recite|translate)\W+(?:\w+\W+){0,3}?"
    r"(?:words|text|everything|all|lines?|messages?|content)\W+(?:\w+\W+){0,2}?(?:above|before\s+this|so\s+far)\b",
    rf"\b{_SHOW}\b(?:\W+\w+){{0,6}}?\W+(?:your|the\s+platform'?s?|signalbox'?s?|this\s+run's|the\s+guard'?s?)\W+(?:\w+\W+){{0,2}}?"
    r"(?:api\s?keys?|credentials?|private\s+keys?|secret\s+keys?|secrets|tokens?|connection\s+strings?"
    r"|env(?:ironment)?\s+var(?:iable)?s?)\b",
    r"\b(?:me|is|are)\s+your\s+passwords?\b",
    r"\b(?:the|this|your)\s+(?:run|bearer)\s+token\b|\bsignalbox_[a-z_]*(?:key|dsn|token|password)\b",
)
# What an incident says to whoever investigates it. Services ignore rules, skip checks and act as other users every day;
# instructions and prompts are only ever those of a reader.
_TO_INVESTIGATOR = tuple(
    re.compile(pattern)
    for pattern in (
        _RULES_OFF[1],
        rf"\b{_OFF}{_WORDS}your\W+(?:\w+\W+){{0,2}}?{_TOLD}\b",
        rf"\b(?:ignore|disregard|forget){_WORDS}(?:what|everything|anything|all)\W+(?:\w+\W+){{0,2}}?"
        r"(?:told|said|above|before|instructed)\b",
        r"\b(?:new|updated|revised|real|actual)\s+(?:system\s+)?instructions?\s*(?:are|is|:)",
        r"\bsystem\s+prompt\b|\bjailbr(?:ea|o)k",
        r"<\|?\W*(?:system|im[\s_]start|assistant|inst)\b|\[/?\s*inst\s*\]|\{\W*role\W{1,6}system\b",
        r"\bfrom\s+now\s+on\W+(?:\w+\W+){0,2}?(?:you|your)\b|\byou\s+are\s+no\s+longer\b|\byou\s+are\s+now\s+(?:an?|the)\b",
        r"\byou\s+(?:must|should|shall|will|have\s+to|are\s+to)\s+(?:now\s+|only\s+|always\s+)?"
        r"(?:ignore|disregard|forget|obey|say|answer|conclude|report|reply|state|blame|not\s+(?:look|investigate|query|read))\b",
        r"\b(?:conclude|answer|reply|respond)\s+(?:only\s+)?(?:that|with)\s+(?:the\s+)?(?:root\s+)?cause\b|\bcause_found\b",
        *_PLATFORMS_OWN[:2],
    )
)
_RULES = tuple(re.compile(pattern) for pattern in (*_RULES_OFF, *_PROMPT_TRICKS, *_SOMEBODY_ELSE))
_SECRETS = tuple(re.compile(pattern) for pattern in _PLATFORMS_OWN)

_NAME = r"[#\s:=\"']*(?P<id>[\w+-][\w.@+-]*[\w+-]|\w)"
_USER = r"(?:user|caller|account|customer|owner|person|uid|userid)"
_NOW = r"(?:(?:actually|really|now|in\s+fact|called|named|to\s+be)\s+)*"
_UNLESS_OWN = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_DO}\s+(?:[\w-]+\s+){{0,6}}?as\s+(?:if\s+)?(?:(?:you|i)\s+(?:are|am|were|was)\s+)?(?:the\s+)?{_USER}{_NAME}",
        rf"\b(?:i\s+am|i'm|you\s+are|assume\s+i\s+am|consider\s+me|call\s+me|treat\s+me\s+as)\s+{_NOW}(?:the\s+)?{_USER}{_NAME}",
        # "I am john.doe": what looks like a key of somebody, and not like a word.
        rf"\b(?:i\s+am|i'm)\s+{_NOW}(?P<id>(?=[\w+-]*[a-z])[\w+-]+[.@_][\w.@+-]*\w)",
        r"\bmy\s+(?:(?:real|actual|true|new)\s+)?(?:user\s?(?:id|name)?|caller\s?id|identity|account)\s+(?:is|=|should\s+be|:)\s*"
        rf"(?:now\s+|actually\s+|really\s+)?(?:{_USER})?{_NAME}",
    )
)


def talks_to_its_readers(text: str, own_ids: frozenset[str]) -> bool:
    """Says whether a plain text claims another identity or would have its readers forget their rules."""
    if any(pattern.search(text) for pattern in _RULES):
        return True
    return any(match["id"] not in own_ids for pattern in _UNLESS_OWN for match in pattern.finditer(text))


def instructs_investigator(text: str) -> bool:
    """Says whether a plain text of an incident tells whoever investigates it what to do or to find."""
    return any(pattern.search(text) for pattern in _TO_INVESTIGATOR)


def asks_for_platform_secrets(text: str) -> bool:
    """Says whether a plain text asks for prompts, tokens or keys of the platform."""
    return any(pattern.search(text) for pattern in _SECRETS)
