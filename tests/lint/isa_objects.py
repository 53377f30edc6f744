"""Objects compiled for one ISA hold no weak symbols (inline functions, templates): the linker may keep such a copy for everybody,
and a machine without that ISA would then die of an illegal instruction. Compile options may not slip an ISA into other files."""
import json
import re
import shlex
import subprocess
import sys

from common import build_folder, report

build = build_folder()
objects = sorted(p for p in build.rglob("*.o") if re.search(r"kernels/.*cpu/(avx|amx)[^/]*/|cpu[/_](avx2|avx512|amx)", str(p)))
if not objects:
    sys.exit(f"no objects of kernels/cpu/avx* found below {build}: has it been built?")
faults = []
for path in objects:
    symbols = subprocess.run(["nm", "-C", str(path)], capture_output=True, text=True, check=True).stdout
    for line in symbols.splitlines():
        kind = line[17:18]
        if kind in "WVwvu" and not line.endswith(("__gxx_personality_v0", "DW.ref.__gxx_personality_v0")):
            faults.append(f"{path.relative_to(build)}: weak symbol {line[19:]}")
for entry in json.loads((build / "compile_commands.json").read_text()):
    words = shlex.split(entry["command"])
    isa = [w for w in words if re.match(r"-m(arch|avx|amx|fma|f16c|tune)", w) and w != "-march=x86-64"]  # that is the baseline
    if isa and not re.search(r"cpu/(avx|amx)[^/]*/", entry["file"]):
        faults.append(f"{entry['file']}: compiled with {' '.join(isa)} outside an ISA folder")
report(f"ISA objects ({len(objects)} checked)", faults)
