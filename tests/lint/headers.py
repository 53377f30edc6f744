"""Every header compiles alone: it includes all it needs."""
import json
import os
import shlex
import shutil
import subprocess
import sys
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

compiler = ([shutil.which("ccache")] if shutil.which("ccache") else []) + [os.environ.get("CXX", "g++")]
environment = {**os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}
scratch = build / "header_check"


def check(name):
    """None, or the first error of a file that includes this header and nothing else. Compiled to an object, so that ccache may help."""
    flags = [f for f in flags_of.get(folder(name), flags_of.get("cluster", [])) if not f.startswith("-DTROUPE_TEST")]
    stub = scratch / (name.replace("/", "_") + ".cpp")
    text = f'#include "{name}"\n'
    if not stub.exists() or stub.read_text() != text:
        stub.write_text(text)
    run = subprocess.run([*compiler, "-std=c++20", "-O0", "-c", "-I", str(ROOT), *flags, str(stub), "-o", str(stub) + ".o"],
                         capture_output=True, text=True, env=environment)
    if run.returncode == 0:
        return None
    first = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr[:200])
    return f"{name} does not compile alone: {first}"


headers = [n for n in files(".h") if n.split("/")[0] in FOLDERS and not n.startswith(("kernels/cpu/", "kernels/cuda/"))]
if not headers:
    sys.exit("no headers found")
scratch.mkdir(exist_ok=True)
with ThreadPoolExecutor(os.cpu_count()) as pool:
    faults = [f for f in pool.map(check, headers) if f]
report(f"headers ({len(headers)} checked)", faults)
