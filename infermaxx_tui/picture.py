"""A PNG that holds a short text, made on the spot, so that no model can have seen it before."""

from __future__ import annotations

import importlib.util
import io
from typing import Final

_SIZE: Final = (640, 160)
_FONT_SIZE: Final = 72


def can_draw() -> bool:
    """Whether Pillow is there."""
    return importlib.util.find_spec("PIL") is not None


def picture(text: str) -> bytes:
    """Black text on white, in the middle, 640 x 160 pixels. Raises ModuleNotFoundError without Pillow."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", _SIZE, "white")
    font = ImageFont.load_default(_FONT_SIZE)
    ImageDraw.Draw(image).text((_SIZE[0] / 2, _SIZE[1] / 2), text, fill="black", font=font, anchor="mm")
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()
