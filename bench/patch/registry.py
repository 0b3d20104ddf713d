"""All slips and all kinds that must be refused: to import this is to have them."""

from __future__ import annotations

from importlib import import_module

from bench.patch.refusal import REFUSALS
from bench.patch.slip import SLIPS

__all__ = ["REFUSALS", "SLIPS"]

MODULES = (
    "refusals_answer", "refusals_place", "refusals_text", "refusals_twice", "refusals_unclear",
    "slips_bytes", "slips_drift",
    "slips_forms", "slips_indent", "slips_lines", "slips_names", "slips_near", "slips_numbered",
    "slips_numbers", "slips_odd", "slips_paths", "slips_planted", "slips_sequel", "slips_several",
    "slips_shape", "slips_status", "slips_whole", "slips_withdrawn", "slips_wrap",
)  # fmt: skip

for _module in MODULES:
    import_module(f"bench.patch.{_module}")
