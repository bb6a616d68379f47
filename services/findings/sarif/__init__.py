"""SARIF 2.1.0 in and out: results become findings, verdicts become properties and suppressions."""
