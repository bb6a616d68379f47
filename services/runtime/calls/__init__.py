"""What the runtime calls: models, guard, evaluator, executors; what a call costs, and what its failure means."""
