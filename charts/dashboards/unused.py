"""Metrics that no panel and no alert shows, each with the reason."""

UNUSED = {
    "signalbox_lifted_tables_dropped": "of no effect on runs; `explain` tells who asks why code, and no table, decided",
    "signalbox_offline_model_completions": "the offline model is for development and tests",
    "signalbox_offline_model_errors": "the offline model is for development and tests",
    "signalbox_questions_escalated": "for those who ask how people answer; the oldest open question is on the overview",
    "signalbox_model_prompts_cut": "the log names the model with it, and `signalbox check-model` tries it",
    "signalbox_model_answers_mended": "for those who choose a model: how much of what it says has another form",
}
