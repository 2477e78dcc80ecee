"""GPU sensors of every origin, read in a thread beside the load: NVML, exporters, nvidia-smi, a user's command, amdsmi.

Nothing is imported here that a run without sensors does not need.
"""

from __future__ import annotations

from infermaxx_tui.core.gpu import GpuProbe


def probe_local(url: str | None = None, server_pid: int | None = None) -> GpuProbe:
    """What the GPUs of this machine are and which of their sensors answer, asked once and let go of again.

    With the server's `url` or the pid of its process, each card says whether that server computes on it. Without a
    card, `error` says why. Takes tens of ms, more where the driver must wake a card up.
    """
    from infermaxx_tui.sensors.choose import local_source

    source = local_source(url, server_pid)
    try:
        return source.probe(0)
    finally:
        source.close()
