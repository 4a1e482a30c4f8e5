"""An export, read again as a review on a host that need not have its box.

Whatever it says is the word of whoever sent it: decoded by type and bounded (:mod:`.decoding`), laid beside
the patch itself (:mod:`.heads`), and where a repository with the base is at hand proved by making the tree
again (:mod:`.rerun`).
"""
