"""Decision tables for LangGraph's conditional edges: ordered rules over facts and limits, as data."""
