"""What stands beside a diff: what ran, what is depended on, what is given away, what nobody wrote by hand."""
