"""What a number format and a training recipe are: data, and their exact meaning."""

from formats.block import BlockFormat
from formats.grid import Grid
from formats.recipe import GEMM_OPERANDS, GEMMS, OPERANDS, Operand, Recipe, plain_recipe
from formats.registry import (
    add_formats_dir,
    list_formats,
    list_recipes,
    load_format,
    load_recipe,
)
from formats.scale import SCALE_FORMATS, ScaleFormat, ScaleRule

__all__ = [
    "GEMMS",
    "GEMM_OPERANDS",
    "OPERANDS",
    "SCALE_FORMATS",
    "BlockFormat",
    "Grid",
    "Operand",
    "Recipe",
    "ScaleFormat",
    "ScaleRule",
    "add_formats_dir",
    "list_formats",
    "list_recipes",
    "load_format",
    "load_recipe",
    "plain_recipe",
]
