"""Stand-ins for operators that people run beside a scheduler: each makes the pods of its kinds."""
