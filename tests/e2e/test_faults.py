"""The shard's compute throws or stalls in the middle of streams: they end with the tokens of an undisturbed run. A stall that ignores
the abort flag ends the process with terminal errors, never silently."""
import threading
import unittest

from troupe_server import LONG, EventStream, Server, chat_body

QUESTIONS = ["Tell me about the moon.", "Write a list of ten animals.", "Explain how bread is made.", "What is a prime number?"]
TOKENS = 40


def answers(server, rounds=1):
    """Streams of all questions at once, `rounds` times."""
    found, faults = {}, []

    def ask(key, question):
        try:
            stream = EventStream(server, chat_body(question, max_tokens=TOKENS))
            if stream.status != 200:
                raise AssertionError(f"status {stream.status}")
            found[key] = stream.text()
            stream.close()
        except Exception as fault:  # noqa: BLE001
            faults.append(f"{key}: {fault!r}")

    for number in range(rounds):
        threads = [threading.Thread(target=ask, args=((number, q), q)) for q in QUESTIONS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if faults:
        raise AssertionError("\n".join(faults) + "\n" + server.stderr[-2000:])
    return found


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server = Server()
        try:
            cls.undisturbed = {q: text for (_, q), text in answers(server).items()}
        finally:
            server.stop()
            server.kill()

    def disturbed(self, fault, wanted):
        # Far above an honest step, also on a busy machine: else recomputing would be taken for a stall, for ever.
        server = Server("--fault", fault, "--watchdog-ms", "1500")
        self.addCleanup(server.kill)
        restarts = 0
        for _ in range(200):
            for (_, question), text in answers(server).items():
                self.assertEqual(text, self.undisturbed[question])
            restarts = server.metrics()["troupe:epoch_restarts_total"]
            if restarts >= wanted:
                break
        self.assertGreaterEqual(restarts, wanted)
        server.wait_idle()
        server.stop()

    def test_throwing_50_times(self):
        self.disturbed("throw:9", 50)

    def test_stalling_50_times(self):
        self.disturbed("stall:9", 50 if LONG else 10)

    def test_a_hang_ends_the_process_loudly(self):
        server = Server("--fault", "hang:12", "--watchdog-ms", "1500")
        self.addCleanup(server.kill)
        ends = []

        def ask(question):
            try:
                events = list(EventStream(server, chat_body(question, max_tokens=200)).events())
                ends.append(any(isinstance(e, dict) and "error" in e for e in events))
            except Exception as fault:  # noqa: BLE001
                ends.append(repr(fault))

        threads = [threading.Thread(target=ask, args=(q,)) for q in QUESTIONS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(ends, [True] * len(QUESTIONS), server.stderr)
        self.assertNotEqual(server.wait(30), 0)
        self.assertIn("troupe:", server.stderr)


if __name__ == "__main__":
    unittest.main()
