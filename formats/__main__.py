"""``python -m formats`` writes the JSON Schemas that editors use for format and recipe files."""

import json
from pathlib import Path

from formats.schema import json_schemas

for name, schema in json_schemas().items():
    text = json.dumps(schema, indent=1, sort_keys=True) + "\n"
    (Path(__file__).parent / name).write_text(text, encoding="utf-8")
