"""Names of the tools that executors serve and agents call, each spelt once."""

from typing import Final

# SQL executor.
EXECUTE_DB_QUERY: Final = "execute_db_query"
GET_FEW_SHOT_EXAMPLES: Final = "get_few_shot_examples"

# Code executor.
FETCH_CODE: Final = "fetch_code"
READ_FILE: Final = "read_file"
SEARCH_CODEBASE: Final = "search_codebase"
LIST_DIRECTORY: Final = "list_directory"
FIND_FILE: Final = "find_file"

# Graph executor.
ADD_NODE: Final = "add_node"
ADD_EDGE: Final = "add_edge"
UPDATE_PROPS: Final = "update_props"
DELETE_NODE: Final = "delete_node"
DELETE_EDGE: Final = "delete_edge"
QUERY_GRAPH: Final = "query_graph"
CYPHER_QUERY: Final = "cypher_query"

# Of the graph executor, for the platform's own calls.
READ_CHANGES: Final = "read_changes"
PREVIEW_CHANGES: Final = "preview_changes"
UNDO_CHANGE: Final = "undo_change"

# What executors offer to models, by the executor's name.
OFFERED: Final = {
    "sql_executor": (EXECUTE_DB_QUERY, GET_FEW_SHOT_EXAMPLES),
    "code_executor": (FETCH_CODE, READ_FILE, SEARCH_CODEBASE, LIST_DIRECTORY, FIND_FILE),
    "graph_executor": (ADD_NODE, ADD_EDGE, UPDATE_PROPS, DELETE_NODE, DELETE_EDGE, QUERY_GRAPH, CYPHER_QUERY),
    # Those of MCP servers, whose names its configuration has.
    "mcp_executor": (),
}
