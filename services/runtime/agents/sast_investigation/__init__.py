"""`sast_investigation`: one finding of a batch, through research, analysis and evaluation."""
