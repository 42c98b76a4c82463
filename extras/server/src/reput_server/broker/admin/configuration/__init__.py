"""A broker's options, as operators read and change them."""
