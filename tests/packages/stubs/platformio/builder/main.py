"""Builds a program for this machine; SCons runs this file."""

from SCons.Script import Default, DefaultEnvironment

environment = DefaultEnvironment()
environment.Replace(PROGSUFFIX="")
Default([environment.BuildProgram()])
