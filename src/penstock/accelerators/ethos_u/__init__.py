"""ethos_u: the Ethos-U NPUs of Arm."""
