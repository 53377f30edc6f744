"""R44: overloaded, a server left requests hanging for ever while it called itself healthy and counted none. Here many more clients than
queue and batch hold ask over every route at once: each request ends with an answer, the same as of an idle server, or with 429; nobody
waits for ever; and afterwards all is as before."""
import collections
import threading
import time
import unittest

from load_clients import PATIENCE, ROUTES, ask
from troupe_server import LONG, ServerTest, is_idle

QUEUE, BATCH = 8, 4
CLIENTS = 10 * (QUEUE + BATCH)
SECONDS = 60 if LONG else 8
QUESTIONS = ["Tell me about rivers.", "Name three colours.", "What is bread?", "Count to ten."]


class Overload(ServerTest):
    arguments = ("--max-queue", str(QUEUE), "--max-sequences", str(BATCH), "--max-connections-per-address", "2000")

    def test_r44_every_request_ends(self):
        expected = {(route, q): ask(self.server, route, q, 12).text for route in ROUTES for q in QUESTIONS}
        self.assertEqual(len(set(expected.values())), 2 * len(QUESTIONS))  # with and without a template
        tally, faults, waiting = collections.Counter(), [], set()
        stop_at = time.monotonic() + SECONDS

        def client(number):
            route, question = ROUTES[number % len(ROUTES)], QUESTIONS[number // len(ROUTES) % len(QUESTIONS)]
            while time.monotonic() < stop_at and not faults:
                waiting.add(number)
                try:
                    end = ask(self.server, route, question, 12, stream=number % 3 > 0)
                except Exception as fault:  # noqa: BLE001
                    faults.append(f"{route}: {fault!r}")
                    return
                finally:
                    waiting.discard(number)
                tally[end.how] += 1
                if end.how == "complete" and end.text != expected[route, question]:
                    faults.append(f"{route}: another text under load: {end.text!r}")
                elif end.how == "refused" and (end.status != 429 or end.code != "queue_full" or end.retry_after < 1):
                    faults.append(f"{route}: {end}")
                elif end.how not in ("complete", "refused"):
                    faults.append(f"{route}: {end}")
                if end.how == "refused":
                    time.sleep(0.05)  # sooner than asked, but not so that nobody else gets a core

        threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        healthy = []
        while time.monotonic() < stop_at:
            healthy.append((self.server.get("/health")[0], self.server.get("/ready")[0]))
            time.sleep(0.5)
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(sorted(waiting), [], "requests that never ended")
        self.assertEqual(faults, [])
        self.assertEqual(set(healthy), {(200, 200)})
        self.assertGreater(tally["complete"], BATCH)
        self.assertGreater(tally["refused"], CLIENTS - QUEUE - BATCH)  # it was an overload

        after = self.server.wait_for_metrics(lambda m: is_idle(m) and m["troupe:http_requests_in_flight"] == 0)
        self.assertEqual(after["troupe:epoch_restarts_total"], 0)
        for (route, q), text in expected.items():
            self.assertEqual(ask(self.server, route, q, 12).text, text, route)


if __name__ == "__main__":
    unittest.main()
