"""Servers from Debian's packages, which are unpacked, not installed: installed packages would start services, now and at
each boot."""

import shutil
import subprocess
from pathlib import Path

from .competitors import BUILT


def unpacked(name, packages):
    """The folder of the unpacked packages, or None if they are not available. A folder that exists is complete."""
    folder = BUILT / "debian" / name
    if folder.exists():
        return folder
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        return None
    new = Path(f"{folder}.new")
    shutil.rmtree(new, ignore_errors=True)
    (new / "deb").mkdir(parents=True)
    with open(f"{folder}.log", "w") as log:
        done = subprocess.run(["apt-get", "-qq", "download", *packages], cwd=new / "deb", stdout=log, stderr=log)
        if done.returncode:
            return None
        for package in (new / "deb").iterdir():
            subprocess.run(["dpkg", "-x", package, new], stdout=log, stderr=log, check=True)
    shutil.rmtree(new / "deb")
    new.rename(folder)
    return folder


def depends_on(package):
    """The first dependency of a package: that of postgresql is the release that Debian has."""
    if not shutil.which("apt-cache"):
        return None
    shown = subprocess.run(["apt-cache", "depends", package], capture_output=True, text=True).stdout
    return next((line.split()[1] for line in shown.splitlines() if line.strip().startswith("Depends:")), None)
