"""Every header compiles alone: it includes all it needs. Headers with the same flags are checked in one compiler run, each in a
file of its own; only where that run fails is each tried by itself, to name the culprit."""
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from common import FOLDERS, ROOT, build_folder, files, folder, report

build = build_folder()
commands = json.loads((build / "compile_commands.json").read_text())
flags_of = {}  # folder -> flags of one of its files
for entry in commands:
    name = os.path.relpath(entry["file"], ROOT)
    if name.startswith("..") or not name.endswith(".cpp"):
        continue
    words = shlex.split(entry["command"])
    flags = []
    skip = False
    for word in words:
        if skip:
            flags.append(word)
            skip = False
        elif word in ("-isystem", "-I"):
            flags.append(word)
            skip = True
        elif word.startswith(("-I", "-D", "-std", "-m")):
            flags.append(word)
    known = flags_of.setdefault(folder(name), [])
    known.extend(f for f in flags if f.startswith(("-std", "-D")) and f not in known)
    for i, flag in enumerate(flags):  # include paths, once each
        if flag == "-isystem" and flags[i + 1] not in known:
            known.extend(["-isystem", flags[i + 1]])
        elif flag.startswith("-I") and flag not in known:
            known.append(flag)

compiler = os.environ.get("CXX", "g++")


def compile_headers(folder_name, names):
    """Output of the compiler for the headers, each included first of all in a line of one file."""
    flags = [f for f in flags_of.get(folder_name, flags_of.get("cluster", [])) if not f.startswith("-DTROUPE_TEST")]
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for i, name in enumerate(names):
            path = os.path.join(scratch, f"{i}.cpp")
            with open(path, "w") as out:
                out.write(f'#include "{name}"\n')
            paths.append(path)
        run = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-I", str(ROOT), *flags, *paths], capture_output=True, text=True)
        return run.returncode, run.stderr


groups = {}
for name in files(".h"):
    if name.split("/")[0] in FOLDERS and not name.startswith(("kernels/cpu/", "kernels/cuda/")):
        groups.setdefault(folder(name), []).append(name)


def check(group):
    folder_name, names = group
    code, text = compile_headers(folder_name, names)
    if code == 0:
        return []
    found = []
    for name in names:
        code, text = compile_headers(folder_name, [name])
        if code != 0:
            first = next((line for line in text.splitlines() if "error" in line), text[:200])
            found.append(f"{name} does not compile alone: {first}")
    return found


faults = []
with ThreadPoolExecutor(os.cpu_count()) as pool:
    for found in pool.map(check, sorted(groups.items())):
        faults += found
if not groups:
    sys.exit("no headers found")
report(f"headers ({sum(map(len, groups.values()))} checked)", faults)
