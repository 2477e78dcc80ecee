"""Tokenizers on disk that the tests build themselves, and SmolLM2's where this machine has it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from infermaxx_tui.renderers import TransformersRenderer

QWEN_STYLE = """
{%- if messages[0].role == 'system' -%}
{%- set system = messages[0].content -%}
{%- else -%}
{%- set system = 'You are a default assistant.' -%}
{%- endif -%}
{{- '<|im_start|>system\n' + system -}}
{%- if tools -%}
{{- '\n\n# Tools\n<tools>' -}}
{%- for tool in tools -%}{{- '\n' + (tool | tojson) -}}{%- endfor -%}
{{- '\n</tools>' -}}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- set last = namespace(user=-1) -%}
{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}
{{- '<|im_start|>user\n' + m.content + '<|im_end|>\n' -}}
{%- elif m.role == 'assistant' -%}
{{- '<|im_start|>assistant\n' -}}
{%- if STRIP -%}
{%- if loop.index0 > last.user and (loop.last or m.reasoning_content) -%}
{{- '<think>\n' + (m.reasoning_content or '') + '\n</think>\n\n' -}}
{%- endif -%}
{%- elif m.reasoning_content -%}
{{- '<think>\n' + m.reasoning_content + '\n</think>\n\n' -}}
{%- endif -%}
{{- m.content -}}
{%- for call in m.tool_calls or [] -%}
{{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": {' -}}
{%- for key, value in call.function.arguments | items -%}
{{- (', ' if not loop.first else '') + (key | tojson) + ': ' + (value | tojson) -}}
{%- endfor -%}
{{- '}}\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\n' -}}
{%- elif m.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
{{- '\n<tool_response>\n' + m.content + '\n</tool_response>' -}}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{- '<|im_end|>\n' -}}{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' + OPEN -}}{%- endif -%}
"""
"""A template in the manner of Qwen's: a default system prompt, JSON tools, think blocks, tool results as user turns.

STRIP and OPEN are filled in: whether thinking of earlier turns is dropped, and what the generation prompt opens.
"""

_CORPUS = (
    "the quick brown fox jumps over the lazy dog\n",
    "def f(x):\n    return x + 1\n",
    '{"name": "ls", "a": [1]}\n',
)


def qwen_template(strip: bool, opened: bool) -> str:
    return QWEN_STYLE.replace("STRIP", str(strip).lower()).replace("OPEN", "'<think>\\n'" if opened else "''")


def trained(special: tuple[str, ...], ordinary: tuple[str, ...]) -> Tokenizer:
    """A byte-level vocabulary of 400 tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(_CORPUS * 3, trainer)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in ordinary])
    return tokenizer


def write_tokenizer(folder: Path, tokenizer: Tokenizer, template: str | None) -> Path:
    """A directory as a model's repository has it."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return folder


@pytest.fixture(scope="session")
def qwen_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool, bool], Path]:
    """Makes the directory of a Qwen-style tokenizer: whether it strips thinking, whether its prompt opens it."""
    base = tmp_path_factory.mktemp("qwen")
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    words = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
    tokenizer = trained(special, words)

    def make(strip: bool, opened: bool) -> Path:
        return write_tokenizer(base / f"{strip}-{opened}", tokenizer, qwen_template(strip, opened))

    return make


@pytest.fixture(scope="session")
def qwen(qwen_folder: Callable[[bool, bool], Path]) -> Callable[[bool, bool], TransformersRenderer]:
    """Makes the renderer of such a directory."""
    return lambda strip, opened: TransformersRenderer(str(qwen_folder(strip, opened)))


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[[str | None, Tokenizer | None], Path]:
    """Makes a directory `made` from a template and a tokenizer, by default one with `<s>` as its only special token."""

    def make(template: str | None, tokenizer: Tokenizer | None) -> Path:
        return write_tokenizer(tmp_path / "made", tokenizer or trained(("<s>",), ()), template)

    return make


@pytest.fixture(scope="session")
def bos_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer that puts a BOS before each text by itself, with a template that writes one too."""
    tokenizer = trained(("<s>", "</s>"), ())
    bos = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", bos)])
    template = "<s>{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}"
    return write_tokenizer(tmp_path_factory.mktemp("bos"), tokenizer, template)


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """SmolLM2's tokenizer, from INFERMAXX_SMOLLM2 or the cache that the project's CI fills."""
    folder = Path(os.environ.get("INFERMAXX_SMOLLM2", "~/.cache/infermaxx-real/smollm2")).expanduser()
    if not (folder / "tokenizer.json").is_file():
        pytest.skip("SmolLM2's tokenizer is not on this machine: set INFERMAXX_SMOLLM2 to its directory")
    return folder


@pytest.fixture(scope="session")
def smollm2(smollm2_folder: Path) -> TransformersRenderer:
    return TransformersRenderer(str(smollm2_folder))
