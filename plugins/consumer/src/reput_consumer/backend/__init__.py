"""What a consumer needs of the place where messages are: the port, and the store as the first one.

`reput_consumer.backend.consumerbackend` is the contract; a network behind it is another
implementation of that. Only this package knows the store.
"""
