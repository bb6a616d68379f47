"""Code tools: fetch, read, search, list and find, at an exact commit of a git repository."""

import os

# gRPC's fork handlers crash the children that uvloop forks while calls are served; read when grpc is first imported.
# The children run git and ripgrep and never use gRPC.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
