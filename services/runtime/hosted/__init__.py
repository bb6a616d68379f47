"""Hosted graphs: LangGraph graphs that teams bring, and that know nothing of the platform (docs/adr/0065)."""
