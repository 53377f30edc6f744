"""clang-format has nothing to change. `./dev format` does it."""
import shutil
import subprocess
import sys

from common import ROOT, report, sources

tool = shutil.which("clang-format-14") or shutil.which("clang-format")
if tool is None:
    sys.exit("clang-format is not installed (apt-get install clang-format)")
names = [n for n in sources() if not n.startswith("tests/data/")]
run = subprocess.run([tool, "--dry-run", "-ferror-limit=1", *names], cwd=ROOT, capture_output=True, text=True)
faults = sorted({line.split(":")[0] + ": not formatted; run ./dev format" for line in run.stderr.splitlines() if "clang-format-violations" in line})
report(f"format ({len(names)} files)", faults)
