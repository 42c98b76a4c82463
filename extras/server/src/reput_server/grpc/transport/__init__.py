"""gRPC's server side: HTTP/2 connections, calls, and the bytes of their messages."""
