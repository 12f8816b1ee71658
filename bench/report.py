"""How the benchmarks in Python tell a row of figures."""
import json


def row(as_json, name, **values):
    """One line: an object, or the name and its values."""
    if as_json:
        print(json.dumps({"name": name, **values}), flush=True)
    else:
        print(name + ": " + ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                                      for k, v in values.items()), flush=True)
