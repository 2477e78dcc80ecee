"""The one table of commands: bindings, the line of keys, the palette and the help are all made from it.

Every binding has an id, so that a keymap can move it. Plain letters come first, since terminals and tmux keep the rest
for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from textual.binding import Binding, BindingType

from infermaxx_tui.tui.command import Command, Place, made
from infermaxx_tui.tui.commands_experiment import EXPERIMENT, FLEET

__all__ = ["COMMANDS", "GAP", "Command", "Place", "bindings", "commands_of", "key_name", "line_of_keys"]

_APP = (
    *made("app", ("leave", "q", "leave", "leave", "leave; a run that is going on goes on", 90)),
    Command(
        id="app.leave_always",
        place="app",
        keys=("ctrl+c", "ctrl+q"),
        action="leave",
        name="leave",
        text="leave, also while text is typed",
        always=True,
    ),
    *made(
        "app",
        ("help", "question_mark f1", "help", "help", "every key, and what this screen shows", 80),
        ("command_palette", "colon ctrl+p", "command_palette", "commands", "find a command by its name", 85),
        ("suspend_process", "ctrl+z", "suspend_process", "suspend", "put it into the background; the run goes on", 0),
        ("change_theme", "ctrl+t", "change_theme", "theme", "choose other colours", 0),
        ("repaint", "ctrl+l", "repaint", "repaint", "draw the whole screen again", 0),
    ),
)
_LINES = made(
    "lines",
    ("down", "j down", "down", "down", "one line down", 0),
    ("up", "k up", "up", "up", "one line up", 0),
    ("top", "g home", "top", "top", "first line", 0),
    ("bottom", "G end", "bottom", "bottom", "last line", 0),
    ("page_down", "ctrl+d pagedown", "page(1)", "page down", "half a page down", 0),
    ("page_up", "ctrl+u pageup", "page(-1)", "page up", "half a page up", 0),
)
_CLOCK = made(
    "clock",
    ("step_back", "left_square_bracket left", "step(-1)", "back", "a step back in time (one column of the axis)", 40),
    ("step_on", "right_square_bracket right", "step(1)", "on", "a step on in time", 41),
    ("minute_back", "left_curly_bracket", "skip(-60)", "minute back", "a minute back in time", 0),
    ("minute_on", "right_curly_bracket", "skip(60)", "minute on", "a minute on in time", 0),
    ("next_failure", "n", "mark('failure',1)", "failure", "to the next failure", 42),
    ("previous_failure", "N", "mark('failure',-1)", "failure back", "to the failure before", 0),
    ("next_gap", "m", "mark('gap',1)", "gap", "to the next gap: a silence of a stream, or of the log", 0),
    ("previous_gap", "M", "mark('gap',-1)", "gap back", "to the gap before", 0),
    ("start", "0", "start", "start", "to the start of the run", 0),
    ("follow", "f", "follow", "end", "follow the end", 43),
    ("play", "p", "play", "play", "play from here, and pause", 44),
    ("faster", "greater_than_sign", "faster(1)", "faster", "play faster, up to 60 times", 0),
    ("slower", "less_than_sign", "faster(-1)", "slower", "play slower, down to as it happened", 0),
    ("shorter", "plus equals_sign", "window(-1)", "shorter", "a shorter time window", 0),
    ("longer", "minus", "window(1)", "longer", "a longer time window", 0),
)
_HOME = made(
    "home",
    ("open", "enter", "open", "open", "open the run or the experiment, or start the scenario", 10),
    ("verdict", "v", "verdict", "verdict", "the run's verdict", 20),
    ("mark_compare", "c", "mark_compare", "compare", "mark a run; the second mark compares the two", 30),
    ("filter", "slash", "filter", "filter", "show only lines that hold a text", 40),
    ("stop", "X", "stop", "stop", "end the run cleanly, after a question", 60),
    ("fleet", "F", "fleet", "fleet", "each arm of all experiments as one table", 65),
    ("again", "r", "again", "read again", "read the folder of runs again", 0),
    ("copy", "y", "copy", "copy", "copy the run's id, or what to type for an experiment file", 0),
    ("export", "P", "export", "save", "save the screen as SVG and text", 0),
    ("clear", "escape", "clear", "clear", "drop the filter and the mark", 0),
)
_RUN = made(
    "run",
    ("open", "enter", "open", "stream", "open the stream, or go to the event's time", 10),
    ("verdict", "v", "verdict", "verdict", "the verdict so far, or the one that was written", 15),
    ("back", "escape backspace", "back", "back", "back to the list of runs", 20),
    ("freeze", "space", "freeze", "freeze", "hold the panels still; the header and the log go on", 25),
    ("stop", "X", "stop", "stop", "end the run cleanly, after a question", 60),
    ("sort", "s", "sort(1)", "sort", "sort the streams by the next column", 50),
    ("reverse", "S", "reverse", "reverse", "sort the other way round", 0),
    ("filter", "slash", "filter", "filter", "show only lines that hold a text", 55),
    ("everyone", "a", "everyone", "all", "streams that have ended too, or open ones alone", 0),
    ("next_panel", "tab", "next_panel(1)", "panel", "the next panel", 56),
    ("previous_panel", "shift+tab", "next_panel(-1)", "panel back", "the panel before", 0),
    ("streams", "1", "panel(1)", "streams", "the streams; again: alone on the screen", 0),
    ("axis", "2", "panel(2)", "axis", "throughput, depth and GPU over time; again: alone", 0),
    ("machine", "3", "panel(3)", "machine", "server and GPU; again: alone", 0),
    ("verdict_panel", "4", "panel(4)", "verdict", "the verdict so far; again: alone", 0),
    ("feed", "5", "panel(5)", "events", "the event feed; again: alone", 0),
    ("expand", "e", "expand", "expand", "the panel with the focus alone on the screen, and back", 57),
    ("copy", "y", "copy", "copy", "copy the line under the cursor", 0),
    ("export", "P", "export", "save", "save the screen as SVG and text in the run folder", 70),
)
_STREAM = made(
    "stream",
    ("back", "escape backspace", "back", "back", "back to the run", 10),
    ("open", "enter", "open", "go to", "go to the line's time on the run screen", 20),
    ("filter", "slash", "filter", "filter", "show only lines that hold a text", 50),
    ("next_stream", "J", "other(1)", "next stream", "the next stream", 30),
    ("previous_stream", "K", "other(-1)", "stream back", "the stream before", 0),
    ("copy", "y", "copy", "copy", "copy the line under the cursor", 0),
    ("export", "P", "export", "save", "save the screen as SVG and text in the run folder", 60),
)
_VERDICT = made(
    "verdict",
    ("back", "escape backspace", "back", "back", "back", 10),
    ("open", "enter", "open", "go to", "go to the evidence in time on the run screen", 20),
    ("next_evidence", "n", "witness(1)", "evidence", "to the next piece of evidence", 30),
    ("previous_evidence", "N", "witness(-1)", "evidence back", "to the piece of evidence before", 0),
    ("copy", "y", "copy", "copy", "copy the whole verdict", 40),
    ("export", "P", "export", "save", "save the screen as SVG and text in the run folder", 50),
)
_COMPARE = made(
    "compare",
    ("back", "escape backspace", "back", "back", "back to the list of runs", 10),
    ("copy", "y", "copy", "copy", "copy the whole comparison", 40),
    ("export", "P", "export", "save", "save the screen as SVG and text", 50),
)
_START = made(
    "start",
    ("back", "escape", "back", "back", "do not start it", 10),
    ("start", "enter", "start", "start", "start it in a process of its own", 5),
)
_FILTER = made(
    "filter",
    ("keep", "enter", "keep", "keep", "keep the filter and go back to the list", 5),
    ("drop", "escape", "drop", "drop", "drop the filter", 10),
)
_CONFIRM = made(
    "confirm",
    ("yes", "y", "yes", "yes", "do it", 5),
    ("no", "n escape q", "no", "no", "leave it", 10),
)
_HELP = made("help", ("back", "escape q question_mark backspace", "back", "back", "close the help", 10))

COMMANDS: tuple[Command, ...] = (
    *_APP,
    *_LINES,
    *_CLOCK,
    *_HOME,
    *_RUN,
    *_STREAM,
    *_VERDICT,
    *_COMPARE,
    *EXPERIMENT,
    *FLEET,
    *_START,
    *_FILTER,
    *_CONFIRM,
    *_HELP,
)

KEY_NAMES = {
    "question_mark": "?",
    "colon": ":",
    "slash": "/",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "greater_than_sign": ">",
    "less_than_sign": "<",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "escape": "esc",
    "pagedown": "pgdn",
    "pageup": "pgup",
}
"""How keys are written, in characters that every terminal has."""


def key_name(key: str) -> str:
    """How a key is written for people."""
    name = KEY_NAMES.get(key, key)
    return f"^{name[5:]}" if name.startswith("ctrl+") else name


def commands_of(*places: Place) -> tuple[Command, ...]:
    """The commands of these places, in the order of the table."""
    return tuple(command for command in COMMANDS if command.place in places)


def bindings(*places: Place) -> list[BindingType]:
    """The same as bindings; the rank in the line of keys is not in them, `line_of_keys` looks it up by id."""
    return [
        Binding(
            key=",".join(command.keys),
            action=command.action,
            description=command.name,
            show=command.shown > 0,
            key_display=key_name(command.keys[0]),
            priority=command.always,
            tooltip=command.text,
            id=command.id,
        )
        for command in commands_of(*places)
    ]


def line_of_keys(active: Mapping[str, str], width: int) -> list[tuple[str, str]]:
    """The line of keys, as key and name: `active` maps ids of commands that work now to their key.

    What has no room is left out by rank; what works everywhere comes last and always.
    """
    ranked = sorted((command for command in COMMANDS if command.shown and command.id in active), key=lambda c: c.shown)
    last = [_entry(command, active) for command in ranked if command.place == "app"]
    room = width - sum(map(_room, last)) + len(GAP)
    line: list[tuple[str, str]] = []
    for command in ranked:
        entry = _entry(command, active)
        if command.place == "app":
            continue
        if _room(entry) > room:
            break
        line.append(entry)
        room -= _room(entry)
    return line + last


GAP = "  "
"""Between two entries of the line of keys."""


def _entry(command: Command, active: Mapping[str, str]) -> tuple[str, str]:
    return key_name(active[command.id]), command.name


def _room(entry: tuple[str, str]) -> int:
    return len(entry[0]) + 1 + len(entry[1]) + len(GAP)
