"""Everything about boxes; knows no screen. The one door is :mod:`backends.engine`."""
