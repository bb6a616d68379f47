"""Logs as scanners write them, by hand where a scanner is too heavy for a test."""

from __future__ import annotations

import copy
from typing import Any

SEMGREP: dict[str, Any] = {
    "version": "2.1.0",
    "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json",
    "runs": [
        {
            "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": []}],
            "tool": {
                "driver": {
                    "name": "Semgrep OSS",
                    "semanticVersion": "1.99.0",
                    "rules": [
                        {
                            "id": "python.lang.security.eval",
                            "name": "python.lang.security.eval",
                            "shortDescription": {"text": "Semgrep Finding: eval"},
                            "properties": {
                                "precision": "very-high",
                                "tags": ["CWE-95: Improper Neutralization of Directives", "OWASP-A03:2021", "security"],
                            },
                        }
                    ],
                }
            },
            "results": [
                {
                    "fingerprints": {"matchBasedId/v1": "requires login"},
                    "ruleId": "python.lang.security.eval",
                    "message": {"text": "Detected eval."},
                    "locations": [
                        {
                            "physicalLocation": {
                                "artifactLocation": {"uri": "src/app.py", "uriBaseId": "%SRCROOT%"},
                                "region": {
                                    "startLine": line, "startColumn": 5, "endLine": line, "endColumn": 20,
                                    "snippet": {"text": "    eval(name)"},
                                },
                            }
                        }
                    ],
                    "properties": {},
                }
                for line in (4, 9)
            ],
        }
    ],
}  # fmt: skip


def _location(index: int, line: int, text: str) -> dict[str, Any]:
    region = {"startLine": line, "startColumn": 3, "endColumn": 9}
    return {
        "physicalLocation": {"artifactLocation": {"uriBaseId": "SRC", "index": index}, "region": region},
        "message": {"text": text},
    }


def _file(uri: str, **fields: Any) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, **fields}}


CODEQL: dict[str, Any] = {
    "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
    "version": "2.1.0",
    "runs": [
        {
            "tool": {
                "driver": {"name": "CodeQL", "semanticVersion": "2.20.0"},
                "extensions": [
                    {"name": "codeql/suite-helpers"},
                    {
                        "name": "codeql/python-queries",
                        "rules": [
                            {"id": "py/other"},
                            {
                                "id": "py/command-line-injection",
                                "messageStrings": {"default": {"text": "This command depends on {0}."}},
                                "properties": {"tags": ["external/cwe/cwe-078", "external/cwe/cwe-088", "security"]},
                            },
                        ],
                    },
                ],
            },
            "originalUriBaseIds": {
                "ROOT": {"uri": "file:///home/ci/build/"},
                "SRC": {"uri": "src/", "uriBaseId": "ROOT"},
            },
            "artifacts": [
                {"location": {"uri": "web/a%20b.py", "uriBaseId": "SRC", "index": 0}},
                {"location": {"uri": "web/run.py", "uriBaseId": "SRC", "index": 1}},
            ],
            "results": [
                {
                    "ruleId": "py/command-line-injection",
                    "rule": {"id": "py/command-line-injection", "index": 1, "toolComponent": {"index": 1}},
                    "message": {"id": "default", "arguments": ["[user input](1)"]},
                    "locations": [_location(1, 20, "")],
                    "partialFingerprints": {"primaryLocationLineHash": "39fa2ee980eb94b0:1"},
                    "codeFlows": [
                        {
                            "threadFlows": [
                                {
                                    "locations": [
                                        {"location": _location(0, 3, "request")},
                                        {"index": 0},
                                        {"location": _location(1, 20, "command")},
                                    ]
                                }
                            ]
                        }
                    ],
                    "relatedLocations": [{"id": 1, **_location(0, 3, "user input")}],
                }
            ],
            "threadFlowLocations": [{"location": _location(0, 7, "passed on")}],
            "columnKind": "utf16CodeUnits",
        },
        {
            "tool": {
                "driver": {
                    "name": "Other",
                    "rules": [
                        {
                            "id": "X1",
                            "shortDescription": {"text": "Something is off."},
                            "relationships": [{"target": {"id": "327", "toolComponent": {"name": "CWE"}}}],
                        }
                    ],
                }
            },
            "taxonomies": [{"name": "CWE", "taxa": [{"id": "22"}, {"id": "611"}]}],
            "results": [
                {"ruleIndex": 0, "message": {"id": "none"}, "locations": [_file("x.py")]},
                {
                    "ruleId": "X1/case",
                    "message": {"text": "In words."},
                    "taxa": [{"index": 1, "toolComponent": {"name": "CWE", "index": 0}}],
                    "locations": [_file("file:///C:/work/repo/y.py")],
                },
                {"ruleId": "X2", "message": {"text": "No place at all."}},
                {"ruleId": "X1", "kind": "pass", "message": {"text": "Fine."}},
                {"ruleId": "X1", "baselineState": "absent", "message": {"text": "Gone."}},
                {
                    "ruleId": "X1",
                    "message": {"text": "Known."},
                    "suppressions": [{"kind": "inSource"}],
                },
                {
                    "ruleId": "X1",
                    "message": {"text": "Asked for."},
                    "suppressions": [{"kind": "external", "status": "rejected"}],
                    "locations": [_file("z.py", region={"startLine": 2})],
                },
            ],
        },
    ],
}  # fmt: skip


def log_of(*results: Any, tool: str = "Tool") -> dict[str, Any]:
    """A log with these results."""
    driver = {"name": tool}
    return {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": copy.deepcopy(list(results))}]}


def result(
    line: int, *, rule: str = "R1", uri: str = "app.py", snippet: str = "run(x)", **fields: Any
) -> dict[str, Any]:
    """A result on a line."""
    region = {"startLine": line, "snippet": {"text": snippet}}
    physical = {"artifactLocation": {"uri": uri}, "region": region}
    return {"ruleId": rule, "message": {"text": "Found."}, "locations": [{"physicalLocation": physical}], **fields}
