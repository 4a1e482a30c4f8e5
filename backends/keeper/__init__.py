"""The host process of one live box, its client, and the box's own init.

``client`` starts a keeper or talks to one; ``main`` is its start, ``keeper`` its life, ``loop`` its loop.
``server``, ``peer``, ``protocol`` and ``requests`` are the side of the clients; ``link`` and ``init*`` the
side of the box; ``sessions``, ``session``, ``relay``, ``terminal`` and ``ends`` what runs between them.
``gate`` and its helpers answer notifications and name what was tried; ``denials``, ``budget`` and
``recorder`` write it down.
"""
