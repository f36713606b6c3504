"""Writes ended spans to a file, one JSON object a line."""

import json
import os
import threading
import time

from opentelemetry.sdk.trace import SpanProcessor


class SpanFile(SpanProcessor):
    """The last line, written by close, says what the process itself used."""

    def __init__(self, path):
        self._file = open(path, "w", buffering=1 << 16)
        self._lock = threading.Lock()  # spans end on any thread; a file is written by one at a time

    def on_end(self, span):
        parent = span.parent
        line = {
            "name": span.name,
            "trace_id": f"{span.context.trace_id:032x}",
            "span_id": f"{span.context.span_id:016x}",
            "parent": f"{parent.span_id:016x}" if parent else "",
            # A span without a parent, or with one in another process, is a local root.
            "local_root": parent is None or parent.is_remote,
            "start": span.start_time,
            "end": span.end_time,
        }
        with self._lock:
            self._file.write(json.dumps(line) + "\n")

    def close(self):
        process = {"pid": os.getpid(), "cpu": time.process_time_ns()}
        self._file.write(json.dumps({"process": process}) + "\n")
        self._file.close()
