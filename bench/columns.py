"""The columns of the table: how each profiler is started, all at 100 Hz."""

import pathlib
from typing import NamedTuple


class Column(NamedTuple):
    name: str
    # How its own CPU is known: it runs in processes of its own, or in the target.
    outside: bool
    prefix: tuple = ()  # in front of the program's command
    environment: dict = {}
    profiles: str = ""  # what it must have written below {out}
    uploads: bool = False  # or sent to the sink


BARE = Column("bare", outside=False)
CONTROL = Column("bare again", outside=True)


def peers(spanflame, python):
    """{out} is a directory of the run, {sink} the address of a server that takes anything."""
    return [
        Column(
            "spanflame run",
            outside=True,
            prefix=(spanflame, "run", "--sample-interval", "10ms", "--pprof-path", "{out}/p", "--"),
            profiles="p.*.pprof",
        ),
        Column(
            "py-spy record",
            outside=True,
            prefix=(
                *(str(pathlib.Path(python).parent / "py-spy"), "record", "--rate", "100"),
                *("--format", "raw", "--output", "{out}/p.raw", "--"),
            ),
            profiles="p.raw",
        ),
        Column(
            "otel extension",
            outside=False,
            environment={
                "BENCH_PROFILER": "otel",
                "OTEL_PROFILING_ENABLED": "true",
                "OTEL_PROFILING_SAMPLE_INTERVAL": "0.01",
                # Its pprof exporter fails on ids of spans above 2^63.
                "OTEL_PROFILING_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT": "{sink}/v1development/profiles",
            },
            uploads=True,
        ),
        Column(
            "pyroscope-io",
            outside=False,
            environment={"BENCH_PROFILER": "pyroscope", "BENCH_PYROSCOPE_ADDRESS": "{sink}"},
            uploads=True,
        ),
    ]
