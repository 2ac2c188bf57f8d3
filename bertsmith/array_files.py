"""A numpy array -> an .npy file, atomically. It does not know what the numbers mean.

numpy hands a file that is really one to C, whose error on a full disk has no number and names no
file: so the buffer is written here as any other bytes are.

Source: numpy.lib.format.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertsmith.files import atomic_file


def write_array(path: Path, array: npt.NDArray[np.generic]) -> None:
    """Writes the array in C order, byte for byte as `numpy.save` does; no objects.

    Raises OSError, naming the file, where the disk is full.
    """
    assert not array.dtype.hasobject
    array = np.asarray(array, order="C")
    with atomic_file(path) as file:
        header = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(file, header)
        file.write(array.data)
