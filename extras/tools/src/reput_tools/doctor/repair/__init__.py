"""Repairs a damaged store: makes a plan, then a valid copy, or repairs it in place with a backup.

`plan` looks at everything and changes nothing; `repair` does what a plan says. Users call
`reput_tools.doctor.repair.repairrun.repair`, or ``reput repair``.
"""

from __future__ import annotations
