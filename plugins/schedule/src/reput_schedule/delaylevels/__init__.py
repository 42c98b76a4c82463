"""Engine of the delay levels: park messages by level, deliver them in order, recover progress."""
