"""The commits that were made in a box: read from a bundle, checked, carried or written out as mail."""
