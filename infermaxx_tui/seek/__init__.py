"""The parts that `infermaxx_tui.index` finds its way in a log with."""
