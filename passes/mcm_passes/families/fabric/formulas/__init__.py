"""Mapping models without learning: what formulas make of loads, trees and windows."""
