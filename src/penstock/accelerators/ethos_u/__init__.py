"""ethos_u: Arm's Ethos-U NPUs."""
