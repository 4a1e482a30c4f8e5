"""The screens of the workbench, one module each."""
