"""What the pages show, as plain values: read from the store by the functions behind the commands.

It must not know HTTP, HTML or a language of people.
"""
