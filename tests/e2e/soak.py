"""Random clients of every kind against one server for a long time: good ones, ones that leave, are slow, send nonsense or nothing. Made for
the program built with AddressSanitizer; ctest runs it as `soak_asan`.

    TROUPE_PROGRAM=build/asan/troupe .cache/venv/bin/python tests/e2e/soak.py --minutes 30 --seed 1

It ends well if every request that a client waited for ended with a status it may have, greedy answers never changed, memory stays
bounded after a warm-up, all that is held is given back at the end, and SIGTERM ends the process with 0 and no sanitizer's report."""
import argparse
import collections
import faulthandler
import json
import random
import signal
import sys
import threading
import time

import load_clients
from soak_clients import ACTIONS, REFERENCE, World, reference_text
from troupe_server import ROOT, Server, is_idle

ARGUMENTS = ("--kv-memory", "96MiB", "--max-queue", "24", "--max-sequences", "12", "--slow-reader-ms", "4000", "--idle-timeout-ms", "8000",
             "--head-timeout-ms", "3000", "--body-timeout-ms", "3000", "--watchdog-ms", "300000", "--grace-seconds", "5",
             "--max-body", "200000")
# A quarantine that is full before the warm-up is over: what it keeps is no leak.
SANITIZERS = {"ASAN_OPTIONS": "detect_stack_use_after_return=1:check_initialization_order=1:strict_string_checks=1:"
                              "new_delete_type_mismatch=0:quarantine_size_mb=32",
              "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:suppressions={ROOT}/tests/sanitizers/ubsan.supp",
              "LSAN_OPTIONS": f"suppressions={ROOT}/tests/sanitizers/lsan.supp:print_suppressions=0"}
INTERNAL = ("internal_error", "engine_restarting", "retry_budget", "step_timeout", "compute_fault", "non_finite", "actor_died", "out_of_memory")
WARM_UP = 0.25         # of the time; then memory must not grow by half
MEMORY_GROWTH = 1.5
END_SECONDS = 900      # for what still runs when the clients stop


def main():
    parser = argparse.ArgumentParser(description="random clients against one server")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--clients", type=int, default=24)
    options = parser.parse_args()
    faulthandler.register(signal.SIGUSR1)  # shows where the clients are
    print(f"soak: {options.minutes} minutes, {options.clients} clients, --seed {options.seed}", flush=True)
    server = Server(*ARGUMENTS, environment=SANITIZERS)
    try:
        soak(server, options)
    finally:
        server.kill()
        if server.stderr:
            print("stderr of the server:", server.stderr[-20000:], sep="\n")


def soak(server, options):
    world = World(server)
    if world.slow:
        load_clients.PATIENCE *= 4
    seconds = 60 * options.minutes
    stop_at = time.monotonic() + seconds
    tally, faults = collections.Counter(), []

    def client(number):
        chance = random.Random(f"{options.seed} {number}")
        names = list(ACTIONS)
        while time.monotonic() < stop_at and not faults:
            name = chance.choices(names, [ACTIONS[n][0] for n in names])[0]
            try:
                ACTIONS[name][1](world, chance)
                tally[name] += 1
            except Exception as fault:  # noqa: BLE001
                faults.append(f"client {number}, {name}: {fault!r}")

    threads = [threading.Thread(target=client, args=(n,), daemon=True) for n in range(options.clients)]
    for thread in threads:
        thread.start()
    memory = watch(server, stop_at, faults, tally)
    for thread in threads:
        thread.join(max(0, stop_at - time.monotonic()) + END_SECONDS)
    hanging = [n for n, thread in enumerate(threads) if thread.is_alive()]
    print("done:", json.dumps(dict(sorted(tally.items()))), "statuses:", json.dumps(dict(sorted(world.statuses.items()))), flush=True)
    print("MiB:", " ".join(f"{m:.0f}" for m in memory[:: max(1, len(memory) // 30)]), flush=True)
    check(not faults, "\n".join(faults))
    check(not hanging, f"clients that still wait: {hanging}")
    check_end(server, world, memory)
    server.stop()
    for sign in ("Sanitizer", "runtime error", " error ", "message_refused"):
        check(sign not in server.stderr, f"a sanitizer's report, or an error in the log: {sign}")
    print("clean", flush=True)


def watch(server, stop_at, faults, tally):
    """Resident memory each second, until the end."""
    memory, shown = [], 0
    while time.monotonic() < stop_at and not faults:
        check(server.process.poll() is None, f"the server ended by itself with {server.process.poll()}")
        memory.append(server.memory_mib())
        if len(memory) - shown >= 60:
            shown = len(memory)
            print(f"{shown} s: {sum(tally.values())} actions, {memory[-1]:.0f} MiB", flush=True)
        time.sleep(1)
    return memory


def check_end(server, world, memory):
    after = server.wait_for_metrics(
        lambda m: is_idle(m) and m["troupe:http_requests_in_flight"] == 0 and m["troupe:http_connections"] == 1
        and m['troupe:cache_blocks{state="locked"}'] == 0, END_SECONDS)
    check(reference_text(server) == world.reference, "the greedy answer has changed")
    warm = memory[int(len(memory) * WARM_UP):]
    settled, last = warm[0], sorted(memory[-10:])[len(memory[-10:]) // 2]
    check(last <= settled * MEMORY_GROWTH, f"memory grew from {settled:.0f} to {last:.0f} MiB after the warm-up")
    check(after["troupe:epoch_restarts_total"] == 0, "the engine had to restart")
    bad = {k: v for k, v in after.items() if v > 0 and (
        k.startswith("troupe:actor_restarts_total")
        or k.startswith("troupe:request_failures_total") and any(word in k for word in INTERNAL))}
    check(not bad, f"failures: {bad}")
    print(f"answer to {REFERENCE!r} unchanged; {settled:.0f} MiB after the warm-up, {last:.0f} at the end", flush=True)


def check(good, text):
    if not good:
        raise SystemExit("soak: " + text)


if __name__ == "__main__":
    sys.exit(main())
