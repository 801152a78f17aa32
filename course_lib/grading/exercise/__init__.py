"""What an exercise is: cases, inputs, probes, submissions, registry. May import: processes.protocol, reference."""
