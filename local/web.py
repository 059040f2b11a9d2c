"""A web server on loopback: the HTTP subscriber of the demo and of the tests. It records every post byte for byte."""

import json
import threading
import time
import urllib.request
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Request:
    """One POST, and the status that it was answered with."""

    path: str
    # Name and value as they came, in their order.
    headers: list
    body: bytes
    answered: int
    at: float

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class WebServer:
    """`with WebServer() as web:` answers 200 to every POST, or what `web.answers` says for its path.

    `web.delays` has the seconds by which the answer for a path comes late.
    """

    def __init__(self):
        self.answers = {}
        self.delays = {}
        self.requests = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def url(self, path):
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def at(self, path):
        """The requests for a path, whatever they were answered with."""
        return [request for request in self.requests if request.path == path]

    def _handler(self):
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status = 200
                if self.headers.get("x-amz-sns-message-type") == "SubscriptionConfirmation":
                    threading.Thread(target=confirm, args=[body], daemon=True).start()
                else:
                    status = web.answers.get(self.path, 200)
                    web.requests.append(Request(self.path, self.headers.items(), body, status, time.time()))
                    time.sleep(web.delays.get(self.path, 0))
                # Anyone who asked may have gone by then.
                self.close_connection = True
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        return Handler


def confirm(body):
    """Visits the link in SNS's question whether it may send here."""
    urllib.request.urlopen(json.loads(body)["SubscribeURL"], timeout=10).close()
