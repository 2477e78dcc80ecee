"""One table of commands feeds everything, so the table itself must be sound."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest
from textual.binding import Binding

from infermaxx_tui.tui.app import InfermaxxApp
from infermaxx_tui.tui.commands import COMMANDS, GAP, Command, Place, bindings, commands_of, key_name, line_of_keys
from infermaxx_tui.tui.screens.compare import CompareScreen
from infermaxx_tui.tui.screens.confirm import ConfirmScreen
from infermaxx_tui.tui.screens.experiment import ExperimentScreen
from infermaxx_tui.tui.screens.fleet import FleetScreen
from infermaxx_tui.tui.screens.help import HelpScreen
from infermaxx_tui.tui.screens.home import HomeScreen
from infermaxx_tui.tui.screens.run import RunScreen
from infermaxx_tui.tui.screens.start import StartScreen
from infermaxx_tui.tui.screens.stream import StreamScreen
from infermaxx_tui.tui.screens.verdict import VerdictScreen
from infermaxx_tui.tui.widgets.filter import FilterLine
from infermaxx_tui.tui.widgets.lines import Lines

OWNERS: dict[Place, type] = {
    "app": InfermaxxApp,
    "lines": Lines,
    "clock": RunScreen,
    "home": HomeScreen,
    "run": RunScreen,
    "stream": StreamScreen,
    "verdict": VerdictScreen,
    "compare": CompareScreen,
    "experiment": ExperimentScreen,
    "fleet": FleetScreen,
    "start": StartScreen,
    "filter": FilterLine,
    "confirm": ConfirmScreen,
    "help": HelpScreen,
}


def test_ids_are_unique_and_every_command_is_explained() -> None:
    assert not [ident for ident, n in Counter(command.id for command in COMMANDS).items() if n > 1]
    for command in COMMANDS:
        assert command.text
        assert not command.text.endswith(".")
        assert command.name
        assert command.keys


@pytest.mark.parametrize("command", COMMANDS, ids=[command.id for command in COMMANDS])
def test_every_command_has_its_action(command: Command) -> None:
    name = command.action.partition("(")[0]
    owner = OWNERS[command.place]
    assert inspect.isfunction(getattr(owner, f"action_{name}", None))


@pytest.mark.parametrize(
    "places",
    [("run", "clock"), ("stream", "clock"), ("verdict",), ("home",), ("compare",), ("experiment",), ("fleet",)],
)
def test_no_key_means_two_things_on_one_screen(places: tuple[Place, ...]) -> None:
    keys = Counter(key for command in commands_of(*places, "lines", "app") for key in command.keys)
    assert not [key for key, n in keys.items() if n > 1]


def test_bindings_carry_ids_keys_and_help() -> None:
    for place in OWNERS:
        for binding, command in zip(bindings(place), commands_of(place), strict=True):
            assert isinstance(binding, Binding)
            assert binding.id == command.id
            assert binding.key == ",".join(command.keys)
            assert binding.tooltip == command.text


@pytest.mark.parametrize("width", [20, 40, 60, 80, 140, 300])
def test_the_line_of_keys_fits_and_keeps_help_and_leaving(width: int) -> None:
    active = {command.id: command.keys[0] for command in commands_of("run", "clock", "lines", "app")}
    entries = line_of_keys(active, width)
    assert [name for _, name in entries][-3:] == ["help", "commands", "leave"]
    text = GAP.join(f"{key} {name}" for key, name in entries)
    assert len(text) <= max(width, len("? help  : commands  q leave"))
    assert text.isascii()


def test_a_key_that_was_moved_is_shown_where_it_is() -> None:
    assert ("Z", "stop") in line_of_keys({"run.stop": "Z"}, 80)
    assert key_name("ctrl+d") == "^d"
    assert key_name("question_mark") == "?"
