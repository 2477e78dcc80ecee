"""The picture is a PNG of the size it should have, with dark on light, and another text gives another one."""

from __future__ import annotations

import io

from PIL import Image

from infermaxx_tui.picture import can_draw, picture


def test_a_picture_holds_its_text_and_nothing_that_gives_it_away() -> None:
    assert can_draw()
    data = picture("VKXCHE 88")
    image = Image.open(io.BytesIO(data)).convert("L")
    assert image.size == (640, 160)
    dark = sum(image.histogram()[:128])
    assert 1000 < dark < 20000
    assert b"VKXCHE" not in data
    assert picture("VKXCHE 88") == data
    assert picture("VKXCHE 89") != data
