"""An OpenAI-compatible server with a few deterministic skills; development and tests only."""
