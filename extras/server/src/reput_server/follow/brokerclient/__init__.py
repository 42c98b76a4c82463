"""Requests to brokers and name servers, over RocketMQ's remoting protocol."""
