"""The chat page in headless Chromium: types, sees the answer stream in, stops one, branches from an earlier answer. Takes the README's
picture: into the build folder, and into docs/ with TROUPE_REFRESH_SCREENSHOT=1."""
import os
import pathlib
import shutil
import tempfile
import time
import unittest

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from troupe_server import ROOT, Server, ServerTest


def browser(profile):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1100,860",
                     "--hide-scrollbars", f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver") or "/usr/bin/chromedriver")
    return webdriver.Chrome(options=options, service=service)


class PageTest(ServerTest):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.driver = browser(scratch.name)
        self.addCleanup(self.driver.quit)
        self.driver.get(self.server.url + "/")
        self.until(lambda d: d.find_element(By.ID, "prompt").is_enabled(), "the page to be ready")
        temperature = self.driver.find_element(By.ID, "temperature")
        temperature.clear()
        temperature.send_keys("0")

    def until(self, condition, what, seconds=60):
        return WebDriverWait(self.driver, seconds, poll_frequency=0.02).until(condition, "waited for " + what)

    def say(self, text):
        prompt = self.driver.find_element(By.ID, "prompt")
        prompt.send_keys(text + Keys.ENTER)

    def answers(self):
        return self.driver.find_elements(By.CSS_SELECTOR, "#messages .message.assistant")

    def answer_text(self, index):
        return self.answers()[index].find_element(By.CSS_SELECTOR, ".text").text

    def busy(self):
        stop = self.driver.find_element(By.ID, "stop")
        return stop.is_displayed() and stop.is_enabled()

    def finished(self, count):
        return self.until(lambda d: len(self.answers()) == count and not self.busy() and self.answer_text(-1), f"answer {count} to end")

    def shot(self, name):
        target = pathlib.Path(os.environ.get("TROUPE_TEST_OUTPUT", ROOT / "build")) / name
        self.driver.save_screenshot(str(target))
        return target


class Page(PageTest):
    def test_chat_stream_stop_branch(self):
        self.say("Where is the Eiffel Tower?")
        self.assertIn("Paris", self.finished(1))
        self.assertEqual(self.driver.find_element(By.CSS_SELECTOR, "#messages .message.user").text.count("Eiffel Tower"), 1)

        # The answer grows while it is written, and stopping keeps what was said.
        self.say("Write a very long story about a ship, with many chapters.")
        lengths = set()

        def growing(_):
            if len(self.answers()) == 2:
                lengths.add(len(self.answer_text(1)))
            return len(lengths) >= 4

        self.until(growing, "the answer to grow in steps")
        self.driver.find_element(By.ID, "stop").click()
        stopped = self.finished(2)
        time.sleep(0.5)
        self.assertEqual(self.answer_text(1), stopped)
        self.server.wait_idle()

        # Branch: go on from the first answer; the second is no part of that conversation.
        self.answers()[0].find_element(By.CSS_SELECTOR, ".branch").click()
        self.assertEqual(len(self.answers()), 1)
        self.say("What is the boiling point of water in Celsius?")
        branched = self.finished(2)
        self.assertIn("boiling point", branched)
        self.assertNotIn("ship", self.driver.find_element(By.ID, "messages").text.replace("about a ship", ""))
        # Both branches are offered; the other one comes back as it was.
        other = [b for b in self.driver.find_elements(By.CSS_SELECTOR, "#messages .branches button") if "story about a ship" in b.text]
        self.assertEqual(len(other), 1)
        other[0].click()
        self.assertEqual(self.answer_text(1), stopped)
        # A stopped answer can be gone on from; it is the server that remembers it.
        self.say("Thank you. Where is the Eiffel Tower?")
        self.assertNotEqual(self.finished(3), "")
        severe = [e for e in self.driver.get_log("browser") if e["level"] == "SEVERE" and "favicon" not in e["message"]]
        self.assertEqual(severe, [])

    def test_picture(self):
        self.say("Why is the sky blue? Answer in one sentence.")
        self.finished(1)
        self.say("Give me three ideas for a rainy afternoon.")
        self.finished(2)
        self.answers()[0].find_element(By.CSS_SELECTOR, ".branch").click()
        self.say("And why is it red in the evening?")
        self.finished(2)
        time.sleep(0.3)
        picture = self.shot("chat-page.png")
        self.assertGreater(picture.stat().st_size, 10000)
        if os.environ.get("TROUPE_REFRESH_SCREENSHOT") == "1":
            shutil.copy(picture, ROOT / "docs/chat-page.png")


class PageWithKey(unittest.TestCase):
    def test_the_page_asks_for_the_key(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("page-key\n")
            keys.flush()
            server = Server("--api-key-file", keys.name)
        self.addCleanup(server.kill)
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        driver = browser(scratch.name)
        self.addCleanup(driver.quit)
        driver.get(server.url + "/")
        wait = WebDriverWait(driver, 60, poll_frequency=0.05)
        field = wait.until(lambda d: next((f for f in d.find_elements(By.CSS_SELECTOR, "input[type=password]") if f.is_displayed()), None),
                           "waited for the field that asks for the key")
        field.send_keys("page-key" + Keys.ENTER)
        wait.until(lambda d: d.find_element(By.ID, "prompt").is_enabled() and not field.is_displayed(), "waited for the page to connect")
        driver.find_element(By.ID, "prompt").send_keys("Where is the Eiffel Tower?" + Keys.ENTER)
        wait.until(lambda d: any("Paris" in m.text for m in d.find_elements(By.CSS_SELECTOR, "#messages .message.assistant")),
                   "waited for the answer")


if __name__ == "__main__":
    unittest.main()
