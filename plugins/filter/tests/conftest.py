"""What the tests of filters share: batches in memory."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "support"))
