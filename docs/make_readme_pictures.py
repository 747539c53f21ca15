"""Write the pictures of the README from the last run of the gallery: `make docs`, then this.

Files that are too large get a palette of 256 colours.
"""

from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parent
LIMIT = 150_000  # bytes
# name in docs/images: example, number of the figure in it
PICTURES = {
    "denoise": ("plot_denoise", 1),
    "inpaint": ("plot_inpaint", 1),
    "atoms": ("plot_atoms", 1),
}


def main():
    """Copy every picture."""
    for name, (example, number) in PICTURES.items():
        source = DOCS / "gallery" / "images" / f"sphx_glr_{example}_{number:03d}.png"
        target = DOCS / "images" / f"{name}.png"
        target.parent.mkdir(exist_ok=True)
        with Image.open(source) as picture:
            picture = picture.convert("RGB")
        if source.stat().st_size > LIMIT:
            # colours that cover the range, then moved to where most pixels are
            method = Image.Quantize.MAXCOVERAGE
            picture = picture.quantize(256, method, kmeans=3, dither=Image.Dither.NONE)
        picture.save(target, optimize=True)
        print(f"{target.name}: {target.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
