"""What the code that is run asks of the program around it."""

from __future__ import annotations

import ast
from typing import Protocol

from services.offline_model.code_review.library import Called
from services.offline_model.code_review.shown import Function, ShownFile
from services.offline_model.code_review.values import Origin, Value


class Surroundings(Protocol):
    """What a function or a module that is run asks about everything that is outside it."""

    weakness: str

    def is_defined(self, method: str) -> bool: ...

    def is_plain(self, attribute: str) -> bool: ...

    def step(self) -> None: ...

    def global_value(self, name: str, file: ShownFile) -> Value | None: ...

    def attribute_value(self, attribute: str, file: ShownFile, node: ast.expr) -> Value: ...

    def module_attribute(self, full_name: str, file: ShownFile) -> Value | None: ...

    def is_replaced(self, full_name: str) -> bool: ...

    def written_elsewhere(
        self, name: str, value: Value, file: ShownFile, function: Function | None
    ) -> Origin | None: ...

    def returned(self, called: Called, file: ShownFile) -> tuple[Value | None, bool]: ...

    def is_shown(self, node: ast.Call, file: ShownFile) -> bool: ...

    def seen(self, node: ast.AST, value: Value) -> None: ...

    def seen_call(self, called: Called) -> None: ...
