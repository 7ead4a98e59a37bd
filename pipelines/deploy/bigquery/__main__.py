"""Write the generated files of this package anew."""

from . import FOLDER, generated

for name, content in generated().items():
    (FOLDER / name).write_text(content, "utf-8")
