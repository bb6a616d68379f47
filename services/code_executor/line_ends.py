"""Characters at which some compilers end a line, and files are not parted: lines are numbered by line feeds."""

from __future__ import annotations

import re
from typing import Final

# Within a line, not at its own end.
INNER_RETURN: Final = re.compile("\r(?!\r*(?:\n|\\Z))")
# A script's lines, also one's within other text, end at the separators too.
INNER_LINE_END: Final = re.compile(f"{INNER_RETURN.pattern}|[\u2028\u2029]")
