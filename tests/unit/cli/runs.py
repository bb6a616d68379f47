"""Runs and decisions as the platform returns them, for tests of what the command shows."""

from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from signalbox.v1 import caller_pb2, data_chat_pb2, runs_pb2, table_pb2

RUN_ID = "0199a0c0-0000-7000-8000-000000000000"


def struct(**values: object) -> Struct:
    return ParseDict(values, Struct())


def usage(tokens_in: int, tokens_out: int) -> caller_pb2.TokenUsage:
    return caller_pb2.TokenUsage(input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out)


def table(*, truncated: bool = False) -> table_pb2.Table:
    return table_pb2.Table(
        columns=[
            table_pb2.Column(name="name", type=table_pb2.COLUMN_TYPE_TEXT),
            table_pb2.Column(name="temperature", type=table_pb2.COLUMN_TYPE_DOUBLE),
            table_pb2.Column(name="online", type=table_pb2.COLUMN_TYPE_BOOL),
        ],
        rows=[
            table_pb2.Row(
                values=[
                    table_pb2.Cell(text_value="engine-room-007"),
                    table_pb2.Cell(double_value=45.25),
                    table_pb2.Cell(bool_value=True),
                ]
            ),
            table_pb2.Row(values=[table_pb2.Cell(text_value="cabin-001"), table_pb2.Cell(), table_pb2.Cell()]),
        ],
        truncated=truncated,
        truncated_by="row_cap" if truncated else "",
    )


def run(**changes: object) -> runs_pb2.Run:
    """A run that answered its question."""
    given = runs_pb2.Run(
        run_id=RUN_ID,
        agent="data_chat",
        caller=caller_pb2.Caller(subject="27"),
        state=runs_pb2.RUN_STATE_SUCCEEDED,
        input=runs_pb2.RunInput(data_chat=data_chat_pb2.DataChatInput(question="Which devices are hot?")),
        output=runs_pb2.RunOutput(
            data_chat=data_chat_pb2.DataChatOutput(
                answer="Two devices are hot.",
                sql_query="SELECT name, temperature FROM devices",
                rows=table(),
                csv="name,temperature,online\r\nengine-room-007,45.25,true\r\ncabin-001,,\r\n",
                token_usage=usage(700, 112),
            )
        ),
        spend=runs_pb2.Spend(model_calls=3, token_usage=usage(700, 112), tool_calls=1),
    )
    given.start_time.FromSeconds(1_790_000_000)
    given.end_time.FromMilliseconds(1_790_000_001_250)
    for name, value in changes.items():
        setattr(given, name, value)
    return given


def decisions() -> list[runs_pb2.Decision]:
    """The decisions of a run that went round once."""
    return [
        runs_pb2.Decision(
            sequence=1, node="screen_question", node_elapsed_ms=35.4, router="data_chat.route_after_screen",
            rule="allowed", destination="agent", policy_version="39527fab",
            grounds=struct(screening="allowed"),
            rejected_rules=[runs_pb2.TriedRule(rule="blocked", grounds=struct(screening="allowed"))],
            calls=[
                runs_pb2.NodeCall(
                    kind="guard", name="screen", outcome="ok", elapsed_ms=33.1, token_usage=usage(146, 1)
                )
            ],
        ),
        runs_pb2.Decision(
            sequence=2, node="agent", node_elapsed_ms=1250, router="data_chat.route_after_agent",
            rule="tool_calls", destination="tools", policy_version="39527fab",
            grounds=struct(tool_count=1),
            rejected_rules=[
                runs_pb2.TriedRule(rule="already_answered", grounds=struct(already_answered=False)),
                runs_pb2.TriedRule(rule="iteration_limit", grounds=struct(iteration_count=1, max_iterations=3)),
            ],
            calls=[
                runs_pb2.NodeCall(
                    kind="model", name="big", outcome="ok", elapsed_ms=1200, token_usage=usage(500, 40)
                ),
                runs_pb2.NodeCall(kind="tool", name="execute_db_query", outcome="restricted_table", elapsed_ms=0.4),
            ],
        ),
        runs_pb2.Decision(
            sequence=3, node="tools", node_elapsed_ms=8, router="data_chat.route_after_tools",
            rule="iteration_limit", destination="__end__", policy_version="39527fab",
        ),
    ]  # fmt: skip
