"""ethos_u: backends for Arm's Ethos-U55 and Ethos-U65 NPUs."""
