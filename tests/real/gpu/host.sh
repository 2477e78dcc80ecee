#!/usr/bin/env bash
# Runs on the GPU host, in the repository's root: unpacks vLLM and the client, then plays real weights and dummy ones.
# OUT gets NAME.run.tgz (the run folder) and NAME.verdict.json of each, doctor's pages and the bench of the sensors.
# usage: host.sh KIT PARTS WHEELS OUT [real] [dummy] [bench]     which of the three, all of them if none is named
# KIT: unpack.sh and its neighbours; PARTS: what pack.sh made, in one folder; WHEELS: those of the client
set -uo pipefail
kit=$1 parts=$2 wheels=$3 out=$4
wanted=" ${*:5} "
wants() { [[ $wanted == "  " || $wanted == *" $1 "* ]]; }
export INFERMAXX_GPU=/tmp/vllm INFERMAXX_RUNS=/tmp/runs INFERMAXX_CACHE=/tmp/cache PYTHONUNBUFFERED=1
say() { echo "== $(date +%T) $*"; }

say unpack
[ -d "$INFERMAXX_GPU/smollm2" ] || bash "$kit/unpack.sh" "$parts" "$INFERMAXX_GPU"
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/client "$wheels"/*.whl
infermaxx() { PYTHONPATH=/tmp/client:$PWD python3 -m infermaxx_tui "$@"; }
bench() { PYTHONPATH=/tmp/client:$PWD python3 -m "tests.bench.$1" "${@:2}"; }

say doctor, no server
infermaxx doctor > "$out/doctor.txt" 2>&1; echo "exit $?" >> "$out/doctor.txt"; cat "$out/doctor.txt"

play() {
  say "run $1"
  INFERMAXX_GPU_FLAGS=$2 PYTHONPATH=/tmp/client:$PWD timeout -s INT 280 python3 -m infermaxx_tui run tests/real/gpu/gpu-16x6k.toml --headless --json > "$out/$1.verdict.json"
  echo "exit $?"
  local run; run=$(ls -td /tmp/runs/*/ | head -1)
  tar czf "$out/$1.run.tgz" -C "$run" .
  python3 - "$out/$1.verdict.json" <<'P'
import json, sys
v = json.load(open(sys.argv[1]))
print(v["verdict"], [(c["name"], c["outcome"], c["n_evaluated"], c["cause"], c["advice"]) for c in v["checks"]])
print(json.dumps(v["regime"], indent=1))
P
}
wants real && play real ""
wants dummy && play dummy "--load-format dummy"
wants bench || exit 0

say a server for doctor and the bench
up=$(bash "$kit/serve.sh" "$INFERMAXX_GPU" /tmp/serve.log "$INFERMAXX_GPU/smollm2" --served-model-name smollm2 --port 8000 \
  --max-model-len 8192 --max-num-seqs 64 --gpu-memory-utilization 0.3 --enforce-eager)
echo "$up"
infermaxx doctor --url http://127.0.0.1:8000 --log /tmp/serve.log > "$out/doctor-url.txt" 2>&1; echo "exit $?" >> "$out/doctor-url.txt"
cat "$out/doctor-url.txt"
say bench_sensors
bench bench_sensors --show 2>&1 | tee "$out/bench.txt"
[[ $up == "up, pid "* ]] && kill -- "-${up##* }"
say done
