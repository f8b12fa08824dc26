"""Make the shipped circuit tables again: python -m hwmodels.regenerate --liberty NAME=PATH ...

NAME becomes the table's file name under hwmodels/data/circuits (osu018, ihp130, asap7, gt2n-w13,
gt2n-w31); a PATH alone takes its file's stem. Takes about two minutes per library on two cores.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hwmodels.circuit_table import FOLDER, make_table, shipped_designs
from hwmodels.liberty import load_liberty


def main() -> int:
    """Write one table per library."""
    parser = argparse.ArgumentParser(prog="python -m hwmodels.regenerate", description=__doc__)
    parser.add_argument("--liberty", nargs="+", required=True, metavar="[NAME=]PATH")
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="DIR")
    options = parser.parse_args()
    try:
        for argument in options.liberty:
            name, equals, path = argument.rpartition("=")
            library = load_liberty(Path(path))
            table = make_table(library, name if equals else library.path.stem, shipped_designs())
            options.out.mkdir(parents=True, exist_ok=True)
            place = options.out / f"{table.library}.json"
            place.write_text(table.model_dump_json(indent=1) + "\n")
            print(f"{place}: {len(table.rows)} parts, {table.tool}, {table.corner}")
    except ValueError as error:
        print(f"hwmodels.regenerate: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
