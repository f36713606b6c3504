"""The part of the spanflame profiler that lives in the profiled process.

`spanflame run` puts this package on the path of the program that it starts.
It registers the process with the agent, which does the profiling from outside,
and marks OpenTelemetry spans so that the agent can link samples to them. It
starts no thread and never raises into the application. See docs/shim.md.
"""

__version__ = "0.1.0"
