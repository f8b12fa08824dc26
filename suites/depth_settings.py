"""What the suite `depth` may set; nothing here needs torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from suites.recipes import RecipeEntry

Network = Literal["stack", "stack, normalised", "decoder"]
Count = Annotated[int, Field(gt=0)]


class DepthSettings(BaseModel):
    """What is measured.

    Attributes:
        layers: linear layers of a stack, blocks of the decoder.
        width: of either; the decoder's heads are 32 wide.
        tokens: rows of a stack's input; the decoder's are cut into sequences of 64.
        seeds: of weights, inputs and rounding.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    networks: list[Network] = ["stack", "stack, normalised", "decoder"]
    recipes: list[RecipeEntry] = ["e2m1-ref", "ufp4"]
    layers: Count = 16
    width: Annotated[int, Field(gt=0, multiple_of=32)] = 128
    tokens: Annotated[int, Field(gt=0, multiple_of=64)] = 256
    seeds: Count = 3
