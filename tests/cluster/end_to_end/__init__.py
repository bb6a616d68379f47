"""The end-to-end tests that need no more of a platform than its public API and its models, asked of a cluster's."""
