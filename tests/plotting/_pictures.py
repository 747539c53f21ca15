"""What is drawn, read back from the artists, and a plain formula to compare it with."""

import numpy as np


def cut(picture, n_columns, shape):
    """Tiles of a picture without gaps, by a plain loop."""
    height, width = shape[:2]
    n_rows = picture.shape[0] // height
    return [
        picture[i * height : (i + 1) * height, j * width : (j + 1) * width]
        for i in range(n_rows)
        for j in range(n_columns)
    ]


def filled(image):
    """Drawn values, NaN where nothing is drawn."""
    return np.ma.filled(image.get_array(), np.nan)


def plain_psnr(x, y, data_range):
    return 10 * np.log10(data_range**2 / np.mean((x - y) ** 2))
