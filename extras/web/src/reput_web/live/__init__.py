"""Pages over a store that another part of the process serves or follows: figures and actions."""
