#!/usr/bin/env bash
# Runs on the GPU host, in the repository's root: the experiments of this folder with real boots, each within SECONDS_EACH.
# Called again on the same host it goes on where it was left. OUT gets each experiment's folder as NAME.tgz.
# fa2.* among PARTS, a tar.xz of vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so cut in pieces, is what turboquant wants and pack.sh
# leaves out.
# usage: experiments.sh KIT PARTS WHEELS OUT SECONDS_EACH NAME...     e.g. experiments.sh kit parts whl out 270 ladder worth
set -uo pipefail
kit=$1 parts=$2 wheels=$3 out=$4 seconds=$5
export INFERMAXX_GPU=/tmp/vllm INFERMAXX_RUNS=/tmp/runs INFERMAXX_CACHE=/tmp/cache PYTHONUNBUFFERED=1
say() { echo "== $(date +%T) $*"; }

if [ ! -d "$INFERMAXX_GPU/smollm2" ]; then
  say unpack
  mkdir -p "$INFERMAXX_GPU/site"
  ! ls "$parts"/fa2.* > /dev/null 2>&1 || cat "$parts"/fa2.* | xz -dc -T0 | tar xf - -C "$INFERMAXX_GPU/site" &
  bash "$kit/unpack.sh" "$parts" "$INFERMAXX_GPU"
  wait
  # each start imports all of it in two processes
  python3 -m compileall -q -j 0 "$INFERMAXX_GPU/site" > /dev/null
fi
[ -d /tmp/client/textual ] || python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target /tmp/client "$wheels"/*.whl

for name in "${@:6}"; do
  say "experiment $name"
  PYTHONPATH=/tmp/client:$PWD timeout -s INT "$seconds" python3 -m infermaxx_tui experiment "tests/real/gpu/$name.toml" > "$out/$name.txt"
  echo "exit $?"
  folder=$(ls -td /tmp/runs/experiments/*-gpu-"$name"-*/ | head -1)
  tar czf "$out/$name.tgz" -C "$folder" .
  tail -c 7000 "$out/$name.txt"
done
say "done"
