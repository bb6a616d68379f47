"""Understanding data questions near an example: prompts, questions taken apart, statements edited, results worded."""
