"""penstock: quantised networks into bare C."""
