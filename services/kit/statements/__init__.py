"""Whether a wording says what is so: what it states stands in what it words."""
