"""A receiver of webhooks: python3 receiver.py, with the secret in WEBHOOK_SECRET. Python 3.8 or later, no packages."""

import hashlib
import hmac
import json
import os
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["WEBHOOK_SECRET"].encode()
ADDRESS = (os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "8091")))
MAX_BYTES = 1024 * 1024

database = sqlite3.connect(os.environ.get("EVENTS_FILE", ":memory:"), check_same_thread=False)
database.execute("create table if not exists events (id text primary key, transfer_id text)")
one_at_a_time = threading.Lock()


def is_authentic(body, signature):
    expected = hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode())


def handle(event):
    transfer = event["data"].get("transfer_id", "")
    # One transaction with what the event does: it is known if and only if it was handled.
    with one_at_a_time, database:
        newer = database.execute("select 1 from events where transfer_id = ? and id > ?", (transfer, event["id"]))
        # Deliveries may come out of order: of two events of a transfer, the one with the greater id is the newer.
        late = transfer != "" and newer.fetchone() is not None
        insert = database.execute("insert or ignore into events values (?, ?)", (event["id"], transfer))
        # A delivery may come twice, with the same event id.
        if insert.rowcount == 1:
            print(event["id"], event["type"], transfer + (" (late: a newer event was handled)" if late else ""), flush=True)


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BYTES:
            return self.answer(413)
        # The bytes as they came: parsed and written again, they would not be the same.
        body = self.rfile.read(int(length))
        if not is_authentic(body, self.headers.get("X-Service-Signature", "")):
            return self.answer(401)
        handle(json.loads(body))
        # Within 10 seconds: what takes longer goes into a queue of one's own first.
        self.answer(200)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(ADDRESS, Receiver)
    print("Listening at http://%s:%d/" % server.server_address, flush=True)
    server.serve_forever()
