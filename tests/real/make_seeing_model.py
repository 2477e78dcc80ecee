"""Makes a real model that takes images: the text model of make_model.py behind a tiny eye with random weights.

It sees nothing, but vLLM serves it as any other vision model: the image is decoded, becomes tokens, and is answered.
Its processor is one of the few that do without torchvision. Run by the Python of the real vLLM:
    make_seeing_model.py TEXT_MODEL_DIR TEMPLATE OUT_DIR
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

SIDE = 64
"""Pixels of an image as the model sees it."""
PATCH = 8
SCALE = 2
TOKENS = {
    "<jupyter_start>": "<image>",
    "<jupyter_output>": "<fake_token_around_image>",
    "<jupyter_script>": "<end_of_utterance>",
    "<empty_output>": "<global-img>",
}
"""Tokens that no chat needs give their places to those that stand for an image, so that the weights still fit."""
IMAGE_TOKEN_ID = 11


def main(text_model: Path, template: Path, out: Path) -> None:
    """Writes the model directory."""
    import torch
    from safetensors.torch import load_file
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration

    text = json.loads((text_model / "config.json").read_text())
    eye = {
        "model_type": "idefics3_vision",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "image_size": SIDE,
        "patch_size": PATCH,
    }
    config = Idefics3Config(
        text_config=text,
        vision_config=eye,
        image_token_id=IMAGE_TOKEN_ID,
        scale_factor=SCALE,
        pad_token_id=text["pad_token_id"],
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    model = Idefics3ForConditionalGeneration(config).to(torch.bfloat16)
    weights = load_file(text_model / "model.safetensors")
    model.model.text_model.load_state_dict({key.removeprefix("model."): one for key, one in weights.items()})
    model.tie_weights()
    model.save_pretrained(out)
    tokenizer = (text_model / "tokenizer.json").read_text()
    for old, new in TOKENS.items():
        tokenizer = tokenizer.replace(json.dumps(old), json.dumps(new))
    (out / "tokenizer.json").write_text(tokenizer)
    for name in ("tokenizer_config.json", "generation_config.json"):
        shutil.copy(text_model / name, out)
    shutil.copy(template, out / "chat_template.jinja")
    _write_processor(out)


def _write_processor(out: Path) -> None:
    edge = {"longest_edge": SIDE}
    images = {
        "image_processor_type": "Idefics3ImageProcessor",
        "size": edge,
        "max_image_size": edge,
        "do_image_splitting": False,
    }
    (out / "preprocessor_config.json").write_text(json.dumps(images))
    whole = {"processor_class": "Idefics3Processor", "image_seq_len": (SIDE // PATCH // SCALE) ** 2}
    (out / "processor_config.json").write_text(json.dumps(whole))


if __name__ == "__main__":
    main(*(Path(word).resolve() for word in sys.argv[1:4]))
