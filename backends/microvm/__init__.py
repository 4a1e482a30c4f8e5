"""The ``microvm`` tier's machinery: guests of their own kernel behind one protocol, :mod:`.vmm`."""
