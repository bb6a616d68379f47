"""A name for each result that stays the same when results come in another order or code moves within its file.

It is a digest of the tool, the rule, the path, the fingerprints that the tool gave, and the flagged code. Results
that share all of these are numbered by their place in the file.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.findings.sarif.log import Region, Result

# A fingerprint under this key is taken as it is: whoever made the log knew what to call the finding.
OWN_KEY = "signalbox/v1"
PROPERTY = "signalbox"
MAX_LENGTH = 256


@dataclass(frozen=True)
class Identity:
    """What a fingerprint is made of; `raw` is the result in the document, to part what nothing else parts."""

    tool: str
    rule: str
    path: str
    result: Result
    raw: Any

    @property
    def own(self) -> str:
        """The fingerprint that the log itself gives, or an empty string."""
        return self.result.fingerprints.get(OWN_KEY, "").encode("utf-8", "replace").decode()[:MAX_LENGTH]

    @property
    def kind(self) -> str:
        """Digest of everything but the place in the file."""
        given = {**self.result.partial_fingerprints, **self.result.fingerprints}
        given.pop(OWN_KEY, None)
        parts = [self.tool, self.rule, self.path, sorted(given.items()), self._flagged()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def place(self) -> tuple[int, int, int, int, str]:
        """What results of one kind are ordered by."""
        region = self._region()
        rest = json.dumps(_without_ours(self.raw), sort_keys=True)
        return (region.start_line, region.start_column, region.end_line, region.end_column, rest)

    def _region(self) -> Region:
        physical = self.result.locations[0].physical_location if self.result.locations else None
        return physical.region if physical else Region()

    def _flagged(self) -> str:
        snippet = self._region().snippet
        text = snippet.text if snippet else original_message(self.result)
        return " ".join(text.split())


def original_message(result: Result) -> str:
    """Returns a result's message without the verdict that an earlier investigation put into it."""
    ours = result.properties.get(PROPERTY)
    said = ours.get("message") if isinstance(ours, dict) else None
    return said if isinstance(said, str) and said in result.message.text else result.message.text


def fingerprints_of(identities: Sequence[Identity]) -> list[str]:
    """Returns the fingerprint of each result; no two are the same."""
    fingerprints = [identity.own for identity in identities]
    kinds = [identity.kind for identity in identities]
    shared = Counter(kinds)
    order = sorted(
        (index for index, own in enumerate(fingerprints) if not own),
        key=lambda index: (kinds[index], identities[index].place if shared[kinds[index]] > 1 else ()),
    )
    number: Counter[str] = Counter()
    for index in order:
        kind = kinds[index]
        number[kind] += 1
        fingerprints[index] = f"{kind[:40]}-{number[kind]}"
    return fingerprints


def _without_ours(raw: Any) -> Any:
    """Returns a result without what an earlier investigation wrote into it."""
    if not isinstance(raw, dict):
        return raw
    kept = {name: value for name, value in raw.items() if name not in ("properties", "suppressions", "message")}
    ours = {"properties": PROPERTY, "partialFingerprints": OWN_KEY}
    return {**kept, **{name: _without(key, raw.get(name)) for name, key in ours.items()}}


def _without(key: str, given: Any) -> dict[str, Any]:
    """Returns an object without a key; what is no object there gives way to one when it is written."""
    return {name: value for name, value in given.items() if name != key} if isinstance(given, dict) else {}
