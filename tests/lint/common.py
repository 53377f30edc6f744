"""What the lint scripts share: the list of the project's files and the way to report."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["messages", "kernels", "runtime", "actors", "gateway", "cluster"]


def files(*suffixes):
    """Files of the project with these suffixes, as paths relative to the root: tracked ones, and new ones not ignored."""
    names = None
    if (ROOT / ".git").exists():
        found = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
                               capture_output=True)
        if found.returncode == 0:
            names = [n for n in found.stdout.decode().split("\0") if n and (ROOT / n).is_file()]
    if names is None:  # a copy without git
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                 if p.is_file() and not {"build", ".cache", ".git", "__pycache__"} & set(p.relative_to(ROOT).parts)]
    return sorted(n for n in names if not suffixes or n.endswith(suffixes))


def sources():
    return files(".h", ".cpp", ".inl", ".cu", ".cuh")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def folder(name):
    """Folder of the include table: runtime is split in its parts."""
    parts = name.split("/")
    if parts[0] == "runtime":
        return "/".join(parts[:2]) if len(parts) > 2 else "runtime"
    return parts[0]


def report(title, faults):
    for fault in faults:
        print(fault)
    print(f"{title}: {len(faults)} fault(s)")
    sys.exit(1 if faults else 0)


def build_folder():
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("usage: " + sys.argv[0] + " BUILD_FOLDER")
    return pathlib.Path(sys.argv[1]).resolve()
