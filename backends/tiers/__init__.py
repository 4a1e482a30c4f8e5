"""The tiers by name. One module each; nothing else in the engine knows a tier by name."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing itself would be in the memory of every init
if TYPE_CHECKING:
    from backends.tiers.protocol import Tier

# Imported when asked for: a command that only lists boxes needs none of them.
MODULES: dict[str, str] = {
    "workspace": "backends.tiers.workspace",
    "process": "backends.tiers.process",
    "supervised": "backends.tiers.supervised",
    "container": "backends.tiers.container",
    "microvm": "backends.tiers.microvm",
}


def get(name: str) -> Tier:
    """The tier of that name; ``UsageError`` where this version has none."""
    module = MODULES.get(name)
    if module is None:
        from backends.errors import UsageError  # what becomes a box's init comes past here and does without

        raise UsageError(
            f"there is no tier {name}",
            f"this version has {', '.join(sorted(MODULES))}",
            "cloche probe lists what this host can enforce",
            code="no-such-tier",
        )
    tier: Tier = import_module(module).TIER
    return tier
