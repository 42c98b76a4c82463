"""RocketMQ's MessagingService v2 over gRPC, for its 5.x clients, of a server of reput."""

from __future__ import annotations

from reput_server.grpc.service import GrpcService

__all__ = ["GrpcService"]
