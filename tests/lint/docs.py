"""Docs and tree agree: options, links, length of ARCHITECTURE.md, no paths of somebody's machine, no file left undescribed."""
import os
import re
import subprocess

from common import ROOT, build_folder, files, read, report, sources

build = build_folder()
faults = []

# docs/options.md and docs/http-api.md are what the program says.
program = build / "troupe"
if program.exists():
    for command, page in (("options", "docs/options.md"), ("api", "docs/http-api.md")):
        said = subprocess.run([str(program), command], capture_output=True, text=True)
        if said.returncode != 0 or said.stdout != read(page):
            faults.append(f"{page} differs from `troupe {command}`; write it anew: build/release/troupe {command} > {page}")
    said = subprocess.run([str(program), "launch", "--keys"], capture_output=True, text=True)
    if said.returncode != 0 or said.stdout not in read("docs/cluster.md"):
        faults.append("docs/cluster.md lacks what `troupe launch --keys` says: put it in the place of its table")
else:
    faults.append(f"{program} is missing: build it first")

# Links to files resolve; ARCHITECTURE.md stays short.
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)(?:#[^)]*)?\)")
for name in files(".md"):
    if name.startswith("tests/data/"):
        continue
    for target in LINK.findall(read(name)):
        if "://" in target or target.startswith("mailto:"):
            continue
        if not (ROOT / os.path.dirname(name) / target).exists():
            faults.append(f"{name}: link to {target}, which is not there")
if read("ARCHITECTURE.md").count("\n") > 300:
    faults.append("ARCHITECTURE.md has more than 300 lines")

# Tests that the failure table names exist.
names = {m for n in files(".cpp", ".py", "CMakeLists.txt") if n.startswith("tests/") for m in re.findall(r"[\w./-]+", n)}
for target in re.findall(r"`(tests/[\w./-]+)`", read("ARCHITECTURE.md")):
    if not (ROOT / target).exists():
        faults.append(f"ARCHITECTURE.md names {target}, which is not there")

# Paths that exist on one machine only.
MACHINE = re.compile(r"(?<![\w.~$}/-])/(?:home|root|work|Users|opt|mnt)/\w")
for name in files():
    if name.startswith(("tests/data/", "docs/")) and not name.endswith(".md"):
        continue
    if name.endswith((".png", ".gguf", ".bin")) or name == "LICENSE" or name == "tests/lint/docs.py":
        continue
    for number, line in enumerate(read(name).splitlines(), 1):
        if MACHINE.search(line):
            faults.append(f"{name}:{number}: path of a machine: {line.strip()[:80]}")

# Every header, and every source without one, begins with words on what it is.
for name in sources():
    if name.endswith(".cpp") and ((ROOT / name).with_suffix(".h").exists() or name.startswith("tests/")):
        continue
    if not read(name).lstrip().startswith("//"):
        faults.append(f"{name}: begins without a comment on what it is")
for name in files(".h"):
    if "#pragma once" not in read(name) and not name.startswith("tests/data/"):
        faults.append(f"{name}: no #pragma once")
report("docs", faults)
