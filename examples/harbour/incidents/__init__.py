"""Incidents of the harbour's services: what they depend on, what was measured and deployed, and what is configured.

Everything follows from a `ServiceWorld`: names, present and cases can be others, and the evidence is there for those.
"""
