"""Made-up folders of experiments, so that pictures of them depend on nothing but how they are drawn."""

from __future__ import annotations

from pathlib import Path

from phases import marks

from infermaxx_tui.core.experiment.file import Claim
from infermaxx_tui.core.experiment.levers import Settings
from infermaxx_tui.core.experiment.rows import AnyRow, ArmRow, Began, Closed, Registered, encode_row
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.predictions import sha256_of
from infermaxx_tui.experiment.folder import SUBFOLDER, ExperimentFolder

ID = "20300203-101112-kv-ladder-0a0b"
ORDER = (("auto", 0), ("fp8", 0), ("turbo", 0), ("auto", 1), ("fp8", 1), ("turbo", 1))
RUN = "20300102-030405-demo-a1b2"
"""The run of the first start."""


def settings(arm: str, parent: str | None) -> Settings:
    """One lever an arm."""
    levers = {"flag kv-cache-dtype": arm}
    moved = () if parent is None else ("flag kv-cache-dtype",)
    return Settings(arm=arm, parent=parent, levers=levers, moved=moved)


ARMS = (settings("auto", None), settings("fp8", "auto"), settings("turbo", "auto"))
CLAIM = Claim(
    claim="fp8 doubles the pool",
    measure="pool.tokens",
    arm="fp8",
    against="auto",
    band=(1.9, 2.1),
    refuted_if="< 1.5",
)


def first_row(question: str = "Which dtype gives how large a pool?", experiment: str = "kv-ladder") -> Registered:
    """What was wanted and claimed."""
    return Registered(
        at_ms=1,
        experiment=experiment,
        program="infermaxx 0",
        question=question,
        file="",
        file_sha256="0" * 64,
        arms=ARMS,
        order=ORDER,
        margin=0.03,
        claims=(CLAIM,),
        claims_sha256=sha256_of((CLAIM,)),
    )


def figures(speed: float, pool: float) -> tuple[Measure, ...]:
    """Decode at three depths, and the pool."""
    depths = ((0, 1.0), (4096, 0.8), (16384, 0.5))
    return (
        *(
            Measure(
                name="decode.tokens_per_s",
                unit="tokens/s",
                values=(speed * share, speed * share * 1.02),
                depth_tokens=depth,
                better="more",
                is_speed=True,
                probe=0,
            )
            for depth, share in depths
        ),
        Measure(name="pool.tokens", unit="tokens", values=(pool,), better="more"),
    )


def arm_row(arm: str, boot: int, place: int, **more: object) -> ArmRow:
    """A start that was judged; the turbo arm answers nothing rightly, and is fastest."""
    worthless = arm == "turbo"
    speed, pool = {"auto": (50.0, 100_000.0), "fp8": (40.0, 200_000.0), "turbo": (99.0, 400_000.0)}[arm]
    fields: dict[str, object] = {
        "at_ms": 10 + place,
        "experiment": "kv-ladder",
        "arm": arm,
        "boot": boot,
        "place": place,
        "began_ms": 5 + place,
        "outcome": "judged",
        "verdict": "FAIL" if worthless else "PASS",
        "checks": {"quality": "fail" if worthless else "pass"},
        "run": RUN if place == 0 else f"2030010{boot + 3}-030405-{arm}-000{place}",
        "settings": next(one for one in ARMS if one.arm == arm),
        "measures": figures(speed + boot, pool),
        "quality": (marks(0 if worthless else 24),),
        "speed_withheld": "0 of 24 tasks right" if worthless else None,
    }
    return ArmRow(**{**fields, **more})  # type: ignore[arg-type]  # whoever calls knows the fields


def refused(arm: str, boot: int, place: int) -> ArmRow:
    """A start whose server did not come up."""
    return arm_row(
        arm,
        boot,
        place,
        outcome="boot_failed",
        verdict=None,
        checks={},
        run=None,
        reason="the server ended with code 1: invalid choice",
        server_log=f"{arm}-{boot + 1}.server.log",
        measures=(),
        quality=(),
        speed_withheld=None,
    )


def began(arm: str, boot: int, run: str | None) -> Began:
    """A step that was begun."""
    return Began(at_ms=20, experiment="kv-ladder", arm=arm, boot=boot, pid=1, run=run)


def closed(done: int = 6) -> Closed:
    """The last row."""
    return Closed(at_ms=30, experiment="kv-ladder", done=done, planned=len(ORDER))


def whole() -> tuple[AnyRow, ...]:
    """Three arms, two starts each, of which one failed."""
    starts = [
        refused(arm, boot, place) if place == 4 else arm_row(arm, boot, place)
        for place, (arm, boot) in enumerate(ORDER)
    ]
    return (first_row(), *starts, closed())


def make_experiment(root: Path, *rows: AnyRow, id: str = ID) -> ExperimentFolder:
    """A folder with these rows."""
    folder = ExperimentFolder(root / SUBFOLDER / id)
    folder.path.mkdir(parents=True)
    folder.rows_file.write_bytes(b"".join(map(encode_row, rows)))
    return folder
