"""Whether the image of a box is still the one that its policy pins."""

from __future__ import annotations

from backends.doctor.policy import trusted
from backends.doctor.rows import Box, Voice, command
from backends.errors import ClocheError
from backends.snapshots import Finding

WHY = "other programs would run in the box than those that were agreed on"
GONE = "the box does not start: it was made for exactly this image"


def check(box: Box) -> list[Finding]:
    """One row for a box whose policy names an image, and one where its name means another image by now."""
    policy = trusted(box.paths, box.manifest)
    if policy is None or not policy.image:
        return []
    voice = Voice(box.paths.key, "image")
    name, at, digest = policy.image.partition("@")
    if not at or not digest.startswith("sha256:"):
        remedy = command("cloche", "policy", "explain", box.paths.key)
        return [voice.fail("the image is not pinned", policy.image, WHY, remedy)]
    from backends.container import images

    try:
        image = images.pinned(digest)
    except ClocheError as error:
        return [voice.error(error, GONE)]
    rows = [voice.ok("the image is in the store, as it was pinned", policy.image)]
    if images.full_name(name) not in image.names:
        voice = Voice(box.paths.key, "image-name")
        text = f"{name} means another image by now, or none"
        why = "the box keeps its own; a new box of this name would run other programs"
        rows.append(
            voice.note(text, ", ".join(image.names) or "the image has no name", why, "cloche image ls")
        )
    return rows
