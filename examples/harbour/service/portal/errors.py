"""What can go wrong for a caller."""


class PortalError(Exception):
    """An error that the caller may read."""

    status = 400


class NotFound(PortalError):
    """There is no such thing."""

    status = 404


class NotAllowed(PortalError):
    """The caller may not do this."""

    status = 403


class UpstreamFailed(PortalError):
    """Another service did not answer as it should."""

    status = 502
