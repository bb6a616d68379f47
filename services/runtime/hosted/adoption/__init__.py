"""Lifted tables as source of a team's own: the module of tables, its tests, and the edge that names the table."""
