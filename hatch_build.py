"""A wheel's build -> the same wheel with libraries for many processors in it, `make wheel` alone.

Whoever installs it needs no compiler. An installation from source carries none: there a compiler
builds what this machine needs when it is first needed.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Hatchling's, by the name under which it looks for one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the libraries, and says where in the wheel they lie and what the wheel is for.

        Raises RuntimeError where no such wheel can be built.
        """
        machine, (library, release) = platform.machine(), platform.libc_ver()
        if (sys.platform, machine, library) != ("linux", "x86_64", "glibc"):
            raise RuntimeError(f"such a wheel is for Linux on x86-64 with glibc, not for {machine}")
        self._folder = tempfile.TemporaryDirectory(prefix="bertsmith-wheel-")
        build_data["pure_python"] = False
        # The oldest system that it surely loads on is this one.
        build_data["tag"] = f"py3-none-manylinux_{release.replace('.', '_')}_{machine}"
        for place in self._built(Path(self._folder.name)):
            name = place.relative_to(self._folder.name).as_posix()
            build_data["force_include"][str(place)] = f"bertsmith/built/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Clears up."""
        self._folder.cleanup()

    def _built(self, folder: Path) -> list[Path]:
        sys.path.insert(0, self.root)
        from bertsmith import compiler, processors

        def carry(source: Path, build: compiler.Build) -> Path:
            try:
                return compiler.carry(source, build, folder)
            except (OSError, subprocess.SubprocessError) as error:
                raise RuntimeError(f"{source.name}: {compiler.reason(error)}") from error

        sources = sorted(Path(self.root, "bertsmith").rglob("*.cpp"))
        pairs = [(source, build) for source in sources for build in processors.carried(source)]
        if not compiler.is_there():
            raise RuntimeError(f"no compiler: {len(pairs)} libraries need g++, 12 or newer")
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            # The most instructions first: a compiler that is too old fails at once.
            built = [pool.submit(carry, *pair) for pair in reversed(pairs)]
            try:
                return [each.result() for each in built]
            except RuntimeError:
                pool.shutdown(cancel_futures=True)  # the others would take minutes
                raise
