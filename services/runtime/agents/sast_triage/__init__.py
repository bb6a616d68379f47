"""`sast_triage`: one static-analysis finding, to a verdict with evidence."""
