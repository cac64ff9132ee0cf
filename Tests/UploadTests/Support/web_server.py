"""A web server that misbehaves: what it does is the first part of the path.

    web_server.py PORT CERTIFICATE KEY FOLDER

Each request is written to FOLDER/log as a JSON line: the line, the headers, how many bytes of the body came. Prints "ready".
"""

import hashlib
import http.server
import json
import os
import ssl
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def record(self, body: bytes):
        line = {
            "line": self.requestline,
            "headers": [[name, value] for name, value in self.headers.items()],
            "size": len(body),
            "digest": hashlib.sha256(body).hexdigest(),
        }
        log = os.open(f"{folder}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(log, (json.dumps(line) + "\n").encode())
        os.close(log)

    def answer(self, status: int, headers: dict[str, str] = {}, body: bytes = b""):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        what = self.path.split("/")[1]
        size = int(self.headers["Content-Length"])
        if what == "half":
            self.record(self.rfile.read(size // 2))
            self.close_connection = True
            return
        if what == "early":
            self.record(self.rfile.read(1000))
            self.answer(201, {"Connection": "close"})
            time.sleep(1)
            self.close_connection = True
            return
        body = self.rfile.read(size)
        self.record(body)
        if what == "stall":
            time.sleep(600)
        elif what == "flood":
            self.answer(201, {"Content-Length": "10000000"}, b"x" * 10_000_000)
        elif what == "headers":
            self.answer(201, {f"X-{n}": "x" * 1000 for n in range(90)})
        elif what == "redirect":
            self.answer(307, {"Location": f"https://localhost:{port}/take/elsewhere"})
        elif what == "take":
            with open(f"{folder}/{os.path.basename(self.path)}", "wb") as file:
                file.write(body)
            self.answer(201)
        else:
            self.answer(int(what))

    def do_GET(self):
        self.record(b"")
        what = self.path.split("/")[1]
        if what == "take":
            with open(f"{folder}/{os.path.basename(self.path)}", "rb") as file:
                self.answer(200, body=file.read())
        elif what == "endless":
            self.send_response(200)
            self.end_headers()
            self.close_connection = True
            while True:
                self.wfile.write(b"x" * 65536)
        elif what == "redirect":
            self.answer(302, {"Location": f"https://localhost:{port}/take/elsewhere"})
        else:
            self.answer(int(what))


port, certificate, key, folder = int(sys.argv[1]), *sys.argv[2:]
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
