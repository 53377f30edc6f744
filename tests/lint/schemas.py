"""Every message of the schemas says who sends it and who receives it: a struct without prose is not a protocol."""
import re

from common import files, read, report

STRUCT = re.compile(r"^struct (\w+)[^{]*\{(.*?)^\}", re.M | re.S)
faults = []
count = 0
everywhere = "\n".join(read(n) for n in files(".capnp"))
for name in files(".capnp"):
    text = read(name)
    if not re.match(r"@0x[0-9a-f]{16};\n#", text):
        faults.append(f"{name}: begins without a comment on what the file is about")
    for struct, body in STRUCT.findall(text):
        count += 1
        part_of_others = re.search(r"[:(.](?:\w+\.)?" + struct + r"\b", everywhere) is not None
        if part_of_others:
            continue  # a part: the message that carries it has the prose
        if not body.lstrip().startswith("#"):
            faults.append(f"{name}: message {struct} has no prose")
        elif not re.search(r"Senders?[: ]", body) or not re.search(r"Receivers?:| to ", body):
            faults.append(f"{name}: message {struct} names no sender and receiver")
if count < 20:
    faults.append(f"only {count} structs found: has the layout of the schemas changed?")
report(f"schemas ({count} structs)", faults)
