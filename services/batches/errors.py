"""What is refused of batches, and how the service fails.

SignalboxError
├── BatchNotFound            NOT_FOUND: no such batch, or none of the caller's
├── BatchStateWrong          FAILED_PRECONDITION: the batch is in another state than that needs
├── BatchItemsMissing        FAILED_PRECONDITION: items before these, or of the batch, are missing
├── BatchItemOther           ALREADY_EXISTS: the number has another input
├── BatchRequestReused       FAILED_PRECONDITION: the request id was used for another batch
├── BatchTooLarge            RESOURCE_EXHAUSTED: more items, or more bytes, than a batch may have
├── TooManyBatches           RESOURCE_EXHAUSTED: the caller has as many batches under way as one may
├── BatchesDraining          UNAVAILABLE: this replica shuts down; another one goes on
└── BatchDatabaseAway        UNAVAILABLE: the platform database can't be reached
"""

from __future__ import annotations

import grpc

from services.kit.errors import SignalboxError


class BatchNotFound(SignalboxError):
    """There is no such batch, or it is not the caller's."""

    reason = "BATCH_NOT_FOUND"
    code = grpc.StatusCode.NOT_FOUND


class BatchStateWrong(SignalboxError):
    """The batch is in another state than the call needs."""

    reason = "BATCH_STATE_WRONG"
    code = grpc.StatusCode.FAILED_PRECONDITION


class BatchItemsMissing(SignalboxError):
    """Items before those given are missing, or the batch has not as many as it is to have."""

    reason = "BATCH_ITEMS_MISSING"
    code = grpc.StatusCode.FAILED_PRECONDITION


class BatchItemOther(SignalboxError):
    """The number was given with another input before."""

    reason = "BATCH_ITEM_OTHER"
    code = grpc.StatusCode.ALREADY_EXISTS


class BatchRequestReused(SignalboxError):
    """The request id was used for a batch of another name."""

    reason = "BATCH_REQUEST_REUSED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class BatchTooLarge(SignalboxError):
    """More items, or more bytes, than a batch may have."""

    reason = "BATCH_TOO_LARGE"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class TooManyBatches(SignalboxError):
    """The caller has as many batches under way as one may."""

    reason = "TOO_MANY_BATCHES"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class BatchesDraining(SignalboxError):
    """This replica shuts down; another one goes on with a watch, behind the last item received."""

    reason = "BATCHES_DRAINING"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True


class BatchDatabaseAway(SignalboxError):
    """The platform database can't be reached."""

    reason = "BATCH_DATABASE_AWAY"
    code = grpc.StatusCode.UNAVAILABLE
    retryable = True
