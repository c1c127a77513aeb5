"""Accelerators that show one feature of penstock.uma each; docs/tutorials/uma.md explains them."""
