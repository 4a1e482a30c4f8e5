"""The host's process that stands for a box's init where the box has none of ours: it speaks its protocol."""
