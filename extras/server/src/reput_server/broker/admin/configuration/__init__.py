"""A broker's options, as operators ask for them and change them."""
