"""The findings product: a log of static-analysis findings in, the same log with verdicts, a report and scores out."""
