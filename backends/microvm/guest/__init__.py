"""What runs inside a guest: its first process, packed with the host's own interpreter into an initramfs.

Nothing here is trusted by the host. No module of this room may import one that is not needed inside, because
all of it is part of every guest's memory.
"""
