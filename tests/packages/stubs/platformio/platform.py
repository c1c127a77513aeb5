"""The platform `native`: programs for this machine."""

from platformio.public import PlatformBase


class NativePlatform(PlatformBase):
    """Needs no package."""
