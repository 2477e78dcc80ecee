"""`python -m infermaxx_tui.sim`: the embedded server by itself."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.faults import FAULTS, UnknownFaultError
from infermaxx_tui.sim.serving import Serving, serve

_USAGE = 2


def fault_table() -> str:
    """Every fault, the verdict it must earn, and what it does."""
    rows = []
    for name, fault in FAULTS.items():
        earns = f"{fault.verdict} {fault.check}" if fault.check else fault.verdict
        rows.append(f"{name:18}{earns:20}{fault.description}\n")
    return "".join(rows)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    out = argparse.ArgumentParser(prog="infermaxx sim", description=__doc__)
    defaults = SimConfig()
    out.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    out.add_argument("--port-file", type=Path, help="write the port there once requests are answered")
    out.add_argument("--fault", action="append", default=[], metavar="NAME", help="repeatable; --list-faults shows all")
    out.add_argument("--list-faults", action="store_true")
    out.add_argument("--model", default=defaults.model, help="the served name")
    out.add_argument("--max-model-len", type=int, metavar="TOKENS", help="prompt and reply together")
    out.add_argument("--pool", type=int, default=defaults.pool_tokens, metavar="TOKENS", help="size of the KV pool")
    out.add_argument("--max-num-seqs", type=int, default=defaults.max_num_seqs, metavar="N")
    out.add_argument("--decode-ms", type=float, default=defaults.decode_ms, metavar="MS", help="between two tokens")
    out.add_argument("--prefill-rate", type=float, default=defaults.prefill_tokens_per_s, metavar="TOKENS/S")
    out.add_argument("--healthy-turns", type=int, default=defaults.healthy_turns, metavar="N")
    out.add_argument(
        "--api-key-env", default="VLLM_API_KEY", metavar="NAME", help="want the key in this variable, if set"
    )
    out.add_argument("--log-file", type=Path, help="the log goes there and not to stdout")
    alone = "end when the process that started this one, or PID, is no longer the parent"
    out.add_argument("--exit-with-parent", type=int, nargs="?", const=0, metavar="PID", help=alone)
    return out


def main(argv: list[str]) -> int:
    """Serves; 2 for a wrong command line, a fault that does not exist or a port that is taken."""
    args = parser().parse_args(argv)
    if args.list_faults:
        sys.stdout.write(fault_table())
        return 0
    parent = os.getppid() if args.exit_with_parent == 0 else args.exit_with_parent
    window = args.max_model_len or min(SimConfig().max_model_len, args.pool)
    try:
        config = SimConfig(
            model=args.model,
            faults=tuple(args.fault),
            healthy_turns=args.healthy_turns,
            max_model_len=window,
            pool_tokens=args.pool,
            max_num_seqs=args.max_num_seqs,
            decode_ms=args.decode_ms,
            prefill_tokens_per_s=args.prefill_rate,
            api_key=os.environ.get(args.api_key_env) or None,
        )
        serving = Serving(port=args.port, port_file=args.port_file, parent_pid=parent)
        if args.log_file is None:
            return serve(config, serving, sys.stdout)
        with open(args.log_file, "w", encoding="utf-8", opener=_private) as out:
            return serve(config, serving, out)
    except (UnknownFaultError, OSError, ValueError) as error:
        sys.stderr.write(f"infermaxx sim: {error}\n")
        return _USAGE


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
