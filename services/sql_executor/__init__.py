# What `signalbox` runs in the image of this service.
COMMANDS = {
    "load-examples": "services.sql_executor.load_examples",
    "sql-policy": "services.sql_executor.provisioning",
}
