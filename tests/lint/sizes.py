"""Longest files. Above 500 lines only one-ISA kernels and tables, above 800 nothing. Prints the list and the lines of each folder."""
import re

from common import FOLDERS, files, read, report

LIMIT, TABLE_LIMIT = 500, 800
MAY_BE_LONG = re.compile(r"^(kernels/cpu/|kernels/cuda/|.*_table\.(cpp|inl)$|tests/)")
lengths = sorted(((read(n).count("\n"), n) for n in files(".h", ".cpp", ".inl", ".capnp", ".py", ".js", ".css", ".html", ".txt", ".md")
                  if not n.startswith("tests/data/")), reverse=True)
print("longest files:")
for lines, name in lengths[:12]:
    print(f"{lines:6} {name}")
print("lines a folder:")
for part in FOLDERS + ["tests", "examples"]:
    print(f"{sum(n for n, name in lengths if name.startswith(part + '/')):6} {part}")
faults = [f"{name}: {lines} lines" for lines, name in lengths
          if lines > TABLE_LIMIT or (lines > LIMIT and not MAY_BE_LONG.match(name))]
report("sizes", faults)
