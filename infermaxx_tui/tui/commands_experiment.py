"""The part of the table of commands that is about experiments."""

from __future__ import annotations

from infermaxx_tui.tui.command import made

_COLUMNS = (
    ("columns_on", "right_square_bracket right", "columns(1)", "columns", "columns further to the right", 25),
    ("columns_back", "left_square_bracket left", "columns(-1)", "columns back", "columns further to the left", 0),
)
EXPERIMENT = made(
    "experiment",
    ("open", "enter", "open", "run", "open the run of the start under the cursor, or of the one that is going on", 10),
    ("live", "l", "live", "live run", "open the run that is going on now", 15),
    ("back", "escape backspace", "back", "back", "back to the list of experiments", 20),
    *_COLUMNS,
    ("filter", "slash", "filter", "filter", "show only words that hold a text", 55),
    ("next_panel", "tab", "next_panel(1)", "panel", "the next panel", 30),
    ("previous_panel", "shift+tab", "next_panel(-1)", "panel back", "the panel before", 0),
    ("arms", "1", "panel(1)", "arms", "the arms as a table; again: alone on the screen", 0),
    ("starts", "2", "panel(2)", "starts", "each start with its verdict and its run; again: alone", 0),
    ("answer", "3", "panel(3)", "answer", "what moved, what is withheld, what became of the claims; again: alone", 0),
    ("curves", "4", "panel(4)", "curves", "the curves; again: alone", 32),
    ("expand", "e", "expand", "expand", "the panel with the focus alone on the screen, and back", 40),
    ("copy", "y", "copy", "copy", "copy everything that the panel says", 50),
    ("export", "P", "export", "save", "save the screen as SVG and text beside the results", 70),
)
FLEET = made(
    "fleet",
    ("open", "enter", "open", "open", "open the experiment of this arm", 10),
    ("back", "escape backspace", "back", "back", "back to the list of runs", 20),
    *_COLUMNS,
    ("copy", "y", "copy", "copy", "copy the whole table as Markdown", 40),
    ("export", "P", "export", "save", "save the screen as SVG and text", 50),
)
