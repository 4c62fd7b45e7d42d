"""Runs of training: data, model directory, validation and reports around the steps."""
