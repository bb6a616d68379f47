"""`graph_editor`: changes or queries a property graph in natural language, with a person where it matters."""
