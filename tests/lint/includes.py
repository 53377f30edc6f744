"""Who may include whom: the table of ARCHITECTURE.md, and where the headers of CAF, libuv, spdlog and CUDA may be named."""
import re

from common import files, folder, read, report, sources

RUNTIME = {"runtime/" + p for p in ("base", "text", "kv", "weights", "collective", "sample", "plan", "schedule", "model", "exec",
                                    "session", "speculate", "quantize", "adapter")}
MAY_INCLUDE = {
    "messages": set(),
    "kernels": set(),
    "runtime/base": {"messages"},
    "runtime/plan": {"messages", "runtime/base"},
    "runtime/collective": {"messages", "kernels", "runtime/base"},
    "runtime/text": {"messages", "runtime/base"},
    "runtime/kv": {"messages", "runtime/base"},
    "runtime/weights": {"messages", "kernels", "runtime/base", "runtime/text"},
    "runtime/sample": {"messages", "kernels", "runtime/base", "runtime/plan"},
    "runtime/session": {"messages", "runtime/base", "runtime/text", "runtime/kv", "runtime/plan", "runtime/schedule"},
    "runtime/schedule": {"messages", "runtime/base", "runtime/kv", "runtime/plan"},
    "runtime/model": {"messages", "kernels", "runtime/base", "runtime/weights"},
    "runtime/exec": {"messages", "kernels", "runtime/base", "runtime/model", "runtime/weights", "runtime/sample", "runtime/plan",
                     "runtime/collective"},
    "actors": {"messages"} | RUNTIME,
    "gateway": {"messages", "runtime/base", "runtime/text"},
    "cluster": {"messages", "gateway", "actors", "kernels"} | RUNTIME,
}
# Pattern of an outside header -> where it may be named.
OUTSIDE = {
    r"caf/": r"^(actors/|cluster/|gateway/gateway_actor\.|messages/caf_types\.h|tests/)",
    r"uc[ps]/": r"^runtime/collective/ucx_",
    r"uv\.h": r"^(gateway/|tests/gateway/)",
    r"sqlite3\.h": r"^runtime/session/sqlite\.h$",
    r"spdlog/": r"^runtime/base/log\.cpp$",
    r"cuda": r"^(kernels/cuda/|runtime/collective/nccl)",
    r"CLI/": r"^cluster/",
    r"toml\+\+/": r"^cluster/",
    r"wslay/": r"^(gateway/ws_session|tests/)",
    r"openssl/": r"^(runtime/base/|gateway/|cluster/link/|tests/)",
    r"prometheus/": r"^runtime/base/metrics\.cpp$",
}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
ISA_HEADERS = re.compile(r"(immintrin\.h|cstdint|cstddef|cstring|stdint\.h|stddef\.h|string\.h)$")

faults = []
for name in sources():
    own = folder(name)
    for quote, target in INCLUDE.findall(read(name)):
        if ".." in target.split("/"):
            faults.append(f"{name}: include from the root of the repository, not '{target}'")
        for pattern, allowed in OUTSIDE.items():
            if re.match(pattern, target) and not re.match(allowed, name):
                faults.append(f"{name}: '{target}' may not be named here (allowed: {allowed})")
        if quote != '"' or own not in MAY_INCLUDE:
            continue
        if "/" not in target:
            if name.startswith("kernels/cpu/"):
                continue  # an ISA folder may name its own plain headers
            faults.append(f"{name}: '{target}' is not named from the root of the repository")
            continue
        there = folder(target)
        if there != own and there not in MAY_INCLUDE[own]:
            faults.append(f"{name}: {own} may not include {there} ('{target}')")
    # One-ISA files share no inline code with generic ones: the linker could keep the wrong copy.
    if re.match(r"kernels/cpu/(avx|amx)", name):
        for quote, target in INCLUDE.findall(read(name)):
            if quote == "<" and not ISA_HEADERS.search(target):
                faults.append(f"{name}: an ISA file may not include <{target}>")
for name in files("CMakeLists.txt", ".cmake"):
    if "-march=native" in read(name):
        faults.append(f"{name}: -march=native")
report("includes", faults)
