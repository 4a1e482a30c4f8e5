"""What each verb does, one module per subject; :mod:`backends.engine` is the door to them."""
