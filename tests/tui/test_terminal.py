"""What is used on which terminal, as a table."""

from __future__ import annotations

import pytest

from infermaxx_tui.tui.terminal import FPS, FPS_SSH, LEAST_FPS, MOST_FPS, capability

SSH = {"SSH_CONNECTION": "10.0.0.1 5000 10.0.0.2 22", "COLORTERM": "truecolor"}
NEAR = {"COLORTERM": "truecolor", "TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("env", "fps", "mouse", "theme"),
    [
        (NEAR, FPS, True, "infermaxx-dark"),
        (NEAR | {"COLORFGBG": "0;15"}, FPS, True, "infermaxx-light"),
        (NEAR | {"COLORFGBG": "15;0"}, FPS, True, "infermaxx-dark"),
        ({"TERM": "linux"}, FPS, True, "ansi-dark"),
        (SSH, FPS_SSH, False, "ansi-dark"),
        (SSH | {"COLORFGBG": "0;default;15"}, FPS_SSH, False, "ansi-light"),
        (NEAR | {"NO_COLOR": ""}, FPS, True, "ansi-dark"),
    ],
)
def test_defaults(env: dict[str, str], fps: float, mouse: bool, theme: str) -> None:
    can = capability(env, "utf-8")
    assert (can.fps, can.mouse, can.theme) == (fps, mouse, theme)
    assert can.color == ("NO_COLOR" not in env)
    assert can.unicode


@pytest.mark.parametrize(
    ("encoding", "plain"), [("UTF-8", False), ("utf8", False), ("ascii", True), ("ISO-8859-1", True), (None, True)]
)
def test_signs_follow_the_encoding(encoding: str | None, plain: bool) -> None:
    assert capability({}, encoding).unicode is not plain
    assert not capability({}, encoding, ascii_only=True).unicode


def test_what_the_user_asks_for_stands_within_reason() -> None:
    assert capability(SSH, "utf-8", fps=4, mouse=True).fps == 4
    assert capability(SSH, "utf-8", mouse=True).mouse
    assert not capability(NEAR, "utf-8", mouse=False).mouse
    assert capability(NEAR, "utf-8", fps=1000).fps == MOST_FPS
    assert capability(NEAR, "utf-8", fps=0.0001).fps == LEAST_FPS
    assert capability(NEAR, "utf-8", fps=-1).fps == FPS
    assert not capability(NEAR, "utf-8", no_color=True).color
