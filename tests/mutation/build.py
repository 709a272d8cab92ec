"""Compiling and linking: the original, mutants, and the module that counts for gcov. All of it under build/mutation."""

import os
import shlex
import subprocess
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
WORK = TOP / "build" / "mutation"
BASE = WORK / "base"
UNIT = WORK / "unit"

CC = shlex.split(os.environ.get("CC", "cc"))
SANITIZE = shlex.split(os.environ.get("SANITIZE", "-fsanitize=address,undefined -fno-sanitize-recover=all"))
UNIT_SOURCES = os.environ.get("UNIT_SOURCES", "").split()

# A mutant may cause warnings, so warnings are no errors; but what newer compilers, and the standard, reject does not
# compile. (With -w it would.) Without -g, because object code is compared.
C = ["-std=c11", "-O2", "-I.", "-Imodule"]
C += [f"-Werror={what}" for what in ("implicit-function-declaration", "int-conversion", "incompatible-pointer-types")]
# The checking build, as `make integration` has it.
MODULE = ["-fPIC", "-fvisibility=hidden", "-DCHECKED", *shlex.split(os.environ.get("VERSIONED", ""))]
UNIT_FLAGS = ["-g", *SANITIZE, "-iquote", "tests/unit"]

# For endless loops of the preprocessor or the optimizer.
COMPILE_LIMIT = 60


def run(command, **options):
    """Runs a command at the top level; returns whether it succeeded."""
    try:
        done = subprocess.run(command, cwd=TOP, capture_output=True, timeout=COMPILE_LIMIT, **options)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _must(command):
    subprocess.run(command, cwd=TOP, check=True)


def sources():
    """module/*/*.c, as paths from the top level."""
    return sorted(str(path.relative_to(TOP)) for path in (TOP / "module").glob("*/*.c"))


def mutated_sources():
    """Of these, the ones that users load."""
    checking = os.environ.get("CHECKING", "").split()
    return [source for source in sources() if source not in checking]


def compile_object(source, target, flags=MODULE):
    """Compiles one file; returns whether it compiles."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # Assertions contain the name of their file: the same name for a mutant, or no two objects would be equal.
    names = f"-fmacro-prefix-map={Path(source).parent}=module"
    return run([*CC, *C, *flags, names, "-c", "-o", str(target), str(source)])


def object_of(source, folder=BASE):
    return folder / (Path(source).stem + ".o")


def build_base():
    """The original, compiled as the mutants are."""
    for source in sources():
        if not compile_object(source, object_of(source)):
            raise SystemExit(f"{source} does not compile")
    return link_module(BASE, {})


def link_module(folder, mutated):
    """Links folder/lock.so from the original's objects, with those of `mutated` (source -> object) in their place."""
    objects = [str(mutated.get(source, object_of(source))) for source in sources()]
    target = folder / "lock.so"
    _must([*CC, "-shared", "-O2", "-o", str(target), *objects])
    return target


# The unit tests


def has_unit_tests(source):
    return source in UNIT_SOURCES


def unit_tests(source):
    """The names of all unit tests, those named after the file first."""
    names = [path.stem for path in sorted((TOP / "tests" / "unit").glob("test_*.c"))]
    return sorted(names, key=lambda name: Path(source).stem not in name)


def build_unit_base():
    for source in [*UNIT_SOURCES, *(f"tests/unit/{name}.c" for name in unit_tests("none"))]:
        target = object_of(source, UNIT)
        if not target.exists() and not compile_object(source, target, UNIT_FLAGS):
            raise SystemExit(f"{source} does not compile")


def link_unit(name, folder, mutated):
    """Links one unit test in `folder`, as link_module does."""
    objects = [mutated.get(source, object_of(source, UNIT)) for source in UNIT_SOURCES]
    target = folder / name
    objects = [str(path) for path in [UNIT / f"{name}.o", *objects]]
    if not target.exists():
        _must([*CC, *SANITIZE, "-o", str(target), *objects, "-lcmocka"])
    return target


# Coverage


def build_for_gcov(folder):
    """A module that counts which of its lines are run; its .gcno files for gcov are next to its objects."""
    folder.mkdir(parents=True, exist_ok=True)
    objects = []
    for source in sources():
        objects.append(folder / (Path(source).stem + ".o"))
        _must(["gcc", "-std=c11", "-w", "-O0", "--coverage", *MODULE, "-I.", "-Imodule", "-c", "-o", str(objects[-1]), source])
    _must(["gcc", "-shared", "--coverage", "-o", str(folder / "lock.so"), *map(str, objects)])
    return folder / "lock.so"
