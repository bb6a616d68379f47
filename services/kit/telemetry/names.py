"""Names that traces, logs, metrics and metadata share, each spelt once."""

from typing import Final

ERROR_DOMAIN: Final = "signalbox"
METRIC_PREFIX: Final = "signalbox_"

# Fields of log lines, span attributes (with the prefix "signalbox.") and baggage (likewise).
RUN_ID: Final = "run_id"
CORRELATION_ID: Final = "correlation_id"
DECISION_ID: Final = "decision_id"
AGENT: Final = "agent"
CONVERSATION_ID: Final = "conversation_id"
ROUTER: Final = "router"
RULE: Final = "rule"
DESTINATION: Final = "destination"
NODE: Final = "node"
EPOCH: Final = "epoch"
OUTCOME: Final = "outcome"
LINKED_BY: Final = "linked_by"
THREAD: Final = "thread"
ANSWER: Final = "answer"
POLICY_VERSION: Final = "policy_version"
TOOL_COUNT: Final = "tool_count"
FINDING_ID: Final = "finding_id"
FINDING_RULE: Final = "finding_rule"
BATCH_ID: Final = "batch_id"
INCIDENT_ID: Final = "incident_id"

ATTRIBUTE_PREFIX: Final = "signalbox."
BAGGAGE_FIELDS: Final = (RUN_ID, CORRELATION_ID, DECISION_ID, AGENT)

# Metadata keys of gRPC calls.
AUTHORIZATION: Final = "authorization"
BEARER: Final = "Bearer"

# Audiences and issuers of the platform's own tokens.
AUDIENCE_RUNTIME: Final = "signalbox-runtime"
# The one audience that run tokens had before each service had its own; see docs/adr/0016-run-tokens.md.
AUDIENCE_ANY_SERVICE: Final = "signalbox-executor"
AUDIENCE_GUARD: Final = "signalbox-guard"
AUDIENCE_EVALUATOR: Final = "signalbox-evaluator"
AUDIENCE_SQL_EXECUTOR: Final = "signalbox-sql-executor"
AUDIENCE_CODE_EXECUTOR: Final = "signalbox-code-executor"
AUDIENCE_MCP_EXECUTOR: Final = "signalbox-mcp-executor"
AUDIENCE_GRAPH_EXECUTOR: Final = "signalbox-graph-executor"
AUDIENCE_BATCHES: Final = "signalbox-batches"
ISSUER_GATEWAY: Final = "signalbox-gateway"
ISSUER_RUNTIME: Final = "signalbox-runtime"
ISSUER_BATCHES: Final = "signalbox-batches"
# The label by which runs are known to be a batch's.
LABEL_BATCH: Final = "batch"

# Roles that the platform itself knows.
ROLE_ADMIN: Final = "admin"
ROLE_OPERATOR: Final = "operator"

# GenAI semantic conventions, https://opentelemetry.io/docs/specs/semconv/gen-ai/
GEN_AI_OPERATION: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER: Final = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_CHAT: Final = "chat"
GEN_AI_EXECUTE_TOOL: Final = "execute_tool"
GEN_AI_INVOKE_AGENT: Final = "invoke_agent"

# General and RPC semantic conventions.
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
RPC_SYSTEM: Final = "rpc.system"
RPC_METHOD: Final = "rpc.method"
RPC_STATUS: Final = "rpc.grpc.status_code"
