"""Starts the evaluator."""

from services.evaluator.server import build
from services.evaluator.settings import EvaluatorSettings
from services.kit.wire.server import main

if __name__ == "__main__":
    main("evaluator", EvaluatorSettings, build)
