"""The one public gRPC API: authentication, quotas, validation, and streams that survive their replica."""
