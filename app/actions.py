"""Everything a person can do in the workbench, in one table.

The footer, the help screen, the command palette, the key bindings and the documentation are made from it, so
none of them can say something that the others do not. Why an action cannot be done now is part of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.action import Action, Situation
from app.actions_compare import COMPARE
from app.actions_gate import GATE
from app.actions_matrix import MATRIX
from app.actions_triage import TRIAGE
from backends.snapshots import BoxRow

if TYPE_CHECKING:
    from textual.binding import BindingType


def _needs_box(situation: Situation) -> str:
    return situation.busy or ("" if situation.box is not None else "no box is selected")


def _shell(situation: Situation) -> str:
    box = situation.box
    if box is None:
        return "no box is selected"
    if box.state == "proposed":
        return "the box is frozen as a proposal; reopen it first"
    if box.state in ("applied", "aborted"):
        return f"the box was {box.state}; nothing runs in it any more"
    return _lost(box)


def _lost(box: BoxRow) -> str:
    return "its keeper was lost; abort or remove the box" if box.live == "lost" else ""


def _stop(situation: Situation) -> str:
    if situation.box is None or situation.busy:
        return _needs_box(situation)
    return "" if situation.box.live in ("live", "slow") else "nothing runs in this box"


def _kill(situation: Situation) -> str:
    if situation.process_ended:
        return "that process has ended; select another"
    return "" if situation.process is not None else "no process is selected"


def _allow(situation: Situation) -> str:
    return situation.busy or ("" if situation.denial is not None else "no denial is selected")


def _review(situation: Situation) -> str:
    box = situation.box
    if box is None or situation.busy:
        return _needs_box(situation)
    if box.state == "aborted":
        return "the box was aborted; there is nothing to review"
    if box.state in ("proposed", "applied"):
        return ""
    if box.processes:
        return "processes still run; stop the box before its result is frozen"
    return _lost(box)


def _reopen(situation: Situation) -> str:
    box = situation.box
    if box is None or situation.busy:
        return _needs_box(situation)
    return "" if box.state == "proposed" else "only a proposal can be reopened"


def _unapply(situation: Situation) -> str:
    box = situation.box
    if box is None or situation.busy:
        return _needs_box(situation)
    if box.state == "proposed":
        return "the box is frozen as a proposal; reopen it first"
    return "" if box.state in ("applied", "idle") else f"the box is {box.state}: nothing of it was applied"


def _rebase(situation: Situation) -> str:
    box = situation.box
    if box is None or situation.busy:
        return _needs_box(situation)
    if not box.base_ref:
        return "the box has no branch that it could be brought onto"
    if box.state in ("idle", "proposed"):
        return "" if box.drift != 0 else "its branch has not moved on"
    if box.processes:
        return "processes still run; stop the box before its files are changed"
    return f"the box is {box.state}"


def _tell(situation: Situation) -> str:
    box = situation.box
    if box is None or situation.busy:
        return _needs_box(situation)
    if box.state == "proposed":
        return "the box is frozen as a proposal; request changes of it first"
    return "" if box.state == "running" else "nothing runs in it: open a terminal and start the agent"


def _abort(situation: Situation) -> str:
    box = situation.box
    if box is None or situation.busy:
        return _needs_box(situation)
    return f"the box was {box.state} already" if box.state in ("applied", "aborted") else ""


ACTIONS: tuple[Action, ...] = (
    # Anywhere
    Action("help", "question_mark,f1", "help", "Every key of this screen, and what it does", ("anywhere",)),
    Action("palette", "ctrl+p", "palette", "Find an action or a box by name", ("anywhere",)),
    Action("quit", "ctrl+q", "quit", "Leave the workbench; boxes go on running", ("anywhere",), footer=False),
    Action(
        "theme",
        "f9",
        "theme",
        "Switch between the dark, the light and the terminal's own colours",
        ("anywhere",),
        footer=False,
    ),
    Action(
        "back",
        "escape,backspace",
        "back",
        "Return to the screen before",
        ("box", "gate", "denial", "compare", "matrix", "triage"),
    ),
    # Denials
    Action(
        "allow",
        "a",
        "propose",
        "Propose the narrowest rule that would allow the selected denial; shows the change and asks first",
        ("denials", "denial"),
        reason=_allow,
    ),
    Action(
        "events",
        "enter",
        "events",
        "The events of the selected denial, then the rule that refused it",
        ("denials",),
        own=True,
    ),
    Action("why", "enter", "rule", "From the events to the rule that refused them", ("denial",), own=True),
    # Fleet
    Action("open", "enter", "open", "Open the selected box", ("fleet",), own=True, reason=_needs_box),
    Action("new", "n", "new", "Make a box: which failure must not happen?", ("fleet",)),
    Action(
        "terminal",
        "t",
        "terminal",
        "Open a shell in the box, on a pseudo-terminal of its own",
        ("fleet", "box"),
        reason=_shell,
    ),
    Action(
        "review",
        "E",
        "review",
        "Freeze the box's result and read it beside its evidence",
        ("fleet", "box", "compare"),
        reason=_review,
    ),
    Action(
        "stop",
        "X",
        "stop",
        "End every process of the box; its files stay",
        ("fleet", "box"),
        danger=True,
        reason=_stop,
    ),
    Action("waiting", "w", "waiting", "Go to the next box that needs a person", ("fleet",), footer=False),
    Action(
        "across",
        "up,down,left,right",
        "move",
        "Go to the neighbouring pane",
        ("fleet",),
        own=True,
        footer=False,
    ),
    Action(
        "order",
        "o",
        "order",
        "Order the boxes by age, or by what was refused since you looked at each",
        ("fleet",),
    ),
    Action("view", "c", "cycle", "Panes show the process tree, denials, the diff, or output", ("fleet",)),
    Action("table", "v", "table", "Switch between panes and a table", ("fleet",)),
    Action(
        "filter", "slash", "filter", "Show the boxes whose name, state or last line holds a text", ("fleet",)
    ),
    Action("everywhere", "a", "all repos", "Show the boxes of every repository, or of this one", ("fleet",)),
    Action(
        "reopen",
        "O",
        "reopen",
        "Take a proposal back: the box can go on",
        ("fleet", "box", "gate"),
        footer=False,
        reason=_reopen,
    ),
    Action(
        "tell",
        "R",
        "tell agent",
        "Type to the newest terminal of the box that changes are requested, and where to read them",
        ("fleet", "box"),
        footer=False,
        reason=_tell,
    ),
    Action(
        "unapply",
        "U",
        "undo apply",
        "Undo the last apply of the box, while its branch has not moved on; shows what goes back and asks",
        ("fleet", "box", "gate"),
        danger=True,
        footer=False,
        reason=_unapply,
    ),
    Action(
        "rebase",
        "B",
        "rebase",
        "Merge what the branch gained into the box's files, which are compared with its tip from then on",
        ("fleet", "box", "gate"),
        footer=False,
        reason=_rebase,
    ),
    Action(
        "abort",
        "A",
        "abort",
        "Give the box up; its evidence stays until it is removed",
        ("fleet", "box"),
        danger=True,
        footer=False,
        reason=_abort,
    ),
    Action(
        "remove",
        "D",
        "remove",
        "Delete the box, its files and its evidence",
        ("fleet", "box"),
        danger=True,
        footer=False,
        reason=_needs_box,
    ),
    # Box
    Action(
        "kill",
        "K",
        "kill",
        "End the selected process, by identity (pid and start time)",
        ("box",),
        danger=True,
        reason=_kill,
    ),
    Action("denials", "1", "denials", "What was refused", ("box",), footer=False),
    Action("changes", "2", "changes", "What differs from the base, now", ("box",), footer=False),
    Action("sessions", "3", "sessions", "The terminal of a session", ("box",), footer=False),
    Action("timeline", "4", "timeline", "The journal", ("box",), footer=False),
    Action(
        "policy", "5", "policy", "Five answers, claims and their proofs, each value", ("box",), footer=False
    ),
    Action(
        "attach",
        "r",
        "attach",
        "Attach to the newest session that has a terminal",
        ("box",),
        footer=False,
        reason=_shell,
    ),
    Action("full", "F", "full", "Give the terminal the whole width, or take it back", ("box",), footer=False),
    # Process tree
    Action("fold", "space", "fold", "Fold or unfold a process's children", ("tree",), own=True),
    Action("hold", "z", "hold", "Hold the view still; the box goes on", ("tree",), own=True),
    Action("follow", "f", "follow", "Keep the busiest process selected", ("tree",), own=True),
    # Terminal
    Action(
        "leave",
        "ctrl+right_square_bracket",
        "leave",
        "Leave the terminal; the session goes on",
        ("terminal",),
        own=True,
    ),
    # Timeline
    Action("execs", "e", "executions", "Show or hide each execution and exit", ("timeline",), own=True),
    *GATE,
    *COMPARE,
    *TRIAGE,
    *MATRIX,
    # Diff and lists
    Action(
        "detail",
        "enter",
        "detail",
        "Everything known of a record or a row",
        ("lists",),
        own=True,
        footer=False,
    ),
    Action("move", "up,down,j,k", "move", "One row up or down", ("diff", "lists"), own=True, footer=False),
    Action(
        "page", "pageup,pagedown", "page", "One page up or down", ("diff", "lists"), own=True, footer=False
    ),
    Action("edge", "home,end,g,G", "ends", "First or last row", ("diff", "lists"), own=True, footer=False),
    Action("range", "v", "range", "Begin or end a range of lines", ("diff",), own=True, footer=False),
    Action("unit", "a", "unit", "Mean the line, its hunk, or the file", ("diff",), own=True, footer=False),
    Action(
        "narrower",
        "s",
        "split",
        "Mean less: of a file a hunk, of a hunk a block of changed lines, of a block a line",
        ("diff",),
        own=True,
        footer=False,
    ),
    Action(
        "blanks",
        "w",
        "blanks",
        "Blanks as they are, drawn, or changes of nothing else folded",
        ("diff",),
        own=True,
        footer=False,
    ),
    Action(
        "suspect",
        "u",
        "suspect",
        "Next added line with a character that is not what it seems",
        ("diff",),
        own=True,
        footer=False,
    ),
    Action(
        "copy",
        "y",
        "copy",
        "Copy the selected lines (OSC 52), escapes written out",
        ("diff",),
        own=True,
        footer=False,
    ),
    Action("sideways", "left,right", "sideways", "Move across long lines", ("diff",), own=True, footer=False),
    Action(
        "focus",
        "tab,shift+tab",
        "focus",
        "Next or previous part of the screen",
        ("anywhere",),
        own=True,
        footer=False,
    ),
)
"""The table. Ids are stable: a person's keymap names them."""

BY_ID: dict[str, Action] = {action.id: action for action in ACTIONS}

_NAMES = {
    "question_mark": "?",
    "exclamation_mark": "!",
    "minus": "-",
    "slash": "/",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "escape": "esc",
    "ctrl+right_square_bracket": "ctrl+]",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "shift+tab": "shift+tab",
}


def shown_key(keys: str, first: bool = True) -> str:
    """Keys as a person reads them: the first, or all."""
    names = [_NAMES.get(key, key) for key in keys.split(",")]
    return names[0] if first else " ".join(names)


def of_context(*contexts: str) -> list[Action]:
    """The table's actions of these contexts, in the table's order."""
    return [action for action in ACTIONS if set(action.contexts) & set(contexts)]


def bindings(*contexts: str) -> list[BindingType]:
    """Textual bindings for the actions that a screen carries out itself; ids are the table's."""
    from textual.binding import Binding

    return [
        Binding(
            action.key,
            f"act('{action.id}')",
            action.text,
            tooltip=action.tooltip,
            id=action.id,
            show=False,
        )
        for action in of_context(*contexts)
        if not action.own and action.id != "quit"
    ]


def quit_binding() -> BindingType:
    """The key that leaves, for the application itself: it counts in dialogs and in the palette as well."""
    from textual.binding import Binding

    action = BY_ID["quit"]
    return Binding(
        action.key, "quit", action.text, tooltip=action.tooltip, id=action.id, show=False, priority=True
    )


def disabled_reason(action_id: str, situation: Situation) -> str:
    """Why the action cannot be done now, ``""`` when it can."""
    return BY_ID[action_id].reason(situation)
