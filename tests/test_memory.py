"""What this process asks of the system for its memory."""

import subprocess
import sys

import pytest

from bertsmith.memory import ask_for_large_pages

AGAIN_AND_AGAIN = """
import resource, sys
from bertsmith.memory import keep_freed_memory
if sys.argv[1] == "kept" and not keep_freed_memory():
    sys.exit(3)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytearray(1 << 26)
before = faults()
for _ in range(20):
    bytearray(1 << 26)
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_kept_memory_comes_back_without_page_faults():
    found = {}
    for how in ("kept", "given back"):
        ran = subprocess.run(
            [sys.executable, "-c", AGAIN_AND_AGAIN, how],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode == 3:
            pytest.skip("another C library")
        found[how] = int(ran.stdout)
    assert found["given back"] > 20  # at least one huge page a time
    assert found["kept"] < 0.1 * found["given back"]


FREED_AT_THE_END = """
import ctypes, sys
from bertsmith.memory import keep_freed_memory
if not keep_freed_memory():
    sys.exit(3)
malloc, free, sbrk = (ctypes.CDLL(None)[name] for name in ("malloc", "free", "sbrk"))
malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
free.argtypes, sbrk.restype = [ctypes.c_void_p], ctypes.c_void_p
def pages():
    return int(open("/proc/self/statm").read().split()[0])
end = sbrk(0)
block = malloc(3 << 30)  # never written: it takes no memory
if not block or sbrk(0) == end:  # or it is no part of what could be cut off
    sys.exit(3)
before = pages()
free(block)
print(before - pages())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_three_freed_gigabytes_are_kept_too():
    command = [sys.executable, "-c", FREED_AT_THE_END]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode == 3:
        pytest.skip("another C library, or no such block")
    assert int(ran.stdout) <= 0  # whoever else asks for memory meanwhile makes it less


LARGE = """
import sys, torch
from bertsmith.memory import ask_for_large_pages
numbers = torch.empty(1 << 24)
if not ask_for_large_pages(numbers.data_ptr(), 4 * len(numbers)):
    sys.exit(3)
numbers.zero_()
first, names = numbers.data_ptr() + (1 << 22), {}
for line in open("/proc/self/smaps"):
    name, *values = line.split()
    if not name.endswith(":"):
        start, end = (int(each, 16) for each in name.split("-"))
        is_here = start <= first < end
    elif is_here:
        names[name] = values
print(names["AnonHugePages:"][0], " hg" in " ".join(["", *names["VmFlags:"]]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's large pages")
def test_large_pages_are_asked_for_where_the_numbers_lie():
    ran = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=False)
    if ran.returncode == 3:
        pytest.skip("a system without large pages")
    assert ran.stdout, ran.stderr
    num_kilobytes, is_asked_for = ran.stdout.split()
    assert is_asked_for == "True"
    if num_kilobytes == "0":
        pytest.skip("the system has none left")
    assert int(num_kilobytes) >= 1 << 11


def test_less_than_a_large_page_is_nothing_to_ask_for():
    assert not ask_for_large_pages(4097, (1 << 22) - 4098)
