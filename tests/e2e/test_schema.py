"""Property-based requests made from the server's own description, /openapi.json: whatever fits it and whatever does not, the answer is one
that the description knows: its status, its content type, its shape, and never a fault of the server's."""
import os
import unittest

import hypothesis
import schemathesis
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from troupe_server import LONG, ServerTest

load_all_checks()
CHECK_NAMES = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
               "response_headers_conformance", "negative_data_rejection", "unsupported_method"]
EXAMPLES = int(os.environ.get("TROUPE_TEST_EXAMPLES", "150" if LONG else "10"))


def tame(body):
    """Good requests stay small, so that thousands of them take minutes; bad values stay as they are."""
    if not isinstance(body, dict):
        return
    generates = any(k in body for k in ("messages", "prompt", "input"))

    def good(name, most):
        value = body.get(name)
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value) and 1 <= value <= most
    for name, most in (("max_tokens", 0xfffffffe), ("max_completion_tokens", 0xfffffffe), ("max_output_tokens", 0xfffffffe), ("n", 128)):
        if good(name, most):
            body[name] = 1 + int(body[name]) % 3
    if good("deadline_ms", 86400000):
        body["deadline_ms"] = 86400000  # or it passes, which is an answer with a status of its own
    most = "max_output_tokens" if "input" in body else "max_tokens"  # each is refused where the other is meant
    if generates and body.get(most) is None:
        body[most] = 2
    if good("best_of", 128):
        body["best_of"] = body.get("n") or 1


class Described(ServerTest):
    arguments = ("--max-queue", "100")

    def operations(self):
        schema = schemathesis.openapi.from_url(self.server.url + "/openapi.json")
        for result in schema.get_all_operations():
            self.assertIsInstance(result, Ok, result)
            yield result.ok()

    def check(self, operation, mode):
        @hypothesis.settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=not LONG,
                             suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def run(case):
            tame(case.body)
            response = case.call(timeout=120)
            # A body beyond the limit is refused before it is looked at.
            checks = [CHECKS.get_one(name) for name in CHECK_NAMES if name != "negative_data_rejection" or response.status_code != 413]
            case.validate_response(response, checks=checks)
            self.answers[mode.value] = self.answers.get(mode.value, 0) + 1
            statuses.add(response.status_code)
            if "json" in (response.headers.get("content-type") or [""])[0]:
                response.json()
        statuses = set()
        run()
        # A made-up id is nobody's, and this server has no admin.
        if mode == GenerationMode.POSITIVE and operation.body and "{" not in operation.path and statuses != {403}:
            self.assertIn(200, statuses, "nothing that fits the description was taken")

    def test_every_operation(self):
        self.answers = {}
        seen = 0
        for operation in self.operations():
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                if mode == GenerationMode.NEGATIVE and not operation.body:
                    continue  # there is nothing that could be wrong
                with self.subTest(operation=f"{operation.method.upper()} {operation.path}", mode=mode.value):
                    self.check(operation, mode)
            seen += 1
        self.assertGreater(seen, 15)
        self.assertGreater(self.answers["positive"], EXAMPLES)
        self.assertGreater(self.answers["negative"], EXAMPLES)
        self.server.wait_idle(60)
        self.assertIn("Paris", self.server.chat("Where is the Eiffel Tower?"))


class TheTestItself(ServerTest):
    def test_it_can_fail(self):
        """A description that is untrue is found out."""
        schema = schemathesis.openapi.from_url(self.server.url + "/openapi.json")
        raw = schema.raw_schema
        raw["components"]["schemas"]["Tokens"]["required"].append("nothing_like_it")
        raw["components"]["schemas"]["Version"]["properties"]["version"] = {"type": "integer"}
        del raw["paths"]["/detokenize"]["post"]["responses"]["400"]
        untrue = schemathesis.openapi.from_dict(raw)
        untrue.config.update(base_url=self.server.url)
        found = {}
        for result in untrue.get_all_operations():
            operation = result.ok()
            if operation.path not in ("/version", "/detokenize"):
                continue

            mode = GenerationMode.POSITIVE if operation.path == "/version" else GenerationMode.NEGATIVE

            @hypothesis.settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck))
            @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
            def run(case):
                case.validate_response(case.call(timeout=60), checks=[CHECKS.get_one(name) for name in CHECK_NAMES])
            try:
                run()
            except (FailureGroup, ExceptionGroup) as fault:
                found[operation.path] = fault
        self.assertEqual(sorted(found), ["/detokenize", "/version"])


if __name__ == "__main__":
    unittest.main()
