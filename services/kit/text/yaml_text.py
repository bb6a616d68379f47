"""YAML that people write, read so that whatever is wrong with it is said as YAML's own error, with its line."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

_MERGE = "tag:yaml.org,2002:merge"  # stands for the keys of another mapping, which this one may override


class Loader(yaml.SafeLoader):
    """Refuses a key given twice, the last of which would win without a word; and values that Python can't make.

    The library lets Python's own errors through for those: a 30th of February, a number of 5,000 digits.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Returns a node's value. Raises yaml.YAMLError."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
            raise yaml.constructor.ConstructorError(
                None, None, f"this is not a valid value: {error}", node.start_mark
            ) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Returns a mapping. Raises yaml.YAMLError."""
        seen: set[Hashable] = set()
        for key_node in (key_node for key_node, _ in node.value if key_node.tag != _MERGE):
            key = self.construct_object(key_node, deep=deep)
            if not isinstance(key, Hashable):
                continue  # for the library to refuse
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, loader: type[Loader] = Loader) -> Any:
    """Returns what a YAML document says, None where it is empty. Raises yaml.YAMLError, which says it on one line."""
    try:
        return yaml.load(text, loader)  # noqa: S506 - made of the safe one
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        where = f"line {place.line + 1}, column {place.column + 1}: " if place else ""
        raise yaml.YAMLError(f"{where}{error.problem or error.context}") from error
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deep") from error
