"""What the objects of a build define and want, as nm tells it: used by rooms.py and symbols.py."""
import os
import subprocess


def source_of(path):
    """The source file of an object, from the top of the tree: CMake keeps its path below NAME.dir."""
    return path.split(".dir/", 1)[1].removesuffix(".o")


def read(source, directories):
    """[(object, file, symbols it defines, symbols it wants)] of all C objects below the directories, but of those that an
    earlier build left over: their file is not in the tree any more."""
    paths = sorted(
        os.path.join(top, name)
        for directory in directories for top, _, names in os.walk(directory)
        for name in names if name.endswith(".c.o"))
    ours = ("runtime/", "kernels/", "lua/")
    paths = [path for path in paths
             if not source_of(path).startswith(ours) or os.path.exists(os.path.join(source, source_of(path)))]
    if not paths:
        raise SystemExit(f"no object below {' '.join(directories)}: build first")
    symbols = {path: (set(), set()) for path in paths}
    out = subprocess.run(["nm", "-A", *paths], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        path, rest = line.rsplit(":", 1)
        *_, kind, name = rest.split()
        name = name.split("@", 1)[0]
        if kind in "Uw":
            symbols[path][1].add(name)
        elif kind.isupper():
            symbols[path][0].add(name)
    return [(path, source_of(path), *symbols[path]) for path in paths]
