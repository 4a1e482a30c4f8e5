"""Whether host and boxes still keep their promises: one module for each subject, findings, safe repairs."""
