"""A Flask application that answers requests it makes itself; the tracer provider comes from elsewhere."""

import sys
import threading
import urllib.request

import traced
import truth
from flask import Flask
from opentelemetry import trace
from werkzeug.serving import make_server

app = Flask(__name__)
spans = traced.Spans()
links = {}


@app.route("/burn/<name>")
def handle(name):
    tracer = trace.get_tracer("e2e")
    with tracer.start_as_current_span("inside " + name) as span:
        used = truth.named(_work, name)()
    # An instrumentation may have made a span around ours: then that is the local root.
    outer = trace.get_current_span()
    outer = outer if outer.get_span_context().is_valid else None
    spans.add(span, ["handle"], used, outer)
    links[name] = traced.link(span, outer)
    if outer:
        spans.add(outer, ["WSGIRequestHandler.run_wsgi"])
    return {"used": used}


def _work():
    return truth.burn(200_000_000)


server = make_server("127.0.0.1", 0, app, threaded=True)
thread = threading.Thread(target=server.serve_forever, name="server")
thread.start()
for i in range(5):
    urllib.request.urlopen(f"http://127.0.0.1:{server.port}/burn/page_{i}").read()
server.shutdown()
thread.join()
provider = trace.get_tracer_provider()
truth.write(
    spans=spans.all,
    links=links,
    provider=type(provider).__module__ + "." + type(provider).__qualname__,
    modules=sorted(m for m in sys.modules if m.startswith("opentelemetry.instrumentation")),
)
