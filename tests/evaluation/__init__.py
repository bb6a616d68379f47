"""What agents answer to people's own words, scored: `make eval` says how; cases/ holds the words and their truth."""
