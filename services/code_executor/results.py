"""What a tool call gives: text for the model, data for machines, and whether a cap cut it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from services.code_executor.fragments import Fragment
from services.code_executor.snapshots import Snapshot


@dataclass(frozen=True)
class Result:
    """The outcome of a tool call; `fragments` are those of its data, in the same order."""

    text: str
    data: dict[str, Any]
    truncated: bool
    fragments: tuple[Fragment, ...] = ()


def make_result(
    snapshot: Snapshot,
    *,
    heading: str = "",
    fragments: Sequence[Fragment] = (),
    listing: Sequence[str] = (),
    cuts: Sequence[str] = (),
    **data: Any,
) -> Result:
    """Puts a result together: heading, fragments, listing, and last what was cut."""
    cuts = list(dict.fromkeys(cuts))
    blocks = [heading, *(fragment.as_text(snapshot.commit) for fragment in fragments), "\n".join(listing)]
    blocks += [f"[cut: {cut}]" for cut in cuts]
    whole = {
        "commit": snapshot.commit,
        "fragments": [fragment.as_data(snapshot.commit) for fragment in fragments],
        "cuts": cuts,
        **data,
    }
    return Result("\n\n".join(block for block in blocks if block), whole, bool(cuts), tuple(fragments))
