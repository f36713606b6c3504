"""A traced Flask application that computes and waits, a thread per connection.

Its spans are batched and dropped. bench/load.py sends the requests.
"""

import json
import threading
import time

import window  # isort: skip
from flask import Flask, request
from opentelemetry import trace
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from werkzeug.serving import WSGIRequestHandler, make_server


class Nowhere(SpanExporter):
    def export(self, spans):
        return SpanExportResult.SUCCESS


class KeepAlive(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes: 40 ms otherwise

    def log_request(self, *args):
        pass


app = Flask(__name__)
served = [0]


@app.post("/basket")
def basket():
    items = request.get_json()
    with tracer.start_as_current_span("stock"):
        time.sleep(0.002)
    with tracer.start_as_current_span("price"):
        rows = sorted((price(item), item["name"]) for item in items)
    served[0] += 1
    return app.response_class(json.dumps(rows), mimetype="application/json")


def price(item):
    total = 0
    for i in range(item["count"]):
        total += (item["price"] * (100 - min(i, 20)) * 119) // 10000
    return total


def work(seconds):
    before = served[0]
    time.sleep(seconds)
    return served[0] - before


if __name__ == "__main__":
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    trace.set_tracer_provider(provider)
    tracer = trace.get_tracer("bench")
    FlaskInstrumentor().instrument_app(app)
    window.start_profiler()
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=KeepAlive)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever).start()
    window.say(port=server.server_port)
    window.measure(work)
    server.shutdown()
