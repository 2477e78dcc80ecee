#!/usr/bin/env bash
# mypy over the package and over each folder of tests by itself, since their helper modules share names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mypy=${1:-.venv/bin/mypy}
export MYPYPATH=tests/shared
"$mypy"
for folder in tests/cli tests/core tests/experiment tests/export tests/importers tests/real tests/sensors tests/server tests/sim tests/tokenise tests/tools tests/tui; do
  "$mypy" "$folder"
done
MYPYPATH=tests/shared:tests/importers "$mypy" tests/runner
MYPYPATH=tests/shared:tests/cli "$mypy" tests/survival
MYPYPATH=.:tests/shared:tests/survival_wire:tests/runner:tests/cli "$mypy" --explicit-package-bases tests/survival_wire
MYPYPATH=tests/shared:tests/importers "$mypy" tests/fuzz
MYPYPATH=.:tests/shared:tests/tools:tests/tui "$mypy" --explicit-package-bases tests/bench
"$mypy" tests/*.py tests/shared
