"""What two or more services share: settings, telemetry, gRPC server and client, identity, errors."""
