"""wheel.py - write mgpu.py as a wheel, with the standard library alone.

usage: wheel.py DIRECTORY      prints the wheel's path

The wheel depends on the sources and on SOURCE_DATE_EPOCH alone.
"""

import base64
import hashlib
import os
import re
import sys
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
METADATA = """\
Metadata-Version: 2.1
Name: mgpu
Version: %s
Summary: Submit jobs to the batch scheduler mgpu and read what they report
License: Apache-2.0
Requires-Python: >=3.9
Description-Content-Type: text/markdown

%s"""
WHEEL = """\
Wheel-Version: 1.0
Generator: mgpu
Root-Is-Purelib: true
Tag: py3-none-any
"""


def digest(data):
    """As RECORD has it."""
    hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return "sha256=" + hashed.rstrip(b"=").decode()


def write(directory):
    """Writes the wheel; returns its path."""
    with open(os.path.join(HERE, "mgpu.py"), "rb") as file:
        source = file.read()
    with open(os.path.join(HERE, "../../docs/python.md"),
              encoding="utf-8") as file:
        text = file.read()
    version = re.search(rb'^__version__ = "(.*)"$', source, re.M).group(
        1).decode()
    info = "mgpu-%s.dist-info/" % version
    files = {"mgpu.py": source,
             info + "METADATA": (METADATA % (version, text)).encode(),
             info + "WHEEL": WHEEL.encode()}
    record = "".join("%s,%s,%d\n" % (name, digest(data), len(data))
                     for name, data in files.items())
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    # ZIP has no year before 1980.
    made = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")),
                           315532800))[:6]
    path = os.path.join(directory, "mgpu-%s-py3-none-any.whl" % version)
    os.makedirs(directory, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, made)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, data)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: wheel.py DIRECTORY")
    print(write(sys.argv[1]))
